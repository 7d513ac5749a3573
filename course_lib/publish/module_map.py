"""Draws the rooms of course_lib by floors, with their imports, for CONTRIBUTING.md: python -m course_lib.publish.module_map

import-linter holds the same floors (pyproject.toml, ``tool.importlinter``): no import runs upwards.
"""

import ast
import io
import re
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import grimp
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from course_lib.files import write_atomically
from course_lib.show import style

HOME = Path(__file__).resolve().parents[1]
PATH = HOME.parent / "docs" / "modules.svg"
WIDTH, GAP, LINE = 12.0, 0.5, 0.145  # of the picture, between floors, and of a line of text, in inches


def floors() -> list[list[str]]:
    """The rooms of course_lib by floor, the lowest first, as import-linter's contract names them."""
    project = tomllib.loads((HOME.parent / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [re.findall(r"\w+", layer) for layer in reversed(layers)]


def imports() -> dict[str, set[str]]:
    """Room -> the rooms that it imports from, anywhere in its modules."""
    graph = grimp.build_graph("course_lib", cache_dir=None)
    found: dict[str, set[str]] = {room: set() for rooms in floors() for room in rooms}
    for module in graph.modules - {"course_lib"}:
        room = module.split(".")[1]
        imported = {name.split(".")[1] for name in graph.find_modules_directly_imported_by(module) if "." in name}
        found[room] |= imported - {room}
    return found


def drawn() -> set[tuple[str, str]]:
    """The imports that do not follow from others: of a -> b, b -> c and a -> c the last is left out."""
    known = imports()

    def reached(room: str) -> set[str]:
        return known[room].union(*(reached(other) for other in known[room]))

    return {
        (room, other)
        for room, others in known.items()
        for other in others
        if not any(other in reached(third) for third in others - {other})
    }


def about(room: str) -> str:
    """The first sentence of a room's docstring, without markup."""
    path = HOME / f"{room}.py"
    text = ast.get_docstring(ast.parse((path if path.exists() else HOME / room / "__init__.py").read_text("utf-8")))
    return re.split(r"(?<=[.;]) ", (text or "").partition("\n")[0].replace("``", ""))[0].rstrip(".;:")


def inside(room: str) -> str:
    """The names of a room's modules and packages."""
    names = {p.stem for p in (HOME / room).glob("[a-z]*.py")} | {
        p.parent.name for p in (HOME / room).glob("*/__init__.py")
    }
    return ", ".join(sorted(names))


def draw(path: Path = PATH) -> None:
    """Write the picture as SVG, with its text as text."""
    rooms = _laid_out()
    height = max(room.top for room in rooms.values()) + GAP
    with rc_context(style.RC):
        figure = Figure(figsize=(WIDTH, height))
        figure.set_layout_engine("none")
        ax = figure.add_axes((0, 0, 1, 1))
        _draw(ax, rooms)
        words = "An arrow leads from a room to one that it imports from; imports that follow from others are left out."
        ax.text(WIDTH / 2, height - 0.15, words, ha="center", va="center", fontsize=9, color=style.GREY)
        ax.set(xlim=(0, WIDTH), ylim=(0, height))
        ax.axis("off")
        figure.savefig(svg := io.StringIO(), format="svg", metadata={"Date": None})
    write_atomically(path, svg.getvalue())


class Room(NamedTuple):
    """Where a room is drawn, in inches, and the lines in it: what it is, and the modules inside."""

    x: float
    bottom: float
    top: float
    width: float
    words: list[str]
    modules: list[str]


def _laid_out() -> dict[str, Room]:
    """Each floor as high as its fullest room."""
    placed: dict[str, Room] = {}
    bottom = GAP / 2
    for rooms in floors():
        share = WIDTH / len(rooms)
        width = min(6.0, share - 0.3)
        letters = int(width * 14.5)
        texts = [(textwrap.wrap(about(room), letters), textwrap.wrap(inside(room), letters)) for room in rooms]
        top = bottom + 0.42 + LINE * max(len(words) + len(modules) for words, modules in texts)
        for i, (room, text) in enumerate(zip(rooms, texts, strict=True)):
            placed[room] = Room(share * (i + 0.5), bottom, top, width, *text)
        bottom = top + GAP
    return placed


def _draw(ax: Axes, rooms: dict[str, Room]) -> None:
    for importer, imported in sorted(drawn()):
        above, below = rooms[importer], rooms[imported]
        ax.annotate(
            "", (below.x + 0.12 * (above.x - below.x), below.top), (above.x + 0.12 * (below.x - above.x), above.bottom),
            arrowprops={"arrowstyle": "-|>", "color": style.BLUE, "linewidth": 1, "alpha": 0.6, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
    for name, (x, bottom, top, width, words, modules) in rooms.items():
        ax.add_patch(
            FancyBboxPatch(
                (x - width / 2, bottom), width, top - bottom, boxstyle="round,pad=0,rounding_size=0.08",
                facecolor="white", edgecolor=style.GREY, zorder=3,
            )
        )  # fmt: skip
        ax.text(x, top - 0.16, name, ha="center", va="center", fontsize=12, fontweight="bold", zorder=4)
        for n, line in enumerate([*words, *modules]):
            colour = "black" if n < len(words) else style.BLUE
            ax.text(x, top - 0.32 - LINE * n, line, ha="center", va="top", fontsize=8, color=colour, zorder=4)


if __name__ == "__main__":
    draw()
    print(PATH.relative_to(PATH.parents[1]))
