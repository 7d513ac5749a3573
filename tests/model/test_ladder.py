"""The ladder: every rung against float64, gradients against torch, counts against formulas, and what a missing compiler says."""

import math
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import ladder, runtime
from course_lib.ladder import cpp, python
from course_lib.ladder.value import Value
from course_lib.model import reference
from course_lib.publish import notebooks

RUNGS = ladder.rungs()
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))) and "COURSE_REQUIRE_COMPILER" not in os.environ,
    reason="no C++ compiler here: install Debian's package `g++`",
)
EXACT = [name for name, rung in RUNGS.items() if rung.precision == "float64"]
KERNELS = [name for name, rung in RUNGS.items() if rung.precision != "float64"]
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 12), st.integers(1, 17), st.integers(0, 2**31))


def inputs(n_q, n_k, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, dtype=torch.float64, generator=generator) for n in (n_q, n_k, n_k)]


@needs_compiler
@pytest.mark.kernel
@settings(max_examples=25)
@given(shape=SHAPES, size=st.sampled_from([1.0, 30.0]))
def test_every_rung_gives_the_oracles_answer(shape, size) -> None:
    q, k, v = inputs(*shape)
    q = q * size
    right = reference.attention(q, k, v)
    for name in EXACT:
        torch.testing.assert_close(RUNGS[name](q, k, v), right, atol=1e-12 * size, rtol=1e-12, msg=name)
    for name in KERNELS:
        torch.testing.assert_close(RUNGS[name](q, k, v), right, atol=2e-5 * size, rtol=1e-4, msg=name)


