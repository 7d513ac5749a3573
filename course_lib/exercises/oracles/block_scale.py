"""Lecture 12: what block_scale is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("one row: 3, 2, 5, 1", (torch.tensor([[3.0, 2.0, 5.0, 1.0]]), 1))
    yield Case("an outlier of 1000 in the second block", (torch.tensor([[3.0, 2.0], [5.0, 1.0], [1000.0, 4.0]]), 2))
    yield Case("the largest number is negative", (torch.tensor([[3.0, -5.0], [1.0, 2.0], [-0.3, -0.1], [0.2, 0.0]]), 2))
    yield Case("a block of zeros", (torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, -3.0]]), 2))
    yield Case("a block larger than x", (torch.tensor([[1.0, 7.0], [-3.0, 0.5]]), 64))
    sizes = torch.tensor([1.0, 30.0, 0.1]).repeat_interleave(3)[:7, None]
    yield Case("7 rows in blocks of 3, each of another size", (_clear_of_ties(_spread(7, 4) * sizes, 3), 3))
    yield Case(
        "a last block of two rows, larger than the one before", (_clear_of_ties(_spread(5, 3) * sizes[:5], 3), 3)
    )
    yield Case("5 rows in blocks of 4", (_clear_of_ties(_spread(5, 2) * torch.arange(1.0, 6.0)[:, None], 4), 4))
    yield Case("numbers of 1e-30", (_clear_of_ties(_spread(4, 3), 2) * 1e-30, 2))
    yield Case("numbers of 1e-6", (_clear_of_ties(_spread(4, 3), 2) * 1e-6, 2))


def _spread(n: int, d: int) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(n))


def _clear_of_ties(x: torch.Tensor, block: int) -> torch.Tensor:
    """x with quotients at least 0.1 away from a half, so that the last bit of a quotient decides nothing."""
    for rows in x.split(block):
        scale = rows.abs().max() / 127
        quotient = rows / scale
        rows.copy_((quotient.round() + 0.8 * (quotient - quotient.round())) * scale)
    return x


def expected(x: torch.Tensor, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Number by number: the nearest of all 255 integers, in float64."""
    scales, integers = [], []
    for i, row in enumerate(x.tolist()):
        if i % block == 0:
            top = max(abs(y) for other in x.tolist()[i : i + block] for y in other)
            scales.append(top / 127 if top else 1.0)
        integers.append([min((abs(n * scales[-1] - y), n) for n in range(-127, 128))[1] for y in row])
    return torch.tensor(integers, dtype=torch.int8), torch.tensor(scales)


def _block_scale(x, block, bug):
    if bug == "columns":
        whole, scales = _block_scale(x.T.contiguous(), block, "")
        return whole.T.contiguous(), scales
    if bug == "tail dropped":
        x = x[: max(block, len(x) // block * block)]
    size = {"rows": 1, "chunk": -(-len(x) // block), "single": len(x)}.get(bug, block)
    blocks = x.split(size)
    tops = torch.stack([rows.max() if bug == "no abs" else rows.abs().max() for rows in blocks])
    if bug == "range":
        tops = torch.stack([(rows.max() - rows.min()) / 2 for rows in blocks])
    if bug == "one":
        tops = tops.max().expand(len(tops))
    scales = tops / {"128": 128, "not over 127": 1}.get(bug, 127)
    scales = scales if bug == "zeros" else torch.where(tops <= (1e-12 if bug == "tiny" else 0), 1.0, scales)
    of_rows = scales.repeat_interleave(size)[: len(x), None].clone()
    if bug == "tail" and len(x) > size:
        of_rows[len(x) // size * size :] = scales[len(x) // size - 1]
    if bug == "tiled":
        of_rows = scales.repeat(size)[: len(x), None]
    whole = x / of_rows
    whole = (whole.trunc() if bug == "cut" else whole.floor() if bug == "floor" else whole.round()).nan_to_num(0.0)
    whole = whole.clamp(-127, 127) if bug == "tail" else whole
    if bug == "tail unwritten":
        whole[len(x) // block * block :], scales = 0, scales[: len(x) // block]
    return whole.to(torch.int64).to(torch.int8), 1 / scales if bug == "inverse" else scales


WRONG = variants(
    _block_scale,
    {
        "if all blocks share one scale: the outlier of one block takes the small numbers of all": "one",
        "if there is one block and one scale: each `block` rows have their own": "single",
        "if half the range from the smallest to the largest number stands for the largest |x|": "range",
        "if x.chunk(block) makes the blocks: it makes `block` of them; x.split(block) makes blocks of so many rows": "chunk",
        "if quotients are cut off, as by .to(torch.int8), and not rounded": "cut",
        "if quotients are rounded down: the nearest whole number is asked for": "floor",
        "if each row has a scale of its own: `block` rows share one": "rows",
        "if the blocks are columns: they are rows": "columns",
        "if the scale is the largest |x| itself: over 127 it makes that number 127": "not over 127",
        "if the scale is 127 over the largest |x|: integer · scale has to restore x": "inverse",
        "if scales.repeat deals the scales out row by row: repeat_interleave keeps those of a block together": "tiled",
        "if a shorter last block is left out": "tail dropped",
        "if there are N // block blocks: the rows of a shorter last one stay 0, and it has no scale": "tail unwritten",
        "if small numbers are taken for zeros: only a block of zeros has the scale 1": "tiny",
        "if the scale comes from the maximum without abs: a negative number beyond it wraps around in int8": "no abs",
        "if the scale is the maximum over 128: the largest becomes 128, which int8 has not, and wraps to −128": "128",
        "if a block of zeros gets the scale 0": "zeros",
        "if the rows of a shorter last block take the scale of the block before: they may be far larger": "tail",
    },
)
