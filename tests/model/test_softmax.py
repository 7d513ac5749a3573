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
FUNCTIONS = [softmax.offline, softmax.online]


def close(a: State, b: State) -> None:
    """Equal to float64 rounding: m exactly, l to 1e-12 relative."""
    torch.testing.assert_close(torch.tensor(a.m), torch.tensor(b.m), rtol=0, atol=0)
    torch.testing.assert_close(
        torch.tensor(a.l, dtype=torch.float64), torch.tensor(b.l, dtype=torch.float64), rtol=1e-12, atol=0
    )


def state(scores: list[float]) -> State:
    return softmax.online_states(scores)[-1]


def test_the_four_states_of_3_2_5_1() -> None:
    states = softmax.online_states([3, 2, 5, 1])
    assert [s.m for s in states] == [3, 3, 5, 5]
    e = math.exp
    expected = [1, 1 + e(-1), e(-2) + e(-3) + 1, e(-2) + e(-3) + 1 + e(-4)]
    assert [s.l for s in states] == pytest.approx(expected, rel=1e-15)
    assert repr(states) == "[State(m=3, l=1), State(m=3, l=1.368), State(m=5, l=1.185), State(m=5, l=1.203)]"


def test_the_correction_is_e_to_what_the_maximum_grew_by() -> None:
    factors = softmax.correction([5, 6], [7, 6])
    assert factors == pytest.approx([math.exp(-2), 1])


@given(SCORES)
def test_softmax_equals_the_oracle(scores: list[float]) -> None:
    oracle = reference.softmax(torch.tensor(scores, dtype=torch.float64))
    for function in FUNCTIONS:
        torch.testing.assert_close(torch.tensor(function(scores), dtype=torch.float64), oracle, rtol=1e-12, atol=1e-300)


@given(FINITE, st.integers(-40, 40))
def test_invariant_to_shifts(scores: list[float], shift: int) -> None:
    for function in FUNCTIONS:
        moved = function([s + shift for s in scores])
        torch.testing.assert_close(torch.tensor(moved), torch.tensor(function(scores)), rtol=1e-5, atol=1e-12)