@settings(max_examples=20)
@given(shape=SHAPES)
def test_gradients_are_torchs(shape) -> None:
    q, k, v = inputs(*shape)
    do = torch.randn(q.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    o = torch.softmax(leaves[0] @ leaves[1].T / math.sqrt(q.shape[1]), dim=-1) @ leaves[2]
    right = torch.autograd.grad(o, leaves, do)
    for mine, other in zip(python.value_gradients(*(x.tolist() for x in (q, k, v, do))), right):
        torch.testing.assert_close(torch.as_tensor(mine, dtype=torch.float64), other, atol=1e-9, rtol=1e-9)


@needs_compiler
@settings(max_examples=20)
@given(shape=SHAPES)
def test_python_and_cpp_make_as_many_nodes_as_the_formula_says(shape) -> None:
    q, k, v = inputs(*shape)
    before = Value.created
    python.attention_values(*(python.values(x.tolist()) for x in (q, k, v)))
    expected = python.node_count(*shape[:3])
    assert (Value.created - before, cpp.attention_nodes(q, k, v)[1]) == (expected, expected)


def test_a_value_used_twice_gets_both_gradients_and_depth_does_not_matter() -> None:
    x, y = Value(3.0), Value(2.0)
    z = x * x + x / y - (x * y).exp()
    z.backward()
    assert x.grad == pytest.approx(2 * 3 + 1 / 2 - 2 * math.exp(6))
    assert y.grad == pytest.approx(-3 / 4 - 3 * math.exp(6))
    total = start = Value(1.0)
    for _ in range(5000):  # far deeper than Python's recursion limit
        total = total + start
    total.backward()
    assert start.grad == 5001


@needs_compiler
def test_timings() -> None:
    with torch.device("meta"):  # a default device on which nothing can be read
        rows = ladder.timings([4, 128], seconds_each=0.001)
    assert {r["rung"] for r in rows if r["n"] == 4} == set(RUNGS)
    assert "Python + autograd" not in {r["rung"] for r in rows if r["n"] == 128}
    assert all(0 < r["quarter"] <= r["seconds"] <= r["three_quarters"] for r in rows)


@needs_compiler
def test_memory_of_the_rungs() -> None:
    n, d = 32, 16
    found = {name: ladder.peak_bytes(rung, n, d) for name, rung in RUNGS.items()}
    assert found["C++ nodes"] == python.node_count(n, n, d) * 48 + 8 * n * d
    assert found["C++ -O3"] == 8 * n + 8 * n * d
    assert found["PyTorch, CPU"] == 2 * 8 * n * n
    assert found["Python + autograd"] > 50 * python.node_count(n, n, d)
    assert found["Python"] < found["Python + autograd"] / 100


# --- what can go wrong ---


Q, K, V = inputs(3, 4, 5)
ROWS = python.values([[1.0, 2.0], [3.0, 4.0]])
BAD = [
    (lambda: RUNGS["C++ -O2"](Q, K[:, :4], V), "q has head dimension 5 but k has 4"),
    (lambda: RUNGS["C++ -O2"](Q.long(), K, V), r"q has dtype torch\.int64"),
    (lambda: cpp.attention_flat(Q.float(), K.float(), V.float()), "q is torch.float32 on cpu"),
    (lambda: cpp.attention_nodes(Q, K, V[:3]), "k has 4 rows but v has 3"),
    (lambda: python.attention_floats(ROWS, ROWS, ROWS[:1]), "k has 2 rows but v has 1"),
    (lambda: python.attention_values([ROWS[0], ROWS[1][:1]], ROWS, ROWS), r"q\[1\] has 1 numbers but q\[0\] has 2"),
    (lambda: python.value_gradients(*[[[1.0, 2.0]]] * 3, [[1.0]]), "shorter"),
    (lambda: ladder.timings([8, -1]), r"lengths\[1\] is -1"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input(call, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@needs_compiler
@pytest.mark.parametrize("function", ["attention_nodes", "try_attention_flat"])
def test_where_memory_runs_out_the_process_lives_on(function) -> None:
    n, d = (2**26, 1) if function == "try_attention_flat" else (1024, 16)
    program = f"""
import ctypes, resource
function = ctypes.CDLL({cpp.library("-O2")._name!r}).{function}
function.restype = ctypes.c_long
resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
some = (ctypes.c_double * {1024 * 16})()
sizes = [ctypes.c_long(x) for x in ({1024 if d > 1 else 0}, {n}, {d})]
print(function(*[some] * 4, *sizes))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "-1\n"), done.stderr


@needs_compiler
def test_what_would_take_all_memory_or_minutes_is_refused_before_any_work() -> None:
    x = torch.zeros(1024, 16, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"q is \[1024, 16\] .* which makes 71,3\d\d,\d\d\d nodes"):
        cpp.attention_nodes(x, x, x)
    for name, rung in RUNGS.items():
        q = torch.zeros(rung.largest + 1, 2)
        message = f"has {rung.largest + 1:,} rows; pass at most {rung.largest:,} to the rung '{re.escape(name)}'"
        for rows in ((q, q[:1], q[:1]), (q[:1], q, q)):
            with pytest.raises(ValueError, match=message):
                rung(*rows)


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """No library loaded yet, and a cache folder of its own."""
    cpp.library.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path
    cpp.library.cache_clear()


def test_without_a_compiler_the_rungs_are_marked_missing(fresh, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.delenv("CXX", raising=False)
    rungs = ladder.rungs()
    assert set(rungs) == set(RUNGS)
    assert [name for name, rung in rungs.items() if rung.missing] == ["C++ nodes", "C++ -O2", "C++ -O3"]
    with pytest.raises(RuntimeError, match=r"'C\+\+ nodes' cannot run here: no C\+\+ compiler"):
        rungs["C++ nodes"](*inputs(2, 2, 2))
    assert not {r["rung"] for r in ladder.timings([4], seconds_each=0.001)} & {"C++ nodes", "C++ -O2", "C++ -O3"}
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(cpp.CompilerMissingError, match="CXX is 'no-such-compiler', which is not a program here"):
        cpp.compiler()


@pytest.mark.kernel
@pytest.mark.weekly  # nbval runs the lecture each time, with one
@pytest.mark.skipif(
    runtime.mode() == "GPU", reason="on a GPU Triton needs a compiler, too: it builds its launchers with it"
)
def test_the_lecture_runs_without_a_compiler(fresh, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.chdir(notebooks.NOTEBOOKS)
    timings = ladder.timings
    monkeypatch.setattr(ladder, "timings", lambda lengths, **_: timings(lengths, seconds_each=0.001))
    path = notebooks.lecture("15")
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    namespace: dict[str, object] = {"__name__": "__main__"}
    for cell in cells:
        if "ladder" in cell.source or "measured" not in cell.metadata.get("tags", []):  # the others time Python alone
            exec(compile(cell.source, f"{path.name}:{cell.id}", "exec"), namespace)
    assert "no C++ rung on this machine: no C++ compiler" in capsys.readouterr().out
