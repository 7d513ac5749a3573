"""The rotation of one row, stage by stage: where an outlier goes, and what each number is made of."""

from collections.abc import Sequence

import torch

from course_lib import plots
from course_lib.model.quantize import butterflies
from course_lib.show import style
from course_lib.widgets.clickable import Clickable


class Butterfly(Clickable):
    """A row of 2 … 16 numbers under random signs and the stages of ``quantize.butterflies``.

    Click a number of the row to make it ``size`` times as large, or as it was; a number of the second column to flip its
    sign; any other to see what it is made of.
    """

    file = "butterfly.js"

    def __init__(self, row: Sequence[float] = (3, 2, 5, 1, 4, 2, 1, 3), outlier: int = 2, size: float = 50.0):
        x = torch.tensor(row, dtype=torch.float64)
        x[outlier] *= size
        still, _ = style.render(plots.butterfly, butterflies(x), size=(10.5, 3.6), axes=(1, len(butterflies(x))))
        data = {"row": [float(y) for y in row], "outlier": outlier, "size": float(size)}
        super().__init__(data, still, f"a row of {len(row)} numbers with one outlier, and the stages of its rotation")
