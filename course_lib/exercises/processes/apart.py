"""A student's function in processes of its own, one for each call, out of reach of whoever runs the case and of its other calls.

They are forked by a process that knows neither cases nor results, and in which no code of a student's runs. What a call is given are
plain data, and functions, which are called where they are; what it gives back are plain data, or requests of a generator.
"""

import collections.abc
import contextlib
import gc
import io
import itertools
import os
import resource
import socket
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from course_lib.exercises import values
from course_lib.exercises.processes import isolation, seccomp
from course_lib.exercises.processes.forked_process import EndedError, Failure, Tail, failure

MOST = 100  # tensors that a generator was given, and that may still change
Define = Callable[[], tuple[Any, Callable[..., Any]]]
Setting = Callable[[], contextlib.AbstractContextManager[None]]


class Page:
    """Calls of a function, as a context. ``define()`` says how its definition went, which a call without arguments gives back, and
    returns the function; ``setting()`` is the context that it is called in. ``forget()`` drops what the function is not to know.
    """

    def __init__(self, define: Define, setting: Setting, forget: Callable[[], Any]):
        self._define, self._setting, self._forget = define, setting, forget

    def __enter__(self) -> "Page":
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            try:
                self._control.close()
                isolation.quiet((theirs.fileno(),))
                self._forget()
                _serve(theirs, self._define, self._setting)
            finally:
                os._exit(1)
        theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()

    def __call__(self, *args: Any) -> Any:
        """What the function returns, or a generator if that is one. Raises EndedError for a call that fails."""
        mine, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"call"], [theirs.fileno()])
        return _Call(mine, args).result()


class _Call:
    """One call, as its caller sees it."""

    def __init__(self, wire: socket.socket, args: Sequence[Any]):
        self._wire = wire
        self._functions = [x for x in args if callable(x)]
        self._given: dict[int, tuple[torch.Tensor, int]] = {}  # to a generator, with its version, by number
        self._numbers = itertools.count()
        _put(wire, [None if callable(x) else (x,) for x in args])

    def result(self) -> Any:
        kind, *rest = self._next()
        if kind == "generator":
            return _Requests(self)
        self._wire.close()
        return rest[0]

    def go_on(self, value: Any) -> Any:
        """Send a generator a value; its next request. Raises StopIteration at its end.

        Of the tensors that it was given before, those that have changed are sent again, each once: a message arrives once.
        """
        changed = [(i, x) for i, (x, version) in self._given.items() if x._version != version]
        for i, _ in changed:
            del self._given[i]
        self._given |= {i: (x, x._version) for x, i in zip(_tensors(value), self._numbers)}
        for i in list(self._given)[:-MOST]:
            del self._given[i]
        _put(self._wire, (value, changed))
        kind, *rest = self._next()
        if kind == "yields":
            return rest[0]
        self._wire.close()
        raise StopIteration(rest[0])

    def _next(self) -> tuple[Any, ...]:
        """What the function does next, but for calls of the functions that it was given."""
        while True:
            try:
                kind, *rest = _got(self._wire)
                if kind == "asks":
                    number, args, named = rest
                    _put(self._wire, self._asked(int(number), args, named))
                    continue
                printed, *rest = rest
            except (OSError, ValueError, TypeError):
                raise EndedError(Failure("crash", "its process ended; the notebook is unharmed")) from None
            print(printed, end="")
            if kind == "fails":
                raise EndedError(Failure(*map(values.printable, rest)))
            return kind, *rest

    def _asked(self, number: int, args: Any, named: Any) -> tuple[bool, Any]:
        try:
            return True, self._functions[number](*args, **named)
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"


class _Requests(collections.abc.Generator[Any, Any, Any]):
    """A generator in another process."""

    def __init__(self, call: _Call):
        self._call = call

    def send(self, value: Any) -> Any:
        """As of any generator."""
        return self._call.go_on(value)

    def throw(self, *_: Any) -> NoReturn:
        """It ends with its process."""
        raise GeneratorExit


def _serve(control: socket.socket, define: Define, setting: Setting) -> NoReturn:
    """Fork a process for each call."""
    gc.freeze()  # or each fork's first collection copies all memory
    while True:
        message, descriptors, *_ = socket.recv_fds(control, 10, 1)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            isolation.quiet(descriptors)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # no word to another call
            seccomp.alone()  # and no other way to one
            with socket.socket(fileno=descriptors[0]) as wire:
                _answer(wire, define, setting)
            os._exit(0)
        os.close(descriptors[0])


def _answer(wire: socket.socket, define: Define, setting: Setting) -> None:
    """The other end of a call."""
    told = Tail()
    function: Any = None
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            went, function = define()
            with setting():
                _run(wire, told, function, went)
    except BaseException as error:
        found = failure(function, error)
        _put(wire, ("fails", told.text, found.kind, found.words, found.line))


def _run(wire: socket.socket, told: Tail, function: Callable[..., Any], went: Any) -> None:
    numbers = itertools.count()
    args = [_far(wire, next(numbers)) if x is None else x[0] for x in _got(wire)]
    result = function(*args) if args else went
    if not isinstance(result, collections.abc.Generator):
        _put(wire, ("returns", told.text, result))
        return
    _put(wire, ("generator", told.take()))
    given: dict[int, torch.Tensor] = {}
    numbers = itertools.count()
    while True:
        value, changed = _got(wire)
        for i, x in changed:
            given.pop(i).copy_(x)
        given |= {i: x for x, i in zip(_tensors(value), numbers)}
        try:
            request = result.send(value)
        except StopIteration as end:
            _put(wire, ("stops", told.take(), end.value))
            return
        _put(wire, ("yields", told.take(), request))


def _far(wire: socket.socket, number: int) -> Callable[..., Any]:
    """A function that is called where it is."""

    def ask(*args: Any, **named: Any) -> Any:
        _put(wire, ("asks", number, args, named))
        done, found = _got(wire)
        if not done:
            raise RuntimeError(found)
        return found

    return ask


def _tensors(value: Any) -> list[torch.Tensor]:
    """Those in a value, in order."""
    if isinstance(value, tuple | list):
        return [x for part in value for x in _tensors(part)]
    return [value] if isinstance(value, torch.Tensor) else []


def _put(wire: socket.socket, value: Any) -> None:
    data = values.written(value)
    wire.sendall(len(data).to_bytes(8, "little") + data)


def _got(wire: socket.socket) -> Any:
    """The next message. Raises ValueError for what is none, OSError at the end."""
    size = int.from_bytes(_bytes(wire, 8), "little")
    if size > isolation.LONGEST:
        raise ValueError("too long")
    return values.read(_bytes(wire, size))


def _bytes(wire: socket.socket, count: int) -> bytes:
    found = io.BytesIO()
    while found.tell() < count:
        chunk = wire.recv(min(count - found.tell(), 1 << 20))
        if not chunk:
            raise OSError("it broke off")
        found.write(chunk)
    return found.getvalue()
