"""Lecture 12: int8 with one scale for each block of rows."""

import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="12",
    title="int8 with a scale for each block of rows",
    dtypes=True,
    parts=("integers", "scales"),
    forbidden=("model.quantize.quantise",),
    hints=(
        "First the scales alone: x.split(block) gives the blocks, also the shorter last one. What is the largest |x| of each?",
        "torch.where, or an `if`, gives a block of zeros the scale 1. Then each row needs the scale of its block: that is row i's number "
        "i // block.",
        "Each row needs a column's entry: scales.repeat_interleave(block) gives one for each row of whole blocks; how many rows "
        "has the last block? Round before you change the type, for .to(torch.int8) cuts off.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def block_scale(x: torch.Tensor, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(integers [N, d] int8, scales [blocks] float32), a scale for each block of rows of x [N, d]."""
    tops = torch.stack([rows.abs().max() for rows in x.split(block)])
    scales = torch.where(tops > 0, tops / 127, torch.ones_like(tops))
    of_rows = scales.repeat_interleave(block)[: len(x), None]
    return (x / of_rows).round().to(torch.int8), scales
'''
WHY = """
127 and not 128: int8 goes from −128 to 127, and with 127 the largest number, of either sign, is restored exactly. An outlier now costs the
small numbers of its own block only. In the kernel the scale of a block is one number for a whole tile of S, so it joins the factor of the
softmax and costs nothing; a scale for each row would cost a multiplication for each score.
"""


def cases(draw):
    yield Case("one row: 3, 2, 5, 1", (torch.tensor([[3.0, 2.0, 5.0, 1.0]]), 1))
    yield Case("an outlier of 1000 in the second block", (torch.tensor([[3.0, 2.0], [5.0, 1.0], [1000.0, 4.0]]), 2))
    yield Case("the largest number is negative", (torch.tensor([[3.0, -5.0], [1.0, 2.0], [-0.3, -0.1], [0.2, 0.0]]), 2))
    yield Case("a block of zeros", (torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, -3.0]]), 2))
    yield Case("a block larger than x", (torch.tensor([[1.0, 7.0], [-3.0, 0.5]]), 64))
    sizes = torch.tensor([1.0, -30.0, 0.1]).repeat_interleave(3)[:7, None]
    yield Case("7 rows in blocks of 3, each of another size", (torch.arange(28.0).reshape(7, 4) * sizes, 3))
    yield Case("numbers of 1e-30", (torch.arange(12.0).reshape(4, 3) * 1e-30, 2))  # no quotient is near a half


def expected(x, block):
    """Number by number: the nearest of all 255 integers, in float64."""
    scales, integers = [], []
    for i, row in enumerate(x.tolist()):
        if i % block == 0:
            top = max(abs(y) for other in x.tolist()[i : i + block] for y in other)
            scales.append(top / 127 if top else 1.0)
        integers.append([min((abs(n * scales[-1] - y), n) for n in range(-127, 128))[1] for y in row])
    return torch.tensor(integers, dtype=torch.int8), torch.tensor(scales)


SCALES = "torch.where(tops > 0, tops / 127, torch.ones_like(tops))"
WRONG = {
    "if all blocks share one scale: the outlier of one block takes the small numbers of all":
        ("x.split(block)])", "x.split(block)])\n    tops = tops.max().expand(len(tops))"),
    "if quotients are cut off, as by .to(torch.int8), and not rounded": (".round()", ""),
    "if scales.repeat deals the scales out row by row: repeat_interleave keeps those of a block together":
        ("repeat_interleave(", "repeat("),
    "if small numbers are taken for zeros: only a block of zeros has the scale 1": ("tops > 0", "tops > 1e-12"),
    "if the scale comes from the maximum without abs: a negative number beyond it wraps around in int8":
        (".abs()", "", ".to(", ".to(torch.int64).to("),
    "if a block of zeros gets the scale 0": (SCALES, "tops / 127", ".round()", ".round().nan_to_num(0.0)"),
}  # fmt: skip
