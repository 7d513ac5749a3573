"""Lecture 02: what merge_states is checked by."""

import decimal
import math
from collections.abc import Iterable
from decimal import Decimal

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants

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
    yield Case(
        "scores of −30,000 and of 30,000", (*_state(scores - 30000, values), *_state(scores.flip(0) + 30000, values))
    )
    yield Case("all scores −30,000", (*_state(scores - 30000, values), *_state(scores.flip(0) - 30000, values)))
    low = torch.full((2, 2), -3e38)
    yield Case("scores at the lower end of fp32, and no key", (*_state(low, values), *_state(low - inf, values)))
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
    """Query by query with 50 digits: a state stands for one key with the score m + ln l and the value o / l."""
    m, l, o = torch.maximum(m_a, m_b).double(), torch.zeros(len(m_a)).double(), torch.zeros(o_a.shape).double()
    digits = decimal.Context(prec=50)
    for i, top in enumerate(m.tolist()):
        for m_s, l_s, o_s in ((m_a, l_a, o_a), (m_b, l_b, o_b)):
            if float(l_s[i]) > 0:
                score = digits.add(Decimal(float(m_s[i])), digits.ln(Decimal(float(l_s[i]))))
                weight = float(digits.exp(digits.subtract(score, Decimal(top))))
                l[i] += weight
                o[i] += weight * (o_s[i].double() / float(l_s[i]))
    return m.float(), l.float(), o.float()


def _merge(m_a, l_a, o_a, m_b, l_b, o_b, bug):
    if bug == "all":
        for m, other in ((m_a, (m_b, l_b, o_b)), (m_b, (m_a, l_a, o_a))):
            if (m == -math.inf).all():
                return other
    m = torch.minimum(m_a, m_b) if bug == "smaller" else torch.maximum(m_a, m_b)
    if bug == "one maximum":
        m = m.max().expand(len(m_a))
    shift = m if bug in ("both empty", "all") else m.masked_fill(m == -math.inf, 0)
    if bug == "no maximum":
        shift = torch.zeros(len(m_a))
    if bug == "finite":
        shift = m.clamp(min=-10000.0)
    a, b = torch.exp(m_a - shift), torch.exp(m_b - shift)
    if bug == "inverse":
        a, b = torch.exp(shift - m_a), torch.exp(shift - m_b)
    if bug == "exchanged":
        a, b = b, a
    if bug == "added":
        a, b = torch.ones(len(m_a)), torch.ones(len(m_b))
    a = torch.ones(len(m_a)) if bug == "only b" else a
    b = torch.ones(len(m_b)) if bug == "only a" else b
    if bug == "by L":
        L_a, L_b = m_a + l_a.log(), m_b + l_b.log()
        l = torch.exp(torch.logaddexp(L_a, L_b) - shift)
        means = (
            (torch.exp(L - shift)[:, None] * o / l.masked_fill(l == 0, 1)[:, None])
            for L, o, l in ((L_a, o_a, l_a), (L_b, o_b, l_b))
        )
        return m, l, sum(means)
    l = l_a + l_b if bug == "l kept" else l_a * a + l_b * b
    o = o_a + o_b if bug == "o kept" else o_a * a[:, None] + o_b * b[:, None]
    if bug == "times l":
        o = o_a * (a * l_a)[:, None] + o_b * (b * l_b)[:, None]
    if bug == "along d":
        o = o_a * a + o_b * b
    if bug == "divided":
        o = o / l.masked_fill(l == 0, 1)[:, None]
    return (m.masked_fill(m == -math.inf, 0) if bug == "zero for m" else m), l, o


WRONG = variants(
    _merge,
    {
        "if only the first state is rescaled: the second one may have the smaller maximum": "only a",
        "if only the second state is rescaled: the first one may have the smaller maximum": "only b",
        "if o is rescaled and l is not": "l kept",
        "if l is rescaled and o is not": "o kept",
        "if l and o are added as they are: each is measured from its own maximum": "added",
        "if the factors are upside down: they are e^(m_a − m) and e^(m_b − m), at most 1": "inverse",
        "if the two factors change places: each set is rescaled from its own maximum": "exchanged",
        "if the smaller maximum is taken: the factors then overflow": "smaller",
        "if o is weighted by l, too: it is a sum already, not divided by l": "times l",
        "if l is made of L = m + ln l: where scores are large, L has no digits left for it": "by L",
        "if the result is divided by l: o is asked for undivided": "divided",
        "if a query without any key is forgotten: −∞ − (−∞) is NaN": "both empty",
        "if a finite number stands for −∞, as with clamp(min=…): real scores may lie below it": "finite",
        "if a set counts as empty only when it is for all queries: each query may have no key on its own": "all",
        "if 0, put in the place of −∞ for the exponents, is returned as m": "zero for m",
        "if one maximum serves all queries: each has its own": "one maximum",
        "if no maximum is subtracted: l and o are asked for measured from m, and e^m overflows": "no maximum",
        "if o's factors lack [:, None]: they run along d then, and a query takes another's": "along d",
    },
)
