"""Attention on several ranks: one step of a ring."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.model import parallel
from course_lib.show.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW

RANKS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, GREY)  # the colour of each rank


def ring_step(axes: Sequence[Axes], order: str, ranks: int, length: int, step: int, causal: bool = True) -> None:
    """Which of ``length`` queries meet which keys at a step of the ring, and each rank's pairs and waiting up to it; on two axes."""
    grid, bars = axes
    owner = parallel.owners(order, ranks, length).tolist()
    pairs = parallel.step_pairs(order, ranks, length, causal)
    for i, mine in enumerate(owner):
        for x, y in ((i, -1.1), (-1.1, i)):
            grid.add_patch(Rectangle((x, y), 0.92, 0.92, fc=RANKS[mine]))
        for j, theirs in enumerate(owner):
            if causal and j > i:
                grid.plot(j + 0.46, i + 0.46, ".", color="#BBBBBB", ms=2)
                continue
            when = (mine - theirs) % ranks
            look = {"fc": RANKS[mine], "alpha": 1.0 if when == step else 0.25} if when <= step else {"fc": "white"}
            grid.add_patch(Rectangle((j, i), 0.92, 0.92, ec="#BBBBBB", lw=0.5, **look))
    grid.set(xlim=(-1.2, length), ylim=(length, -1.2), aspect="equal", xticks=[], yticks=[])
    grid.set(xlabel="keys; strong: this step, dots: hidden by the mask", ylabel="queries")
    grid.grid(False)
    lasted = sum(map(max, pairs[: step + 1]))
    worked = [sum(counts) for counts in zip(*pairs[: step + 1], strict=True)]
    for rank, count in enumerate(worked):
        bars.barh(rank, count, color=RANKS[rank])
        bars.barh(rank, lasted - count, left=count, fc="none", ec=RANKS[rank], ls="--")
        bars.text(count, rank, f" {count}", va="center")
    bars.set(xlabel="pairs so far; dashed: waiting", yticks=range(ranks))
    bars.set_yticklabels([f"rank {rank}" for rank in range(ranks)])
    share = sum(worked) / (ranks * lasted)
    bars.set_title(
        f"After step {step + 1} ranks have worked {100 * share:.0f} % of the time",
        loc="left",
        fontsize=12.5,
        weight="bold",
    )
    bars.invert_yaxis()
    bars.grid(False, axis="y")
