"""A student's function in processes of its own, as grading calls it where calls are to know nothing of each other."""

import contextlib
import fcntl
import io
import os
import resource
import socket
import sys
import threading
import time

import pytest
import torch

from course_lib.exercises.harness.guarded_memory import GuardedMemory, Near, far
from course_lib.exercises.processes.apart import Page
from course_lib.exercises.processes.forked_process import EndedError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
SEEN: list[object] = []


def called(function):
    return Page(lambda: (("defined", "its source"), function), contextlib.nullcontext, lambda: None)


def test_plain_results_and_how_the_definition_went() -> None:
    with called(lambda x, y: (x + y, {"a": [x]})) as page:
        assert page() == ("defined", "its source")
        assert page(1, 2) == (3, {"a": [1]})


def test_a_call_knows_nothing_of_another_and_changes_no_argument() -> None:
    def function(x):
        SEEN.append(x)
        x.fill_(7)
        return len(SEEN)

    x = torch.zeros(3)
    with called(function) as page:
        assert [page(x) for _ in range(3)] == [1, 1, 1]
    assert x.tolist() == [0, 0, 0]
    assert SEEN == []


def test_what_it_is_not_to_know_is_forgotten() -> None:
    secret = ["the cases"]
    with Page(lambda: ((), lambda x: list(secret)), contextlib.nullcontext, secret.clear) as page:
        assert page(0) == []
    assert secret == ["the cases"]


def test_functions_are_called_where_they_are() -> None:
    calls = []

    def own(a, b=1):
        if b == 0:
            raise ValueError("b is 0")
        calls.append((a, b))
        return a / b

    def function(x, ask):
        with pytest.raises(RuntimeError, match="ValueError: b is 0"):
            ask(x, b=0)
        return ask(x, b=2) + ask(x)

    with called(function) as page:
        assert page(6, own) == 9
    assert calls == [(6, 2), (6, 1)]


def test_a_generator_sees_what_its_tensors_become() -> None:
    def function(x):
        print("begun")
        y = yield ("post", x)
        before = y.tolist()
        yield ("wait",)
        return before, y.tolist()

    said = io.StringIO()
    with called(function) as page, contextlib.redirect_stdout(said):
        code = page(torch.ones(2))
        kind, x = next(code)
        empty = torch.full((2,), torch.nan)
        assert (kind, x.tolist()) == ("post", [1, 1])
        assert code.send(empty) == ("wait",)
        empty.copy_(x + 1)
        with pytest.raises(StopIteration) as end:
            code.send(None)
    before, after = end.value.value
    assert all(value != value for value in before)
    assert after == [2, 2]
    assert said.getvalue() == "begun\n"


def test_failures_are_told_as_where_there_is_one_process() -> None:
    def function(x):
        print("so far")
        if x == 1:
            os._exit(3)
        return x / 0

    said = io.StringIO()
    with called(function) as page, contextlib.redirect_stdout(said):
        with pytest.raises(EndedError) as error:
            page(0)
        assert error.value.failure.words == "ZeroDivisionError: division by zero"
        assert error.value.failure.line == "line 5: return x / 0"
        with pytest.raises(EndedError, match="its process ended"):
            page(1)
    assert said.getvalue() == "so far\n"


def test_a_memory_is_counted_where_it_is() -> None:
    def function(memory, x, rows):
        assert all(y.isnan().all() for y in (x.data, x._numbers, memory.tensors["x"].data))
        memory.trace.append("forged")
        with memory.scope("rows"):
            tile = memory.load(x[0:rows])
            seen = tile.tolist()
            memory.tile("sum", tile + tile)
            memory.store(x[0:rows], tile + 1)
        assert tile.isnan().all()
        return seen, memory.resident_bytes

    memory = GuardedMemory(1000)
    x = memory.hbm("x", torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    with called(Near(function)) as page:
        assert page(*far(memory, x, 1)) == ([[1, 2]], 0)
    assert memory.stored("x").tolist() == [[2, 3], [3, 4]]
    assert [event.op for event in memory.trace] == ["load", "tile", "store", "free", "free"]
    assert memory.resident_bytes == 0


def test_no_word_goes_by_a_file(tmp_path) -> None:
    def function(x):
        (tmp_path / "word").write_text("word")

    with called(function) as page, pytest.raises(EndedError, match=r"File too large|Operation not permitted"):
        page(0)


PARENT = os.getpid()
WORDS = {
    "a folder": lambda folder: (folder / "word").mkdir(),
    "a link": lambda folder: (folder / "word").symlink_to("word"),
    "an empty file": lambda folder: (folder / "word").touch(),
    "a pipe": lambda folder: os.mkfifo(folder / "word"),
    "a time": lambda folder: os.utime(folder, (1, 2)),
    "a mode": lambda folder: folder.chmod(0o711),
    "an attribute": lambda folder: os.setxattr(folder, "user.word", b"word"),
    "a lock": lambda folder: fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH),
    "a socket": lambda folder: socket.socket(socket.AF_UNIX),
    "another process": lambda folder: os.fork(),
    "a signal": lambda folder: os.kill(PARENT, 0),
    "a limit": lambda folder: resource.prlimit(PARENT, resource.RLIMIT_STACK),
    "a priority": lambda folder: os.getpriority(os.PRIO_PROCESS, PARENT),
}


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")
@pytest.mark.parametrize("by", WORDS)
def test_no_word_goes_by(by, tmp_path) -> None:
    with called(lambda x: WORDS[by](tmp_path)) as page, pytest.raises(EndedError, match="Operation not permitted"):
        page(0)


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")
def test_what_an_answer_needs_is_left(tmp_path) -> None:
    (tmp_path / "read").write_text("read")

    def function(x):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        return (
            (tmp_path / "read").read_text(),
            resource.getrlimit(resource.RLIMIT_FSIZE)[0],
            len(os.sched_getaffinity(0)) > 0,
        )

    with called(function) as page:
        assert page(0) == ("read", 0, True)


def test_a_call_costs_little() -> None:
    with called(lambda x: x) as page:
        begin = time.monotonic()
        for _ in range(20):
            page(1)
        assert time.monotonic() - begin < 4
