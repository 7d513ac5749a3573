"""Code on a page: sources, excerpts and differences."""

import inspect

from course_lib.kernels.lite import _lite_kernel
from course_lib.kernels.online import _online_kernel
from course_lib.show.display import difference, excerpt, source


def test_the_lite_and_online_kernels_differ_in_the_online_lines_only() -> None:
    lines = [line for line in difference(_lite_kernel, _online_kernel).data.splitlines() if line[:1] in "+-"]
    added, removed = [x for x in lines if x[0] == "+"], [x for x in lines if x[0] == "-"]
    assert (len(added), len(removed)) == (9, 3)  # lecture 05 says so
    assert any("correction = tl.exp(m - m_new)" in line for line in added)
    assert source(_lite_kernel).data.startswith(
        "`course_lib/kernels/lite.py`\n\n```python\n@triton.jit\ndef _lite_kernel("
    )
    assert "fmt: skip" in inspect.getsource(_lite_kernel.fn)
    assert "fmt: skip" not in source(_lite_kernel).data


def test_an_excerpt_is_the_lines_between_two_words(tmp_path) -> None:
    path = tmp_path / "code.cpp"
    path.write_text("one\n  two {\n    three\n  }\nfour\n")
    assert excerpt(path, "two", "four").data == "`code.cpp`\n\n```cpp\ntwo {\n  three\n}\n```"


def test_new_lines_of_an_excerpt_are_marked(tmp_path) -> None:
    path = tmp_path / "code.py"
    path.write_text("a = 1\nb = a\nc = b\nend\n")
    assert excerpt(path, "a = 1", "end", new=["b = a"]).data == "`code.py`\n\n```diff\n  a = 1\n+ b = a\n  c = b\n```"
