"""The softmax stepper: type a row of scores, step through it block by block."""

from collections.abc import Sequence

from course_lib import plots
from course_lib.show import style
from course_lib.widgets.clickable import Clickable

MOST = 24


class SoftmaxStepper(Clickable):
    """m, l and the correction after each block of a row of at most 24 scores.

    ``block`` is 1, 2, 4 or 8.
    """

    file = "softmax.js"

    def __init__(self, scores: Sequence[float] = (3, 2, 5, 1), block: int = 1):
        still, _ = style.render(plots.online_step, list(scores), -(-len(scores) // block), block)
        data = {"scores": [float(x) if x % 1 else int(x) for x in scores], "block": block, "most": MOST}
        super().__init__(data, still, f"the online softmax of {', '.join(f'{x:g}' for x in scores)}, step by step")
