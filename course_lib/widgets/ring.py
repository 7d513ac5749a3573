"""Attention on a ring of ranks, step by step: which queries meet which keys, who works and who waits."""

from course_lib import plots
from course_lib.model.parallel import ORDERS
from course_lib.show import style
from course_lib.widgets.clickable import Clickable

LENGTH, RANKS = 16, (2, 4, 8)  # tokens; counts of ranks to choose from


class RingSteps(Clickable):
    """16 tokens on 2, 4 or 8 ranks in each of ``model.parallel.ORDERS``, with and without a causal mask."""

    file = "ring.js"

    def __init__(self, order: str = "contiguous", ranks: int = 4):
        still, _ = style.render(plots.ring_step, order, ranks, LENGTH, ranks - 1, size=(10.5, 4.4), axes=(1, 2))
        data = {
            "length": LENGTH, "orders": list(ORDERS), "order": order, "ranks": list(RANKS), "start": ranks,
            "colors": list(plots.RANKS),
        }  # fmt: skip
        super().__init__(
            data,
            still,
            f"queries against keys on a ring of {ranks} ranks in {order} order, and a bar of work and waiting for each rank",
        )
