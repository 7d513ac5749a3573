"""What a student may hand to ``check``, or set on a page before it: the kernel lives, and ``check`` answers in words."""

import json
import os
import socket
import subprocess
import sys
import warnings
from types import SimpleNamespace

import IPython.core.interactiveshell as ipython
import pytest
import torch

from course_lib import runtime
from course_lib.exercises import check, hint
from course_lib.exercises.catalogue import exercises
from course_lib.exercises.checker import checking, compiling, progress_file
from course_lib.exercises.page import functions
from course_lib.exercises.page.definitions import definitions
from course_lib.exercises.processes.forked_process import Outcome, outcomes

pytestmark = [
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter"),
    pytest.mark.usefixtures("own_progress"),
]


def answer(name="phase_of"):
    """A new right answer with nothing odd about it."""
    return definitions(["import math\nimport torch", exercises()[name].solution.source], [name]).space[name]


class Exits:
    """Ends the process when anything is asked of it."""

    def __getattribute__(self, name):
        os._exit(8)

    __repr__ = __getattribute__


class Named(str):
    def __eq__(self, other):
        os._exit(3)

    __hash__ = str.__hash__


# --- what is handed in ---


@pytest.mark.parametrize("ask", [check, hint])
@pytest.mark.parametrize(
    "make",
    [
        Exits,
        lambda: [Exits()],
        lambda: len,
        lambda: None,
        lambda: SimpleNamespace(__name__=3),
        lambda: SimpleNamespace(__name__=Named("phase_of")),
        lambda: Named("phase_of"),
    ],
)
def test_what_is_no_function_is_refused_without_asking_it(ask, make) -> None:
    with pytest.raises(ValueError, match="exercise is a"):
        ask(make())


def _wraps_itself(f):
    f.__wrapped__ = f


def _signed_oddly(f):
    f.__signature__ = 3


@pytest.mark.parametrize("change", [_wraps_itself, _signed_oddly])
def test_a_function_with_odd_attributes_is_checked(change) -> None:
    function = answer()
    change(function)
    assert check(function).status == "passed"


def test_an_object_is_called_where_it_can_do_no_harm() -> None:
    class Stands:
        __name__ = "phase_of"

        def __getattr__(self, name):
            os._exit(8)

        def __call__(self, *args):
            return answer()(*args)

    assert check(Stands()).status == "passed"


class OddCauseError(Exception):
    __cause__ = "no exception"  # type: ignore[assignment]


def test_an_exception_with_an_odd_cause_is_named() -> None:
    def fails():
        raise OddCauseError("so")

    [found] = outcomes(fails, [fails])
    assert "OddCauseError: so" in found.result.words


@pytest.mark.parametrize("of", [Outcome.of, checking.Report.of])
def test_forged_bits_are_no_words(of) -> None:
    bits = torch.zeros(1, dtype=torch.uint8).view(torch.bits8)
    with pytest.raises(ValueError, match="not the data"):
        of([True, ["a", "b"], bits, []] if of == Outcome.of else ["a", "b", [], "c", [], "d", bits])


# --- what the caller has open ---


def test_a_kernels_sockets_and_files_are_not_the_functions(tmp_path) -> None:
    one, other = socket.socketpair()
    with (tmp_path / "history").open("wb") as file:

        def meddles():
            for descriptor in (other.fileno(), file.fileno()):
                os.write(descriptor, b"nonsense")
            socket.socket(fileno=other.fileno()).shutdown(socket.SHUT_RDWR)

        [found] = outcomes(meddles, [meddles])
        assert "not a socket" in found.result.words or "non-socket" in found.result.words
        one.sendall(b"still open")
        assert other.recv(99) == b"still open"
        other.sendall(b"both ways")
        assert one.recv(99) == b"both ways"
        assert file.tell() == 0
    one.close()
    other.close()
    assert (tmp_path / "history").read_bytes() == b""


# --- what a page sets ---


