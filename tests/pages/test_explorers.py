"""The interactive figure by itself: it redraws, reports and recovers. Those of the lectures: explorer_extremes.py."""

import threading

import pytest

from course_lib.widgets import choice, explore, slider


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
    explorer.move(n=4, name="b")
    assert explorer.caption.value == '<div role="status">n is 4, b</div>'


@pytest.mark.parametrize("outcome", ["a picture", "a message", "a fault"])
def test_a_figure_says_that_it_computes_while_a_slow_successor_is_drawn(outcome) -> None:
    patient = threading.Event()

    def slow(ax, n: int) -> str:
        assert n == 0 or patient.wait(20), "nothing says that it takes long"
        if outcome == "a message" and n == 2:
            raise ValueError("n is 2; pass another")
        if outcome == "a fault" and n == 2:
            raise RuntimeError("a fault")
        return f"n is {n}"

    explorer = explore(slow, n=slider(0, 5, 0), alt="nothing")

    def hear(change) -> None:
        if 'class="course-computing"' in change.new:
            patient.set()

    explorer.caption.observe(hear, "value")
    if outcome == "a fault":
        with pytest.raises(RuntimeError, match="a fault"):
            explorer.move(n=2)
    else:
        explorer.move(n=2)
    shown = {"a picture": "n is 2", "a message": "n is 2; pass another", "a fault": "n is 0"}[outcome]
    assert patient.is_set()
    assert shown in explorer.caption.value
    assert "computing" not in explorer.caption.value


def test_the_saved_output_is_the_picture_and_a_text() -> None:
    data, metadata = explore(line, n=slider(0, 5, 1), name=choice(["a", "b"]), alt="a line")._repr_mimebundle_()
    assert data["text/plain"] == "[interactive figure: n, name] a line"
    assert {"image/png", "application/vnd.jupyter.widget-view+json"} <= set(data)
    assert metadata["image/png"]["width"] == pytest.approx(8.5 * 90, abs=2)
