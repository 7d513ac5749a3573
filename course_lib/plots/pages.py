"""A paged KV cache: sequences, their tables, and the pool of pages."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.show.style import BLACK, BLUE, GREEN, ORANGE, RED, SKY

SHADES = (BLUE, GREEN, ORANGE)


def page_pool(ax: Axes, tables: Mapping[str, Sequence[int]], lengths: Mapping[str, int], page: int, pages: int) -> None:
    """Draw up to three sequences' tables to the left and the pool to the right: a page's rows in the colour of the sequence that has them.

    ``tables`` holds the pages of each sequence in order, ``lengths`` its tokens. Rows without a token are marked NaN.
    """
    owner = {number: (name, slot) for name, table in tables.items() for slot, number in enumerate(table)}
    shade = dict(zip(tables, SHADES, strict=False))
    for y, (name, table) in enumerate(tables.items()):
        ax.text(
            0, -1.3 * y, f"{name}: {lengths[name]} tokens", va="center", weight="bold", color=shade[name], fontsize=12
        )
        for slot, number in enumerate(table):
            ax.add_patch(Rectangle((2.9 + 0.75 * slot, -1.3 * y - 0.35), 0.65, 0.7, fc="white", ec=shade[name], lw=1.6))
            ax.text(3.22 + 0.75 * slot, -1.3 * y, str(number), ha="center", va="center", fontsize=12)
    for number in range(pages):
        column, line = divmod(number, (pages + 1) // 2)
        x, top = 7.6 + 5.2 * column, -0.98 * line
        ax.text(x - 0.12, top, f"page {number}", ha="right", va="center", fontsize=10.5)
        name, slot = owner.get(number, ("", 0))
        for row in range(page):
            token = slot * page + row
            used = bool(name) and token < lengths[name]
            fill = shade[name] if used else "white"
            ax.add_patch(Rectangle((x + 0.86 * row, top - 0.36), 0.8, 0.72, fc=fill, ec="#999999", lw=1))
            ax.text(x + 0.86 * row + 0.4, top, f"{name}{token}" if used else "NaN", ha="center", va="center", fontsize=10,
                    color="white" if used else RED if name else SKY)  # fmt: skip
    ax.text(2.9, 0.85, "block tables", fontsize=11.5)
    ax.text(6.4, 0.85, "the pool", fontsize=11.5, color=BLACK)
    ax.set(xlim=(-0.1, 16.6), ylim=(-4.2, 1.2))
    ax.axis("off")
