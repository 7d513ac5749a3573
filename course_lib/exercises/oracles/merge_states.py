"""Lecture 02: what merge_states is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _state(scores: torch.Tensor, values: torch.Tensor) -> State:
    """The state of scores [n, keys], where −∞ is a key that the query does not see, over values [keys, d]."""
    m = scores.amax(1)
    p = torch.exp(scores - m.masked_fill(m == -math.inf, 0)[:, None])
    return m, p.sum(1), p @ values


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    none, inf = torch.full((1, 1), -math.inf), math.inf
    left = _state(torch.tensor([[3.0, 2.0]]), torch.tensor([[10.0], [20.0]]))
    right = _state(torch.tensor([[5.0, 1.0]]), torch.tensor([[30.0], [40.0]]))
    empty = _state(none, torch.zeros(1, 1))
    yield Case("3, 2 and then 5, 1", (*left, *right))
    yield Case("the first set has the larger maximum", (*right, *left))
    yield Case("the first set is empty", (*empty, *left))
    yield Case("the second set is empty", (*left, *empty))
    yield Case("both sets are empty", (*empty, *empty))
    values = torch.randn(2, 2)
    scores = torch.tensor([[1.0, 2.0], [4.0, -1.0]])
    yield Case("two queries, d = 2", (*_state(scores, values), *_state(scores.flip(1) * 2, values.flip(0))))
    far = torch.tensor([[-1000.0, -1001.0], [-1003.0, -999.0]])
    yield Case("all scores far below 0", (*_state(far, values), *_state(far - 2, values)))
    yield Case("maxima 200 apart", (*_state(scores, values), *_state(scores.flip(0) + 200, values)))
    seen = torch.tensor([[1.0, 2.0], [-inf, -inf], [3.0, -inf], [-inf, -inf]])
    yield Case(
        "each query on its own: both sets, only b, only a, none",
        (*_state(seen, values), *_state(seen[[0, 2, 1, 3]], values.flip(0))),
    )
    one, other = (_state(torch.randn(16, keys) * 10, torch.randn(keys, 8)) for keys in (1, 100))
    yield Case("16 queries, 1 key and 100 keys, scores times ten", (*one, *other))


def expected(
    m_a: torch.Tensor, l_a: torch.Tensor, o_a: torch.Tensor, m_b: torch.Tensor, l_b: torch.Tensor, o_b: torch.Tensor
) -> State:
    """Query by query in float64: a state stands for one key with the score m + ln l and the value o / l."""
    m, l, o = torch.maximum(m_a, m_b).double(), torch.zeros(len(m_a)).double(), torch.zeros(o_a.shape).double()
    for i, top in enumerate(m.tolist()):
        for m_s, l_s, o_s in ((m_a, l_a, o_a), (m_b, l_b, o_b)):
            if float(l_s[i]) > 0:
                weight = math.exp(float(m_s[i]) + math.log(float(l_s[i])) - top)
                l[i] += weight
                o[i] += weight * (o_s[i].double() / float(l_s[i]))
    return m.float(), l.float(), o.float()


def _factors(m_a, m_b):
    """The new maximum and both factors, 0 for an empty set."""
    m = torch.maximum(m_a, m_b)
    shift = m.masked_fill(m == -math.inf, 0)
    return m, torch.exp(m_a - shift), torch.exp(m_b - shift)


def nothing_rescaled(m_a, l_a, o_a, m_b, l_b, o_b):
    return torch.maximum(m_a, m_b), l_a + l_b, o_a + o_b


def only_a_rescaled(m_a, l_a, o_a, m_b, l_b, o_b):
    m, a, _ = _factors(m_a, m_b)
    return m, l_a * a + l_b, o_a * a[:, None] + o_b


def o_not_rescaled(m_a, l_a, o_a, m_b, l_b, o_b):
    m, a, b = _factors(m_a, m_b)
    return m, l_a * a + l_b * b, o_a + o_b


def upside_down(m_a, l_a, o_a, m_b, l_b, o_b):
    m = torch.maximum(m_a, m_b)
    a, b = torch.exp(m - m_a), torch.exp(m - m_b)
    return m, l_a * a + l_b * b, o_a * a[:, None] + o_b * b[:, None]


def taken_as_divided(m_a, l_a, o_a, m_b, l_b, o_b):
    m, a, b = _factors(m_a, m_b)
    a, b = l_a * a, l_b * b
    return m, a + b, o_a * a[:, None] + o_b * b[:, None]


def divided(m_a, l_a, o_a, m_b, l_b, o_b):
    m, a, b = _factors(m_a, m_b)
    l = l_a * a + l_b * b
    return m, l, (o_a * a[:, None] + o_b * b[:, None]) / l.masked_fill(l == 0, 1)[:, None]


def averages(m_a, l_a, o_a, m_b, l_b, o_b):
    m, l, o = taken_as_divided(m_a, l_a, o_a, m_b, l_b, o_b)
    return m, l, o / l.masked_fill(l == 0, 1)[:, None]


def both_empty(m_a, l_a, o_a, m_b, l_b, o_b):
    m = torch.maximum(m_a, m_b)
    a, b = torch.exp(m_a - m), torch.exp(m_b - m)
    return m, l_a * a + l_b * b, o_a * a[:, None] + o_b * b[:, None]


def pythons_max(m_a, l_a, o_a, m_b, l_b, o_b):
    m = max(m_a, m_b)
    _, a, b = _factors(m_a, m_b)
    return m, l_a * a + l_b * b, o_a * a[:, None] + o_b * b[:, None]


def pythons_max_both_empty(m_a, l_a, o_a, m_b, l_b, o_b):
    m = max(m_a, m_b)
    a, b = torch.exp(m_a - m), torch.exp(m_b - m)
    return m, l_a * a + l_b * b, o_a * a[:, None] + o_b * b[:, None]


def asked_of_all(m_a, l_a, o_a, m_b, l_b, o_b):
    for m, other in ((m_a, (m_b, l_b, o_b)), (m_b, (m_a, l_a, o_a))):
        if bool((m == -math.inf).all()):
            return other
    return both_empty(m_a, l_a, o_a, m_b, l_b, o_b)


def asked_of_any(m_a, l_a, o_a, m_b, l_b, o_b):
    for m, other in ((m_a, (m_b, l_b, o_b)), (m_b, (m_a, l_a, o_a))):
        if bool((m == -math.inf).any()):
            return other
    return both_empty(m_a, l_a, o_a, m_b, l_b, o_b)


def zero_for_no_key(m_a, l_a, o_a, m_b, l_b, o_b):
    m, a, b = _factors(m_a, m_b)
    return m.masked_fill(m == -math.inf, 0), l_a * a + l_b * b, o_a * a[:, None] + o_b * b[:, None]


def one_maximum(m_a, l_a, o_a, m_b, l_b, o_b):
    top = torch.maximum(m_a, m_b).max().expand(len(m_a))
    shift = top.masked_fill(top == -math.inf, 0)
    a, b = torch.exp(m_a - shift), torch.exp(m_b - shift)
    return top, l_a * a + l_b * b, o_a * a[:, None] + o_b * b[:, None]


def columns_rescaled(m_a, l_a, o_a, m_b, l_b, o_b):
    m, a, b = _factors(m_a, m_b)
    return m, l_a * a + l_b * b, o_a * a + o_b * b


WRONG = {
    "if nothing is rescaled: both sums have to be measured from the same maximum": nothing_rescaled,
    "if only the first state is rescaled: the second one may have the smaller maximum": only_a_rescaled,
    "if l is rescaled and o is not": o_not_rescaled,
    "if the factors are exp(m − m_a) and exp(m − m_b), upside down": upside_down,
    "if o is multiplied by l, as if it came divided: it comes undivided": taken_as_divided,
    "if the result is divided by l: o is asked for undivided": divided,
    "if o is taken as divided by l and returned divided, too: this state carries it undivided": averages,
    "if a query without any key is forgotten: −∞ − (−∞) is NaN": both_empty,
    "if Python's max compares the tensors: that works for one query only, torch.maximum goes query by query": pythons_max,
    "if Python's max compares the tensors, torch.maximum goes query by query; and −∞ − (−∞) is NaN": pythons_max_both_empty,
    "if a set counts as empty only when it is for all queries: each query may have no key on its own": asked_of_all,
    "if a set counts as empty as soon as it is for one query: each query may have no key on its own": asked_of_any,
    "if 0, put in the place of −∞ for the exponents, is returned as m": zero_for_no_key,
    "if one maximum serves all queries: each has its own": one_maximum,
    "if the factors multiply the columns of o: a query is a row, so write factor[:, None]": columns_rescaled,
}
