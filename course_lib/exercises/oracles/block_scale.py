"""Lecture 11: what block_scale is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


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


def _tops(x, block):
    return torch.stack([rows.abs().max() for rows in x.split(block)])


def _quantised(x, block, scales, largest=None):
    """Integers for these scales, limited to [-largest, largest] or else wrapped as int8 does, and the scales."""
    whole = (x / scales.repeat_interleave(block)[: len(x), None]).round()
    if largest is not None:
        whole = whole.clamp(-largest, largest)
    return whole.nan_to_num(0.0).to(torch.int64).to(torch.int8), scales


def _scales(tops, largest=127):
    return torch.where(tops > 0, tops / largest, torch.ones_like(tops))


def one_scale(x, block):
    return _quantised(x, block, _scales(x.abs().max().expand(len(_tops(x, block)))))


def chunks(x, block):
    size = len(x.chunk(block)[0])
    return _quantised(x, size, _scales(_tops(x, size)))


def chunks_for_the_scales(x, block):
    tops = torch.stack([rows.abs().max() for rows in x.chunk(block)])
    return _quantised(x, block, _scales(tops))


def scale_of_each_row(x, block):
    return _quantised(x, 1, _scales(_tops(x, 1)))


def _signed(x, block):
    tops = torch.stack([rows.max() for rows in x.split(block)])
    return torch.where(tops != 0, tops / 127, torch.ones_like(tops))


def no_abs(x, block):
    return _quantised(x, block, _signed(x, block))


def no_abs_limited(x, block):
    return _quantised(x, block, _signed(x, block), 127)


def over_128(x, block):
    return _quantised(x, block, _scales(_tops(x, block), 128))


def over_128_limited(x, block):
    return _quantised(x, block, _scales(_tops(x, block), 128), 127)


def zeros_divided(x, block):
    return _quantised(x, block, _tops(x, block) / 127)


def _without_tail(x, block):
    size = min(block, len(x))
    return x[: len(x) // size * size], size


def tail_dropped(x, block):
    kept, size = _without_tail(x, block)
    return _quantised(kept, size, _scales(_tops(kept, size)))


def tail_with_the_block_before(x, block):
    kept, size = _without_tail(x, block)
    scales = _scales(_tops(kept, size))
    of_rows = torch.cat([scales.repeat_interleave(size), scales[-1:].expand(len(x) - len(kept))])
    return _quantised(x, 1, of_rows, 127)[0], scales


def cut_off(x, block):
    scales = _scales(_tops(x, block))
    return (x / scales.repeat_interleave(block)[: len(x), None]).to(torch.int8), scales


def inverse_scales(x, block):
    integers, scales = _quantised(x, block, _scales(_tops(x, block)))
    return integers, 1 / scales


def scales_in_turn(x, block):
    """Row i with scale i mod the number of blocks."""
    scales = _scales(_tops(x, block))
    return _quantised(x, 1, scales.repeat(block)[: len(x)], 127)[0], scales


WRONG = {
    "if all blocks share one scale: the outlier of one block takes the small numbers of all": one_scale,
    "if x.chunk(block) makes the blocks: it makes `block` of them; x.split(block) makes blocks of so many rows": chunks,
    "if the scales are those of x.chunk(block): it makes `block` chunks, not blocks of so many rows": chunks_for_the_scales,
    "if each row has a scale of its own: the rows of a block share one": scale_of_each_row,
    "if the scale comes from the maximum without abs: a negative number beyond it wraps around in int8": no_abs,
    "if the scale comes from the maximum without abs: a negative number beyond it is cut to −127": no_abs_limited,
    "if the scale is the maximum over 128: the largest becomes 128, which int8 has not, and wraps to −128": over_128,
    "if the scale is the maximum over 128: with the largest cut to 127 it is not restored": over_128_limited,
    "if a block of zeros is divided by its scale of 0": zeros_divided,
    "if the rows of a shorter last block are dropped": tail_dropped,
    "if the rows of a shorter last block take the scale of the block before: they may be far larger": tail_with_the_block_before,
    "if the quotient is cut off instead of rounded: .to(torch.int8) alone moves toward 0": cut_off,
    "if the scales are returned upside down, 127 over the maximum: integer · scale does not restore x": inverse_scales,
    "if row i takes scale i mod (number of blocks) instead of i div block": scales_in_turn,
}
