"""Every interactive figure of every lecture, called at each extreme of each control, and what it does with nonsense."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import ipywidgets as w
import nbformat
import pytest

from course_lib import gpt, runtime, widgets
from course_lib.exercises.cells import is_exercise
from course_lib.exercises.definitions import definitions
from course_lib.instruments import measure
from course_lib.publish import notebooks
from course_lib.show import style
from course_lib.widgets import Explorer, choice, explore, powers_of_two, slider, steps, text

NONSENSE = ["", "abc", "1, , x", "nan", "inf", "1, nan", ", ".join(["1"] * 99)]


def explorers_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Explorer]:
    """Run what the lecture's interactive figures need of its code, and collect what `explore` made."""
    made: list[Explorer] = []

    def recording(*args, **kwargs) -> Explorer:
        made.append(explore(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(widgets, "explore", recording)
    monkeypatch.setattr(measure, "seconds", timed_once)
    monkeypatch.setattr(gpt, "train", lambda *_, steps, **__: SimpleNamespace(losses=[1.0] * steps))
    monkeypatch.setattr(style, "_DRAWN_DPI", 40)  # fewer pixels, the same drawing
    monkeypatch.chdir(path.parent)
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code" and not is_exercise(c)]
    named = [re.sub(r"^explore\(", "figure = explore(", cell.source, flags=re.MULTILINE) for cell in cells]
    assert not definitions(named, {"figure"}).errors
    # The layout takes most of the time of a drawing; what is drawn below is not looked at.
    monkeypatch.setitem(style.RC, "figure.constrained_layout.use", False)
    return made


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


def check(explorer: Explorer, what: str) -> None:
    """Either a new picture, or a message that says what to choose instead."""
    assert not explorer.error or "choose one of" in explorer.error, f"{what}: {explorer.error}"
    assert bytes(explorer.image.value).startswith(b"\x89PNG")


@pytest.mark.parametrize("path", notebooks.lectures(), ids=lambda path: path.stem)
def test_every_control_at_each_extreme(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explorers = explorers_of(path, monkeypatch)
    assert explorers, "a lecture has at least one interactive figure: a line that begins with explore("
    for explorer in explorers:
        start = {name: control.value for name, control in explorer.controls.items()}
        movable = {name: control for name, control in explorer.controls.items() if not isinstance(control, w.Text)}
        settings = [start | {name: value} for name, control in movable.items() for value in extremes(control)]
        settings += [start | {name: extremes(control)[end] for name, control in movable.items()} for end in (0, -1)]
        drawn = [start]  # by explore()
        for setting in settings:
            if setting not in drawn:
                drawn.append(setting)
                explorer.move(**setting)
                check(explorer, str(setting))
        for name, control in explorer.controls.items():
            if isinstance(control, w.Text):
                explorer.move(**start)
                for value in NONSENSE:
                    control.value = value
                    assert explorer.error, f"{name} = {value!r} was taken"
                    assert 'role="alert"' in explorer.caption.value
                control.value = start[name]
                assert not explorer.error


def line(ax, n: int, name: str) -> str:
    if n == 3:
        raise ValueError("n is 3; <pass> another")
    ax.plot([0, n])
    return f"n is {n}, {name}"


def test_an_explorer_redraws_reports_and_recovers() -> None:
    explorer = explore(line, n=slider(0, 5, 1), name=choice(["a", "b"]), alt="a line")
    first = explorer.image.value
    assert explorer.caption.value == '<div role="status">n is 1, a</div>'
    explorer.controls["n"].value = 2
    assert explorer.image.value != first
    shown = explorer.image.value
    explorer.controls["n"].value = 3
    assert explorer.error == "n is 3; <pass> another"
    assert "&lt;pass&gt;" in explorer.caption.value
    assert explorer.image.value == shown
    explorer.controls["name"].value = "b"
    explorer.controls["n"].value = 4
    assert explorer.caption.value == '<div role="status">n is 4, b</div>'


def test_several_controls_move_at_once_and_are_drawn_once() -> None:
    drawn: list[tuple[int, str]] = []

    def counted(ax, n: int, name: str) -> str:
        drawn.append((n, name))
        return line(ax, n, name)

    explorer = explore(counted, n=slider(0, 5, 1), name=choice(["a", "b"]), alt="a line")
    explorer.move(n=4, name="b")
    assert drawn == [(1, "a"), (4, "b")]
    assert explorer.caption.value == '<div role="status">n is 4, b</div>'
    explorer.controls["n"].value = 2
    assert drawn[-1] == (2, "b")
    with pytest.raises(ValueError, match="control is 'm'; choose one of 'n', 'name'"):
        explorer.move(m=1)


def test_the_saved_output_is_the_picture_and_a_text() -> None:
    data, metadata = explore(line, n=slider(0, 5, 1), name=choice(["a", "b"]), alt="a line")._repr_mimebundle_()
    assert data["text/plain"] == "[interactive figure: n, name] a line"
    assert {"image/png", "application/vnd.jupyter.widget-view+json"} <= set(data)
    assert metadata["image/png"]["width"] == pytest.approx(8.5 * 90, abs=2)


def test_controls_hold_what_they_are_given() -> None:
    assert powers_of_two(2, 4, 8).value == 8
    assert [label for label, _ in steps([0.5, 1024], 0.5).options] == ["0.5", "1,024"]
    assert text("3, 2").value == "3, 2"


def test_bad_explorers() -> None:
    with pytest.raises(TypeError, match=r"draw takes \['n', 'name'\] after its axes, but the controls are \['n'\]"):
        explore(line, n=slider(0, 5, 1), alt="a line")
    with pytest.raises(ValueError, match="the first picture cannot be drawn: n is 3"):
        explore(line, n=slider(0, 5, 3), name=choice(["a"]), alt="a line")
