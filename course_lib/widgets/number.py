"""The number line: a number by its bits, its neighbours, and what every format keeps of it."""

from course_lib import plots
from course_lib.model.formats import FORMATS
from course_lib.show import style
from course_lib.widgets.clickable import Clickable


class NumberLine(Clickable):
    """Click a bit, type a number, or walk to the next one; ``start`` in the format ``name``, all formats in a table."""

    file = "number.js"

    def __init__(self, start: float = 3.0, name: str = "fp16"):
        still, _ = style.render(plots.neighbours, start, name, size=(10, 2.8), axes=(2, 1))
        limits = ("largest", "smallest_normal", "bias")
        formats = [
            {"name": f.name, "exponent": f.exponent, "mantissa": f.mantissa, "finite": f.finite}
            | {limit: getattr(f, limit) for limit in limits}
            for f in FORMATS.values()
        ]
        data = {"formats": formats, "start": float(start), "format": name}
        super().__init__(data, still, f"the bits of {start:g} in {name} and the numbers beside it")
