"""The answer of a piece of work in the sandbox: messages of limited size, in limited time, that are data and nothing else."""

import os
import select
import threading
import time
from typing import Any, NoReturn

from course_lib.exercises import values
from course_lib.exercises.processes import isolation

LOST, INTERRUPTED = "the sandbox that it ran in is gone", "grading was interrupted"  # ways in which work ends


class WorkError(Exception):
    """A piece of work ended before its answer was complete; the words say how."""


class Talk:
    """One piece of work, as it answers."""

    def __init__(self, reader: int, told: int, stopped: threading.Event):
        self._reader, self._told, self._stopped = reader, told, stopped
        self._buffer, self._total = bytearray(), 0

    def message(self, seconds: float) -> Any:
        """The next message, plain data. Raises WorkError where none comes in so many seconds, at the end, or for what is no message."""
        size = int.from_bytes(self._bytes(8, seconds), "little")
        if size > isolation.LONGEST:
            raise WorkError("its answer cannot be read")
        data = self._bytes(size, seconds)
        try:
            return values.read(data)
        except (ValueError, RecursionError):
            raise WorkError("its answer cannot be read") from None

    def messages(self, count: int, seconds: float) -> isolation.Sent:
        """So many messages, or those that come in so many seconds."""
        end = time.monotonic() + seconds
        found: list[Any] = []
        try:
            while len(found) < count:
                found.append(self.message(end - time.monotonic()))
        except WorkError as error:
            ended = f"it took more than {seconds:g} seconds" if str(error).startswith("it took") else str(error)
            return isolation.Sent(tuple(found), ended)
        return isolation.Sent(tuple(found))

    def rest(self, seconds: float) -> bytes:
        """All that comes until the end, which is not read as messages. Raises WorkError where there is no end in so many seconds, or none
        that is well: whoever wrote it may have broken off after any word.
        """
        end = time.monotonic() + seconds
        while self._more(end - time.monotonic()):
            pass
        if words := self._how_it_ended():
            raise WorkError(words)
        return bytes(self._buffer)

    def _bytes(self, count: int, seconds: float) -> bytes:
        end = time.monotonic() + seconds
        while len(self._buffer) < count:
            if not self._more(end - time.monotonic()):
                self._gone()
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    def _more(self, seconds: float) -> bool:
        """Wait for more; False at the end."""
        end = time.monotonic() + seconds
        while not select.select([self._reader], [], [], max(0.0, min(0.25, end - time.monotonic())))[0]:
            if self._stopped.is_set():
                raise WorkError(INTERRUPTED)
            if time.monotonic() >= end:
                raise WorkError(f"it took more than {seconds:g} seconds")
        chunk = os.read(self._reader, 1 << 20)
        self._total += len(chunk)
        if self._total > isolation.MOST:
            raise WorkError("its answer is too long")
        self._buffer += chunk
        return bool(chunk)

    def _gone(self) -> NoReturn:
        raise WorkError(self._how_it_ended() or "its answer broke off")

    def _how_it_ended(self) -> str:
        """'' if all was well. Raises WorkError where nobody is left to say it."""
        code = os.read(self._told, 20) if select.select([self._told], [], [], isolation.GRACE)[0] else b""
        if not code:
            raise WorkError(LOST)
        if code.endswith(isolation.TOO_MUCH):
            return f"its processes took more than {isolation.TOGETHER >> 30} GB together"
        return isolation.how(int(code))
