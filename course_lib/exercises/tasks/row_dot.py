"""Lecture 07: D from dO and O, and a block of dS."""

from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
By hand $O = (2, \tfrac52)^\top$ and $dO = (1, 2)^\top$ gave $D = (2, 5)$, and $D_i = \sum_j P_{ij}\,dP_{ij}$ over
*all* keys $j$ gave the same. Now you hold only a block of the keys. `o` and `do` are [N, d], float32 or float16, for
the N queries; `p` and `dp` are [N, n], float32: the columns of $P$ and $dP$ that belong to the block's n keys. Return
the tuple (`D`, `dS`), both float32: $D$ [N] for whole rows, and the block of $dS = P \circ (dP - D)$, [N, n].
"""

STUB = '''
def row_dot(o: torch.Tensor, do: torch.Tensor, p: torch.Tensor, dp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(D [N], dS [N, n]), float32, from o, do [N, d] and a block p, dp [N, n] of P and dP."""
    ...
'''


def remark(case: Case, result: Any) -> str:
    kinds = [y.dtype for y in result]
    return (
        ""
        if set(kinds) == {torch.float32}
        else f"the numbers are right, but {kinds[0]} and {kinds[1]} came back; return torch.float32"
    )


EXERCISE = Exercise(
    name="row_dot",
    lecture="07",
    title="D without a row of P",
    level=1,
    minutes=3,
    asked=ASKED,
    stub=STUB,
    parts=("D", "dS"),
    remark=remark,
    hints=(
        "A sum over the block's keys is only a part of D. Which sum over c, the d entries of a row, gives all of it?",
        "Σ_j P_ij dP_ij = Σ_j P_ij Σ_c dO_ic V_jc = Σ_c dO_ic (Σ_j P_ij V_jc). The bracket is O_ic. Convert 16-bit "
        "numbers to float32 first.",
        "That sum runs over the d entries of a row of O and dO, in float32. In dS each row of the block subtracts its own D: "
        "which dimension does D lack?",
    ),
)
