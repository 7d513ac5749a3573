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


@given(SCORES)
def test_softmax_equals_the_oracle(scores: list[float]) -> None:
    oracle = reference.softmax(torch.tensor(scores, dtype=torch.float64))
    for function in FUNCTIONS:
        torch.testing.assert_close(torch.tensor(function(scores), dtype=torch.float64), oracle, rtol=1e-12, atol=1e-300)


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


TWO, VALUES = torch.ones(2), torch.ones(2, 3)
PART, WITHOUT = softmax.update(softmax.start(TWO, VALUES), TWO, VALUES), softmax.online_states(TWO)[-1]
BAD_STATES = [
    (lambda: softmax.merge(PART, WITHOUT), "one state has an o and the other has none"),
    (
        lambda: softmax.merge(WITHOUT, softmax.online_states(torch.ones(2, 2))[-1]),
        r"the states have shapes \[\] and \[2\]",
    ),
    (lambda: softmax.update(PART, TWO), "both have values or both have none"),
    (lambda: softmax.update(PART, TWO, torch.ones(5, 3)), "x has 2 scores but values has 5 rows"),
    (lambda: softmax.start(TWO, TWO), r"values has shape \[2\]"),
    (lambda: softmax.average(TWO, torch.full((2, 3), -math.inf)), "values contains an infinity"),
    (lambda: softmax.average(TWO, [[1.0], [2.0]]), r"values is a list; pass a torch\.Tensor"),
    (lambda: softmax.output(WITHOUT), "this state has no o"),
    (lambda: softmax.correction([5], [4]), "a running maximum never falls"),
]


@pytest.mark.parametrize(("call", "message"), BAD_STATES)
def test_bad_states_and_values(call, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
