"""The merge of two partial results as a kernel: the softmax lecture's numbers, and no warp that reads what another one stored."""

import pytest
import torch
from rule import DEVICE

from course_lib.instruments import compiled
from course_lib.kernels.merging import merge
from course_lib.model import softmax

pytestmark = pytest.mark.kernel


def merged(o, L, part, part_L):
    """(o, L) in float64, as lecture 01 merges two states."""
    states = [softmax.State(y.double(), torch.isfinite(y).double(), x.double()) for x, y in ((o, L), (part, part_L))]
    both = softmax.merge(*states)
    return softmax.output(both), softmax.log_sum_exp(both)


@pytest.mark.parametrize(("d", "dtype"), [(24, torch.float16), (128, torch.float32)])
def test_the_merge_is_that_of_the_softmax_lecture_also_when_it_is_repeated(d, dtype) -> None:
    """On a GPU the second call of a kind is noted, and later ones repeat its launch; here into some rows of a larger tensor."""
    for begin in (0, 0, 0, 30):
        o, part = torch.randn(2, 2, 3, 70, d, device=DEVICE)
        L, part_L = 30 * torch.randn(2, 2, 3, 70, device=DEVICE)
        L[0, 0, :5], part_L[0, 0, 3:8] = -torch.inf, -torch.inf
        o[0, 0, :5], part[0, 0, 3:8] = 0, 0
        part, before = part.to(dtype), o.clone()
        right, right_L = merged(o, L, part, part_L)
        merge(*(x[:, :, begin:] for x in (o, L, part, part_L)))
        torch.testing.assert_close(o[:, :, begin:].double(), right[:, :, begin:], atol=2e-6, rtol=1e-6)
        torch.testing.assert_close(L[:, :, begin:].double(), right_L[:, :, begin:], atol=1e-5, rtol=1e-6)
        assert torch.equal(o[:, :, :begin], before[:, :, :begin])


def test_many_rows_are_merged_while_others_are_stored() -> None:
    """Warps of a program share rows: what one stores must not be what another one loads. The interpreter has no warps."""
    rows, calls = (65_536, 10) if DEVICE.type == "cuda" else (128, 1)
    o, part = torch.randn(2, 1, 4, rows, 128, device=DEVICE)
    L, part_L = torch.randn(2, 1, 4, rows, device=DEVICE)
    for _ in range(calls):
        right, right_L = merged(o, L, part, part_L)
        merge(o, L, part, part_L)
        torch.testing.assert_close(o.double(), right, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(L.double(), right_L, atol=1e-5, rtol=1e-5)


def test_compiled_all_warps_have_loaded_a_row_before_one_stores_it() -> None:
    """Where o and the part have one dtype, nothing else of the kernel needs a barrier."""
    o, L = torch.empty(1, 4, 256, 128, device="meta"), torch.empty(1, 4, 256, device="meta")
    assert compiled.inspect(merge, o, L, o, L).count("bar.sync") == 1


O, PART = torch.randn(2, 1, 3, 8, 16, device=DEVICE)
GIVEN = {"o": O, "L": O[..., 0].clone(), "part": PART, "part_L": PART[..., 0].clone()}
WIDE = {name: x.new_zeros((1, 1, 2, 300)[: x.dim()]) for name, x in GIVEN.items()}
BAD = [
    ({"o": O[:, :1].expand_as(O)}, r"o has shape .* rows that share memory cannot be written; pass o.contiguous\(\)"),
    ({"L": GIVEN["L"][:, :1].expand(1, 3, 8)}, "L has shape .* rows that share memory"),
    ({"part": PART[:, :, 1:]}, "o has shape .* but part has"),
    ({"part_L": GIVEN["part_L"].half()}, "part_L is torch.float16; pass float32"),
    (WIDE, "o has head size 300; pass at most 256"),
    *[
        ({name: GIVEN[name].clone().requires_grad_()}, f"{name} requires gradients, and merge has none; call it inside")
        for name in ("o", "part_L")
    ],
    ({"part": torch._neg_view(PART)}, r"part is a view of numbers with the other sign; pass part.resolve_neg\(\)"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD)
def test_what_it_cannot_write_or_differentiate_is_refused_and_left_as_it_is(wrong, message) -> None:
    before = {name: x.clone() for name, x in GIVEN.items()}
    with pytest.raises((TypeError, ValueError), match=message):
        merge(**GIVEN | wrong)
    assert all(torch.equal(x, before[name]) for name, x in GIVEN.items())
