"""Softmax offline and online: properties that hold for every row, against float64 and closed forms."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.model import reference, softmax
from course_lib.model.softmax import State

SCORES = st.lists(st.floats(-50, 50, width=32) | st.just(-math.inf), min_size=1, max_size=40)
FINITE = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=40)


def close(a: State, b: State) -> None:
    """Equal to float64 rounding: m exactly, l to 1e-12 relative."""
    torch.testing.assert_close(a.m, b.m, rtol=0, atol=0)
    torch.testing.assert_close(a.l, b.l, rtol=1e-12, atol=0)


def row(scores: list[float]) -> torch.Tensor:
    return torch.tensor(scores, dtype=torch.float64)


def state(scores: list[float]) -> State:
    return softmax.online_states(row(scores))[-1]


def test_the_four_states_of_3_2_5_1() -> None:
    states = softmax.online_states(row([3, 2, 5, 1]))
    assert [s.m for s in states] == [3, 3, 5, 5]
    e = math.exp
    expected = [1, 1 + e(-1), e(-2) + e(-3) + 1, e(-2) + e(-3) + 1 + e(-4)]
    assert [float(s.l) for s in states] == pytest.approx(expected, rel=1e-15)


@given(SCORES)
def test_softmax_equals_the_oracle(scores: list[float]) -> None:
    x = row(scores)
    for found in (softmax.offline(x), softmax.online(x, 3)):
        torch.testing.assert_close(found, reference.softmax(x), rtol=1e-12, atol=1e-300)


@given(FINITE, st.integers(-40, 40))
def test_invariant_to_shifts(scores: list[float], shift: int) -> None:
    torch.testing.assert_close(
        softmax.offline(row(scores) + shift), softmax.offline(row(scores)), rtol=1e-5, atol=1e-12
    )


@given(SCORES, st.integers(1, 45))
def test_any_block_size_gives_the_same_state(scores: list[float], block: int) -> None:
    blocked = softmax.online_states(row(scores), block)
    assert len(blocked) == math.ceil(len(scores) / block)
    close(blocked[-1], state(scores))


@given(SCORES, SCORES, SCORES)
def test_merge_is_associative_and_commutative(a: list[float], b: list[float], c: list[float]) -> None:
    x, y, z = state(a), state(b), state(c)
    close(softmax.merge(x, y), softmax.merge(y, x))
    close(softmax.merge(softmax.merge(x, y), z), softmax.merge(x, softmax.merge(y, z)))
    close(softmax.merge(softmax.merge(x, y), z), state([*a, *b, *c]))


@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 5), st.data())
def test_merged_outputs_are_attention(n: int, block: int, dv: int, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**32 - 1))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, n, generator=generator, dtype=torch.float64) * 5
    v = torch.randn(n, dv, generator=generator, dtype=torch.float64)
    parts = [softmax.update(softmax.start(xb, vb), xb, vb) for xb, vb in zip(x.split(block, -1), v.split(block))]
    whole = parts[0]
    for part in parts[1:]:
        whole = softmax.merge(part, whole)
    torch.testing.assert_close(softmax.output(whole), reference.softmax(x) @ v, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(softmax.log_sum_exp(whole), torch.logsumexp(x, -1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_long_rows_in_each_dtype(dtype: torch.dtype) -> None:
    x = torch.stack([torch.randn(3000) * 3, torch.full((3000,), 7.0)]).to(dtype)  # sums in fp16 would stall at 2048
    y = softmax.offline(x)
    assert y.dtype == dtype
    # Half an ulp of rounding the result, and for fp32 statistics 3000 roundings of the running sum.
    tolerance = torch.finfo(dtype).eps + (3e-5 if dtype != torch.float64 else 0)
    torch.testing.assert_close(
        y.double(), reference.softmax(x), rtol=max(tolerance, 1e-11), atol=torch.finfo(dtype).tiny
    )


def test_half_precision_sums_are_kept_in_fp32() -> None:
    """In fp16 2048 + 1 rounds to 2048, and the sum would stall there."""
    assert float(softmax.online_states(torch.zeros(2500, dtype=torch.float16))[-1].l) == 2500


def test_batches_are_rows() -> None:
    deep = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(softmax.offline(deep), torch.softmax(deep, -1))


def test_a_row_of_minus_infinity_is_zeros_and_says_so() -> None:
    masked = [-math.inf] * 3
    assert softmax.offline(row(masked)).tolist() == [0, 0, 0]
    nothing = state(masked)
    assert nothing == State(-math.inf, 0)
    assert softmax.log_sum_exp(nothing) == -math.inf
    assert softmax.merge(nothing, state([1, 2])) == state([1, 2])
    assert softmax.merge(nothing, nothing) == nothing
    v = torch.ones(3, 2, dtype=torch.float64)
    assert softmax.output(softmax.update(softmax.start(row(masked), v), row(masked), v)).tolist() == [0, 0]


def test_large_scores_do_not_overflow() -> None:
    x = torch.tensor([1000.0, 1001.0, 1002.0])
    torch.testing.assert_close(softmax.offline(x), torch.softmax(x, -1))


def test_states_of_other_rows_are_not_broadcast_and_values_not_forgotten() -> None:
    with pytest.raises(ValueError, match=r"a\.m has shape \[\] but b\.m has \[2\]"):
        softmax.merge(softmax.online_states(torch.ones(2))[-1], softmax.online_states(torch.ones(2, 2))[-1])
    with pytest.raises(ValueError, match="both have values or both have none"):
        softmax.update(softmax.start(torch.ones(2), torch.ones(2, 3)), torch.ones(2))
