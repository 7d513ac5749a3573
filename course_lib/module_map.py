"""Draws the library's modules by floors, with their imports, for CONTRIBUTING.md: python -m course_lib.module_map"""

import ast
import re
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib import style

HOME = Path(__file__).resolve().parent
CONTRIBUTING = HOME.parent / "CONTRIBUTING.md"
PATH = HOME.parent / "docs" / "modules.svg"


def floors() -> list[list[str]]:
    """The modules and packages of course_lib by floor, the lowest first, as CONTRIBUTING.md names them."""
    sentence = re.search(
        r"^Imports in `course_lib` run downwards only .*: (.*)\.$", CONTRIBUTING.read_text(encoding="utf-8"), re.M
    )
    if sentence is None:
        raise ValueError(
            "CONTRIBUTING.md has no sentence 'Imports in `course_lib` run downwards only …: `a`, `b` → `c`.'"
        )
    return [re.findall(r"`(\w+)`", names) for names in sentence[1].split(" → ")]


def imported(source: str, module: str) -> set[str]:
    """The modules of course_lib, by their first name, that the text of course_lib.``module`` imports, wherever it does so."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            start = ".".join(["course_lib", *package] * bool(node.level) + [node.module or ""] * bool(node.module))
            names = [f"{start}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func) and node.args:
            names = [ast.unparse(node.args[0]).lstrip("f").strip("'\"")]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("course_lib.")}
    return found


def imports() -> dict[str, set[str]]:
    """Module or package of course_lib -> those of its siblings that it imports anywhere."""
    found: dict[str, set[str]] = {}
    for path in sorted(HOME.rglob("*.py")):
        if "node_modules" in path.parts or path == HOME / "__init__.py":
            continue
        module = ".".join(path.relative_to(HOME).with_suffix("").parts)
        name = module.split(".")[0]
        found.setdefault(name, set()).update(imported(path.read_text(encoding="utf-8"), module) - {name, "__version__"})
    return found


def upward() -> list[tuple[str, str]]:
    """The imports that do not run to a lower floor: (importer, imported)."""
    floor = {name: number for number, names in enumerate(floors()) for name in names}
    return [(a, b) for a, names in imports().items() for b in sorted(names) if floor[b] >= floor[a]]


def draw(path: Path = PATH) -> None:
    """Write the picture as SVG, with its text as text; an import that runs upwards would be thick and red."""
    with rc_context(style.RC):
        figure = Figure(figsize=(13, 10.5))
        _modules(figure.subplots())
        figure.savefig(path, metadata={"Date": None})


def _modules(ax: Axes) -> None:
    place = {
        name: (13 * (i + 0.5) / len(names), 1.3 * number)
        for number, names in enumerate(floors())
        for i, name in enumerate(names)
    }
    wrong = set(upward())
    for number, (importer, names) in enumerate(sorted(imports().items())):
        for name in sorted(names):
            (x0, y0), (x1, y1) = place[importer], place[name]
            ax.annotate(
                "", (x1, y1 + 0.17), (x0, y0 - 0.17),
                arrowprops={
                    "arrowstyle": "-|>", "mutation_scale": 8, "shrinkA": 0, "shrinkB": 0,
                    "connectionstyle": f"arc3,rad={0.06 * (-1) ** number}",
                    "color": style.RED if (importer, name) in wrong else style.BLUE,
                    "linewidth": 3 if (importer, name) in wrong else 0.7,
                    "alpha": 1 if (importer, name) in wrong else 0.45,
                },
            )  # fmt: skip
    for name, (x, y) in place.items():
        ax.text(
            x, y, name, ha="center", va="center", fontsize=10,
            bbox={"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": style.GREY},
        )  # fmt: skip
    ax.set(xlim=(0, 13), ylim=(-0.6, 1.3 * len(floors()) - 0.5))
    ax.axis("off")


if __name__ == "__main__":
    draw()
    print(PATH.relative_to(PATH.parents[1]))
