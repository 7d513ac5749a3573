"""The interactive figure by itself: it redraws, reports and recovers. Those of the lectures: explorer_extremes.py."""

import threading
from functools import partial

import pytest

from course_lib import widgets
from course_lib.widgets import choice, explore, powers_of_two, slider, steps


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


@pytest.mark.parametrize("outcome", ["a picture", "a message", "a fault"])
def test_a_figure_dims_while_a_slow_successor_is_drawn_and_only_then(outcome, monkeypatch) -> None:
    patient = threading.Event()

    def slow(ax, n: int) -> str:
        assert n == 0 or patient.wait(20), "nothing says that it takes long"
        if outcome == "a message" and n == 2:
            raise ValueError("n is 2; pass another")
        if outcome == "a fault" and n == 2:
            raise RuntimeError("a fault")
        return f"n is {n}"

    explorer = explore(slow, n=slider(0, 5, 0), alt="nothing")
    said: list[str] = []

    def hear(change) -> None:
        said.append(change.new)
        if "computing" in change.new:
            patient.set()

    explorer.caption.observe(hear, "value")
    move = partial(explorer.move, n=2)
    if outcome == "a fault":
        with pytest.raises(RuntimeError, match="a fault"):
            move()
    else:
        move()
    assert "n is 0" in said[0]
    assert 'role="status" class="course-computing"' in said[0]
    shown = {"a picture": "n is 2", "a message": "n is 2; pass another", "a fault": "n is 0"}[outcome]
    assert shown in said[-1]
    assert "computing" not in said[-1] == explorer.caption.value

    said.clear()
    monkeypatch.setattr(widgets, "_PATIENCE", 60)  # the next one comes before that
    explorer.move(n=3)
    assert not [words for words in said if "computing" in words]
    assert explorer.caption.value == '<div role="status">n is 3</div>'


def test_the_saved_output_is_the_picture_and_a_text() -> None:
    data, metadata = explore(line, n=slider(0, 5, 1), name=choice(["a", "b"]), alt="a line")._repr_mimebundle_()
    assert data["text/plain"] == "[interactive figure: n, name] a line"
    assert {"image/png", "application/vnd.jupyter.widget-view+json"} <= set(data)
    assert metadata["image/png"]["width"] == pytest.approx(8.5 * 90, abs=2)


def test_controls_hold_what_they_are_given() -> None:
    assert powers_of_two(2, 4, 8).value == 8
    assert [label for label, _ in steps([0.5, 1024], 0.5).options] == ["0.5", "1,024"]


def test_bad_explorers() -> None:
    with pytest.raises(ValueError, match="the first picture cannot be drawn: .* missing 1 required .* 'name'"):
        explore(line, n=slider(0, 5, 1), alt="a line")
    with pytest.raises(ValueError, match="the first picture cannot be drawn: n is 3"):
        explore(line, n=slider(0, 5, 3), name=choice(["a"]), alt="a line")
