"""The merge of two partial results as a kernel: the softmax lecture's numbers, and no warp that reads what another one stored."""

import pytest
import torch
from rule import DEVICE

from course_lib.instruments import compiled, measure
from course_lib.kernels import fast_launch
from course_lib.kernels.merging import merge
from course_lib.model import softmax


@pytest.mark.kernel
def test_the_merge_is_that_of_the_softmax_lecture() -> None:
    (a, b), (la, lb) = torch.randn(2, 2, 3, 70, 24), 30 * torch.randn(2, 2, 3, 70)
    la[0, 0, :5], lb[0, 0, 3:8] = -torch.inf, -torch.inf
    a[0, 0, :5], b[0, 0, 3:8] = 0, 0
    b = b.half()
    states = [softmax.State(L.double(), torch.isfinite(L).double(), o.double()) for o, L in ((a, la), (b, lb))]
    right = softmax.merge(*states)
    o, L = a.to(DEVICE).clone(), la.to(DEVICE).clone()
    merge(o, L, b.to(DEVICE), lb.to(DEVICE))
    assert measure.max_error(o, softmax.output(right)) < 1e-6
    assert measure.max_error(L, softmax.log_sum_exp(right)) < 1e-5
    late = a.to(DEVICE).clone()
    late_L = la.to(DEVICE).clone()
    merge(late[:, :, 30:], late_L[:, :, 30:], b.to(DEVICE)[:, :, 30:], lb.to(DEVICE)[:, :, 30:])
    assert measure.max_error(late[:, :, 30:], softmax.output(right)[:, :, 30:]) < 1e-6
    assert measure.max_error(late_L[:, :, 30:], softmax.log_sum_exp(right)[:, :, 30:]) < 1e-5
    assert torch.equal(late[:, :, :30].cpu(), a[:, :, :30])
    with pytest.raises(ValueError, match=r"o has shape .* but part has"):
        merge(o, L, b.to(DEVICE)[:, :, 1:], lb.to(DEVICE))
    with pytest.raises(TypeError, match=r"part_L is torch.float16; pass float32"):
        merge(o, L, b.to(DEVICE), lb.to(DEVICE).half())


@pytest.mark.kernel
@pytest.mark.parametrize("d", [24, 128])
def test_a_merge_that_is_repeated_is_right_in_other_memory(d) -> None:
    """On a GPU the second call of a kind is noted, and later ones repeat its launch; here into some rows of a larger tensor."""
    for _ in range(4):
        (a, b), (la, lb) = torch.randn(2, 2, 3, 70, d), torch.randn(2, 2, 3, 70)
        states = [softmax.State(L.double(), torch.ones_like(L).double(), o.double()) for o, L in ((a, la), (b, lb))]
        right = softmax.merge(*states)
        o, L, part, part_L = (
            x.to(DEVICE) for x in (a.clone(), la.clone(), b[:, :, 20:].clone(), lb[:, :, 20:].clone())
        )
        merge(o[:, :, 20:], L[:, :, 20:], part, part_L)
        assert measure.max_error(o[:, :, 20:], softmax.output(right)[:, :, 20:]) < 1e-5
        assert measure.max_error(L[:, :, 20:], softmax.log_sum_exp(right)[:, :, 20:]) < 1e-5
        assert torch.equal(o[:, :, :20].cpu(), a[:, :, :20])


@pytest.mark.kernel
def test_what_it_cannot_write_or_differentiate_is_refused_and_left_as_it_is() -> None:
    o, part = torch.randn(2, 1, 3, 8, 16, device=DEVICE)
    L, part_L = torch.randn(2, 1, 3, 8, device=DEVICE)
    before = o.clone(), L.clone()
    with pytest.raises(
        ValueError, match=r"o has shape .* rows that share memory cannot be written; pass o.contiguous\(\)"
    ):
        merge(o[:, :1].expand_as(o), L, part, part_L)
    with pytest.raises(ValueError, match=r"L has shape .* rows that share memory"):
        merge(o, L[:, :1].expand_as(L), part, part_L)
    wide = torch.zeros(1, 1, 2, 300, device=DEVICE)
    with pytest.raises(ValueError, match="o has head size 300; pass at most 256"):
        merge(wide, L[:, :1, :2], wide, part_L[:, :1, :2])
    for name in ("o", "L", "part", "part_L"):
        given = {"o": o, "L": L, "part": part, "part_L": part_L}
        given[name] = given[name].clone().requires_grad_()
        with pytest.raises(
            ValueError, match=f"{name} requires gradients, and merge has none; call it inside torch.no_grad"
        ):
            merge(**given)
    assert torch.equal(o, before[0])
    assert torch.equal(L, before[1])
    with pytest.raises(ValueError, match=r"part is a view of numbers with the other sign; pass part.resolve_neg\(\)"):
        merge(o, L, torch._neg_view(part), part_L)
    with pytest.raises(TypeError, match="o is a nested tensor"):
        merge(torch.nested.nested_tensor([o[0, 0]]), L, part, part_L)
    assert torch.equal(o, before[0])
    with torch.no_grad():
        merge(o.requires_grad_(), L, part[:, :1].expand_as(part), part_L)  # the part is only read
    assert not torch.equal(o, before[0])


@pytest.mark.kernel
def test_many_rows_are_merged_while_others_are_stored() -> None:
    """Warps of a program share rows: what one stores must not be what another one loads. The interpreter has no warps."""
    rows, calls = (65_536, 10) if DEVICE.type == "cuda" else (128, 1)
    o, part = torch.randn(2, 1, 4, rows, 128, device=DEVICE)
    L, part_L = torch.randn(2, 1, 4, rows, device=DEVICE)
    for _ in range(calls):
        both = torch.logaddexp(L.double(), part_L.double())
        right = o * (L - both).exp()[..., None] + part * (part_L - both).exp()[..., None]
        merge(o, L, part, part_L)
        torch.testing.assert_close(o.double(), right, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(L.double(), both, atol=1e-5, rtol=1e-5)


def test_compiled_all_warps_have_loaded_a_row_before_one_stores_it() -> None:
    """Where o and the part have one dtype, nothing else of the kernel needs a barrier."""
    o, L = torch.empty(1, 4, 256, 128, device="meta"), torch.empty(1, 4, 256, device="meta")
    (report,) = compiled.inspect_all([(merge, (o, L, o, L), {})], 90)
    assert report.count("bar.sync") == 1


def test_of_many_kinds_of_calls_few_are_remembered(monkeypatch) -> None:
    monkeypatch.setattr(fast_launch, "MOST", 3)
    x, launches = torch.zeros(1), fast_launch.Replayed(lambda x: (x,), ())
    for kind in range(20):
        assert launches((kind,), (x,))[0] is x
        assert len(launches.met) <= 3
        assert len(launches.tapes) <= 3
