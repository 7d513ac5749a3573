"""Draws the map of the course that the README shows: python -m course_lib.publish.course_map"""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from course_lib import plots
from course_lib.publish import notebooks
from course_lib.show import style

PATH = notebooks.NOTEBOOKS / "course_map.svg"


def draw(path: Path = PATH) -> None:
    """Write the map as SVG, with its text as text."""
    lectures = [(a["number"], a["title"], a["minutes"]) for a in map(notebooks.about, notebooks.lectures())]
    with rc_context(style.RC):
        figure = Figure(figsize=(11, 1.6 * -(-len(lectures) // 3)))
        plots.course_map(figure.subplots(), lectures)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw()
    print(PATH.relative_to(PATH.parents[1]))