@pytest.mark.parametrize("name", ["lite_weights", "merge_states", "softcap_with_gradient"])
def test_a_pages_settings_stay_its_own(name, monkeypatch) -> None:
    monkeypatch.setattr("course_lib.exercises.checker.material._known", {})
    function = answer(name)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"), torch.inference_mode():
            report = check(function)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert report.status == "passed", report


def _no_room(*args):
    raise OSError(24, "Too many open files")


def _gone(*args):
    raise TypeError("'NoneType' object is not callable")


@pytest.mark.parametrize(
    ("place", "odd"), [("os.pipe", _no_room), ("os.fork", _no_room), ("json.loads", _gone), ("torch.isclose", _gone)]
)
def test_a_check_that_breaks_off_says_so_and_notes_nothing(place, odd, monkeypatch) -> None:
    function, before = answer("lite_weights"), len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(place, odd)
        report = check(function)
    assert report.status == "failed"
    assert "broke off" in report.failed
    assert not progress_file.load()
    assert len(os.listdir("/dev/fd")) == before


def test_warnings_as_exceptions_lose_no_result(tmp_path) -> None:
    (tmp_path / "progress.json").write_text("{")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("error")
        assert check(answer()).status == "passed"
        assert progress_file.load() == {"phase_of": "passed"}
    assert "kept as progress.json.broken-1" in str(seen[0].message)


@pytest.mark.parametrize("number", [True, 1.0, "1", 4, [1]])
def test_a_hints_number_is_one(number) -> None:
    with pytest.raises(ValueError, match="number"):
        hint("phase_of", number)


# --- where a kernel is written ---


def test_a_page_may_call_anything_in(monkeypatch) -> None:
    shell = ipython.InteractiveShell()
    monkeypatch.setattr(functions, "get_ipython", lambda: shell)
    shell.run_cell("In = 5\ndef f(): return In", store_history=True)
    assert any("def f()" in source for source in functions.page_of(shell.user_ns["f"]))


def test_a_kernel_from_a_module_of_the_students_own_compiles(tmp_path) -> None:
    source = exercises()["matmul_kernel"].solution.source
    (tmp_path / "sizes.py").write_text("from course_lib.kernels import tl, triton\n")
    (tmp_path / "mine.py").write_text(f"from sizes import tl, triton\n{source}")
    script = (
        "import json\nfrom IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
        "shell.run_cell('from mine import matmul_kernel\\nfrom course_lib.exercises import check', store_history=True)\n"
        "print(json.dumps(list(shell.run_cell('check(matmul_kernel)', store_history=True).result)))"
    )
    paths = os.pathsep.join([str(compiling.ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": paths}, cwd=tmp_path, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1])[1] == "passed", done.stdout


# --- pages ---


@pytest.mark.parametrize(
    ("page", "right"),
    [
        (["\ufeffdef f(x):\n    return 2"], 2),
        (["def make():\n    global f\n    def f(x): return 6\nf = None\nmake()"], 6),
        (["A = B = []\nB.append(3)", "def f(x): return A[0]"], 3),
        (["A = []\nB = {'k': A}\nB['k'].append(3)", "def f(x): return A[0]"], 3),
        (["T = []\nlist(map(T.append, range(3)))", "def f(x): return T[2]"], 2),
        (["A = []\nimport threading\nt = threading.Thread(target=A.append, args=(3,))\nt.start(); t.join()", "def f(x): return A[0]"], 3),
        (["import torch\nW = torch.zeros(3)\ntorch.add(W, 1, out=W)", "def f(x): return int(W[0])"], 1),
        (["import numpy as np\nW = np.zeros(3)\nnp.add.at(W, [0], 4)", "def f(x): return int(W[0])"], 4),
        (["import operator\nD = {}\noperator.setitem(D, 'a', 2)", "def f(x): return D['a']"], 2),
        (["def f(x): return 1\ncheck(function=f)\ndef f(x): return 2"], 1),
        (["def f(x): return 1\ne.check(f)", "def f(x): return 2"], 1),
    ],
)  # fmt: skip
def test_however_a_page_is_written(page, right) -> None:
    assert definitions(page, ["f"]).space["f"](0) == right
