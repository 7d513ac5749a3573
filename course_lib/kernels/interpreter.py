"""Triton's interpreter, spared two detours (half of its time, the same results) and used by one thread at a time.

None of the three can leave Triton broken: what a launch replaces is restored by Triton's own scope.
"""

import dataclasses
import functools
import inspect
import threading
from typing import Any

from triton import language
from triton.language import core
from triton.runtime import interpreter as triton_interpreter


@functools.cache
def speed_up() -> None:
    """Apply all three, once; where a version of Triton lacks what one of them replaces, that one is left out."""
    skip_the_unread_check()
    remember_builtins()
    one_thread_at_a_time()


def skip_the_unread_check() -> None:
    """Leave out the check of each sum and product of integers for overflow: only a debug build reads its result."""
    builder: Any = getattr(triton_interpreter, "interpreter_builder", None)
    options: Any = getattr(builder, "options", None)
    if getattr(options, "sanitize_overflow", False) and not getattr(options, "debug", True):
        builder.options = dataclasses.replace(options, sanitize_overflow=False)


def remember_builtins() -> None:
    """Let each launch replace the language's functions without a search for them through all names of its modules."""
    stock: Any = getattr(triton_interpreter, "_patch_builtin", None)
    if stock is None or not hasattr(triton_interpreter, "_patch_attr"):
        return
    places = (language, core, core.tensor, language.math, core.tensor_descriptor_base)
    known = {place: [name for name, x in inspect.getmembers(place) if core.is_builtin(x)] for place in places}

    def patch(place: Any, builder: Any, scope: Any) -> None:
        if place not in known:
            stock(place, builder, scope)
            return
        for name in known[place]:
            member = getattr(place, name)
            if core.is_builtin(member):
                triton_interpreter._patch_attr(place, name, member, builder, scope)

    triton_interpreter._patch_builtin = patch


def one_thread_at_a_time() -> None:
    """Let a launch wait for another thread's: both replace the same functions, and one would restore them under the other."""
    executor: Any = getattr(triton_interpreter, "GridExecutor", None)
    if executor is None:
        return
    stock, lock = executor.__call__, threading.RLock()

    def launch(self: Any, *args: Any, **named: Any) -> None:
        with lock:
            stock(self, *args, **named)

    executor.__call__ = launch