@given(SCORES, st.integers(1, 45))
def test_any_block_size_gives_the_same_state(scores: list[float], block: int) -> None:
    blocked = softmax.online_states(scores, block)
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
    torch.testing.assert_close(softmax.average(x, v, block), reference.softmax(x) @ v, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(softmax.log_sum_exp(whole), torch.logsumexp(x, -1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=["offline", "online"])
def test_long_rows_in_each_dtype(function, dtype: torch.dtype) -> None:
    x = torch.stack([torch.randn(3000) * 3, torch.full((3000,), 7.0)]).to(dtype)  # sums in fp16 would stall at 2048
    y = function(x)
    assert y.dtype == dtype
    # Half an ulp of rounding the result, and for fp32 statistics 3000 roundings of the running sum.
    tolerance = torch.finfo(dtype).eps + (3e-5 if dtype != torch.float64 else 0)
    torch.testing.assert_close(
        y.double(), reference.softmax(x), rtol=max(tolerance, 1e-11), atol=torch.finfo(dtype).tiny
    )


def test_half_precision_sums_stall_unless_kept_in_fp32() -> None:
    ones = torch.zeros(2500, dtype=torch.float16)
    stalled = softmax.online_states(ones, stats_dtype=torch.float16)[-1]
    assert float(stalled.l) == 2048  # 2048 + 1 rounds to 2048 in fp16
    assert float(softmax.online_states(ones)[-1].l) == 2500


@pytest.mark.parametrize("function", FUNCTIONS)
def test_lists_tensors_and_batches_agree(function) -> None:
    rows = [[3.0, 2.0, 5.0, 1.0], [0.0, 0.0, 0.0, 0.0], [-math.inf, 1.0, 2.0, -math.inf]]
    from_lists = function(rows)
    assert isinstance(from_lists, list)
    torch.testing.assert_close(torch.tensor(from_lists), function(torch.tensor(rows)), rtol=1e-6, atol=0)
    assert from_lists[0] == pytest.approx(function(rows[0]), rel=1e-15)
    deep = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(function(deep), torch.softmax(deep, -1))


def test_a_row_of_minus_infinity_is_zeros_and_says_so() -> None:
    masked = [-math.inf] * 3
    assert softmax.offline(masked) == softmax.online(masked) == [0, 0, 0]
    nothing = state(masked)
    assert nothing == State(-math.inf, 0)
    assert softmax.log_sum_exp(nothing) == -math.inf
    assert softmax.merge(nothing, state([1, 2])) == state([1, 2])
    assert softmax.merge(nothing, nothing) == nothing
    v = torch.ones(3, 2)
    assert softmax.average(torch.tensor(masked), v).tolist() == [0, 0]


def test_large_scores_do_not_overflow() -> None:
    x = torch.tensor([1000.0, 1001.0, 1002.0])
    torch.testing.assert_close(softmax.online(x), torch.softmax(x, -1))


BAD_ROWS = [
    ("3, 2", TypeError, "pass a list of numbers or a tensor"),
    ([], ValueError, "x is empty"),
    ([1, [2]], TypeError, "pass numbers, or rows of equal length"),
    ([1, math.nan], ValueError, "x contains NaN"),
    ([1, math.inf], ValueError, r"x contains \+inf"),
    (torch.tensor(1.0), ValueError, "x is a single number"),
]


@pytest.mark.parametrize(("row", "error", "message"), BAD_ROWS)
@pytest.mark.parametrize("function", [*FUNCTIONS, softmax.online_states])
def test_bad_rows(function, row, error, message) -> None:
    with pytest.raises(error, match=message):
        function(row)


def test_bad_states_and_values() -> None:
    a = softmax.update(softmax.start(torch.ones(2), torch.ones(2, 3)), torch.ones(2), torch.ones(2, 3))
    with pytest.raises(ValueError, match="one state has an o and the other has none"):
        softmax.merge(a, softmax.online_states(torch.ones(2))[-1])
    with pytest.raises(ValueError, match=r"the states have shapes \[\] and \[2\]"):
        softmax.merge(softmax.online_states(torch.ones(2))[-1], softmax.online_states(torch.ones(2, 2))[-1])
    with pytest.raises(ValueError, match="both have values or both have none"):
        softmax.update(a, torch.ones(2))
    with pytest.raises(ValueError, match="x has 2 scores but values has 5 rows"):
        softmax.update(a, torch.ones(2), torch.ones(5, 3))
    with pytest.raises(ValueError, match="x has 2 scores but values has 5 rows"):
        softmax.average(torch.ones(2), torch.ones(5, 3))
    for call in (softmax.start, softmax.average, lambda x, values: softmax.update(a, x, values)):
        with pytest.raises(ValueError, match=r"values has shape \[2\]"):
            call(torch.ones(2), torch.ones(2))
        with pytest.raises(ValueError, match="values contains an infinity"):
            call(torch.ones(2), torch.full((2, 3), -math.inf))
        with pytest.raises(TypeError, match=r"values is a list; pass a torch\.Tensor"):
            call(torch.ones(2), [[1.0], [2.0]])
    with pytest.raises(TypeError, match="merge takes two states of tensors, or two of numbers or lists without an o"):
        softmax.merge(state([1, 2]), softmax.online_states(torch.ones(2))[-1])
    with pytest.raises(ValueError, match="this state has no o"):
        softmax.output(softmax.online_states(torch.ones(2))[-1])
    with pytest.raises(ValueError, match="a running maximum never falls"):
        softmax.correction([5], [4])
    with pytest.raises(ValueError, match=r"m_old has shape \[2\] and m_new has \[1\]"):
        softmax.correction([5, 4], [6])
