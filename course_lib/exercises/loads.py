"""How much a kernel in Triton's interpreter may load at once."""

import contextlib
from collections.abc import Iterator
from typing import Any

from course_lib import runtime


class BlockTooLargeError(ValueError):
    """A kernel loads more at once than a block."""


@contextlib.contextmanager
def at_most(numbers: int, block: str) -> Iterator[None]:
    """Inside, a load of more than ``numbers`` numbers raises BlockTooLargeError, which names the ``block``; in other modes none does."""
    if runtime.mode() != "interpreter":
        yield
        return
    from triton.runtime import interpreter

    builder = type(interpreter.interpreter_builder)
    load = builder.create_masked_load

    def watched(self: Any, pointers: Any, *rest: Any, **named: Any) -> Any:
        if pointers.data.size > numbers:
            raise BlockTooLargeError(f"a load brings more at once than a block, {block}: load block by block")
        return load(self, pointers, *rest, **named)

    builder.create_masked_load = watched
    try:
        yield
    finally:
        builder.create_masked_load = load
