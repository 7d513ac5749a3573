"""Run in a lecture's kernel behind its last cell, by conftest.py: each interactive figure at the ends of its controls."""

import gc
import time
from collections.abc import Callable

import ipywidgets as w
import pytest

from course_lib import runtime
from course_lib.instruments import measure
from course_lib.show import style
from course_lib.widgets import Explorer


def timed_once(call: Callable[[], object], *_: object, **__: object) -> measure.Timing:
    """In place of ``measure.seconds``: it matters that a call runs at every setting; one program of a kernel shows that."""
    with pytest.MonkeyPatch.context() as patch:
        if runtime.mode() == "interpreter":
            from triton.runtime.interpreter import GridExecutor

            patch.setattr(GridExecutor, "grid", property(lambda _: (1,), lambda *_: None), raising=False)
        begin = time.perf_counter()
        call()
    return measure.Timing(*[time.perf_counter() - begin] * 3)


def extremes(control: w.DOMWidget) -> list[object]:
    if isinstance(control, w.IntSlider):
        return [control.min, control.max]
    if isinstance(control, w.SelectionSlider):
        return [control.options[0][1], control.options[-1][1]]
    return list(control.options)


def move(explorer: Explorer, setting: dict[str, object]) -> None:
    """Either a new picture, or a message that says what to choose instead."""
    explorer.move(**setting)
    assert not explorer.error or "choose one of" in explorer.error, f"{setting}: {explorer.error}"
    assert bytes(explorer.image.value).startswith(b"\x89PNG")


def check(every_extreme: bool) -> None:
    """All controls at their low ends and at their high ends together; with ``every_extreme`` each control alone at each of its ends."""
    measure.seconds = timed_once
    style._DRAWN_DPI = 40  # fewer pixels, the same drawing; its layout takes most of the time, and is not looked at
    style.RC["figure.constrained_layout.use"] = False
    explorers = [x for x in gc.get_objects() if issubclass(type(x), Explorer)]
    assert explorers, "a lecture has at least one interactive figure: a line that begins with explore("
    for explorer in explorers:
        start = {name: control.value for name, control in explorer.controls.items()}
        movable = {name: extremes(c) for name, c in explorer.controls.items()}
        if every_extreme:
            settings = [start | {name: value} for name, values in movable.items() for value in values]
        else:
            settings = [start | {name: values[end] for name, values in movable.items()} for end in (0, -1)]
        for setting in settings:
            move(explorer, setting)
        explorer.move(**start)
