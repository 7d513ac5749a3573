"""Draws the rooms of course_lib by floors, with their imports, for CONTRIBUTING.md: python -m course_lib.publish.module_map

import-linter holds the same floors (pyproject.toml, ``tool.importlinter``): no import runs upwards.
"""

import ast
import io
import re
import textwrap
import tomllib
from pathlib import Path

import grimp
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from course_lib.files import write_atomically
from course_lib.show import style

HOME = Path(__file__).resolve().parents[1]
PATH = HOME.parent / "docs" / "modules.svg"
WIDTH, HEIGHT = 12.0, 1.35  # of the picture and of a floor, in inches


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
    with rc_context(style.RC):
        figure = Figure(figsize=(WIDTH, HEIGHT * len(floors())))
        figure.set_layout_engine("none")
        _rooms(figure.add_axes((0, 0, 1, 1)))
        figure.savefig(svg := io.StringIO(), format="svg", metadata={"Date": None})
    write_atomically(path, svg.getvalue())


def _rooms(ax: Axes) -> None:
    place: dict[str, tuple[float, float, float]] = {}  # the middle of a room, and its width
    for number, rooms in enumerate(floors()):
        width = min(5.0, WIDTH / len(rooms) - 0.4)
        for i, room in enumerate(rooms):
            place[room] = (WIDTH * (i + 0.5) / len(rooms), HEIGHT * (number + 0.5), width)
    for importer, imported in sorted(drawn()):
        (x0, y0, _), (x1, y1, _) = place[importer], place[imported]
        ax.annotate(
            "", (x1 + 0.12 * (x0 - x1), y1 + 0.47), (x0 + 0.12 * (x1 - x0), y0 - 0.47),
            arrowprops={"arrowstyle": "-|>", "color": style.BLUE, "linewidth": 1, "alpha": 0.6, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
    for room, (x, y, width) in place.items():
        ax.add_patch(
            FancyBboxPatch(
                (x - width / 2, y - 0.47), width, 0.94, boxstyle="round,pad=0,rounding_size=0.08",
                facecolor="white", edgecolor=style.GREY, zorder=3,
            )
        )  # fmt: skip
        ax.text(x, y + 0.33, room, ha="center", va="center", fontsize=12, fontweight="bold", zorder=4)
        letters = int(width * 14.5)
        lines = [*textwrap.wrap(about(room), letters), *textwrap.wrap(inside(room), letters)]
        ax.text(x, y + 0.19, "\n".join(lines), ha="center", va="top", fontsize=7.5, zorder=4)
    ax.set(xlim=(0, WIDTH), ylim=(0, HEIGHT * len(floors())))
    ax.axis("off")


if __name__ == "__main__":
    draw()
    print(PATH.relative_to(PATH.parents[1]))
