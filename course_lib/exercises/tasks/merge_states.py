"""Lecture 02: two states of the online softmax, over two sets of keys, become one."""

from collections.abc import Callable
from typing import Any

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
Split-KV: for the same queries, one program has seen the keys 0 to 99, another the keys 100 to 199. For each query each hands you
$m = \max_j x_j$, $\ell = \sum_j e^{x_j - m}$ and $o = \sum_j e^{x_j - m} v_j$ over its own scores $x_j$ and values $v_j$; $o$ is not
divided by $\ell$. With scores 3, 2 and values 10, 20 that is m = 3, ℓ = 1.368, o = 17.36.

Return the state over both sets, as a tuple (m, ℓ, o), with $o$ again undivided. m and ℓ have shape [n], one number for each of n
queries, o has shape [n, d], all float32. A set may have no key for a query: then m = −∞, ℓ = 0 and o = 0. If neither set has one, the
result is that, too.
"""

STUB = '''
def merge_states(
    m_a: torch.Tensor, l_a: torch.Tensor, o_a: torch.Tensor, m_b: torch.Tensor, l_b: torch.Tensor, o_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(m, l, o) over the keys of a and b together; m and l are [n], o is [n, d], not divided by l."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> Any:
    """On copies: an answer may work in place."""
    return function(*(part.clone() for part in case.args))


EXERCISE = Exercise(
    name="merge_states",
    lecture="02",
    title="merge two states",
    level=2,
    minutes=10,
    core=True,
    asked=ASKED,
    stub=STUB,
    run=run,
    parts=("m", "l", "o"),
    answers=("course_lib.model.softmax.merge", "course_lib.model.softmax.weights"),
    hints=(
        "Neither set is the newer one: both sums have to be measured from the larger of the two maxima.",
        "The factors are exp(m_a − m) and exp(m_b − m), one for each query. A factor belongs to l and to a whole row of o.",
        "l and o are sums, each set's times its factor; the factor of a query belongs to a whole row of o. Where m = −∞, −∞ − "
        "(−∞) is NaN in the exponents, so measure from 0 there. What is returned as m in such a row?",
    ),
)
