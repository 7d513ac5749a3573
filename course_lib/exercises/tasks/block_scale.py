"""Lecture 12: int8 with one scale for each block of rows."""

from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
The row 3, 2, 5, 1 has the scale 5 / 127; divided by it and rounded to the nearest whole number, ties either way, it becomes 76, 51, 127,
25 in int8. Do this for `x` [N, d], float32: rows 0 to `block` − 1 share one scale, the largest $|x|$ among them over 127, and so do the
next `block` rows, and so on. The last block may be shorter. A block of zeros has scale 1. Return the integers, int8 [N, d], and the
scales, float32 [number of blocks]: integer · scale of its block restores x, up to half a scale.
"""

STUB = '''
def block_scale(x: torch.Tensor, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(integers [N, d] int8, scales [blocks] float32), a scale for each block of rows of x [N, d]."""
    ...
'''


def remark(case: Case, result: Any) -> str:
    integers, scales = result
    if integers.dtype != torch.int8:
        return f"the integers are right, but their type is {integers.dtype}; return torch.int8"
    return "" if scales.dtype == torch.float32 else f"the scales are {scales.dtype}; return torch.float32"


EXERCISE = Exercise(
    name="block_scale",
    lecture="12",
    title="int8 with a scale for each block of rows",
    level=2,
    minutes=10,
    core=True,
    asked=ASKED,
    stub=STUB,
    parts=("integers", "scales"),
    remark=remark,
    answers=("course_lib.model.quantize.quantise",),
    hints=(
        "First the scales alone: x.split(block) gives the blocks, also the shorter last one. What is the largest |x| of each?",
        "torch.where, or an `if`, gives a block of zeros the scale 1. Then each row needs the scale of its block: that is row i's number "
        "i // block.",
        "Each row needs a column's entry: scales.repeat_interleave(block) gives one for each row of whole blocks; how many rows "
        "has the last block? Round before you change the type, for .to(torch.int8) cuts off.",
    ),
)
