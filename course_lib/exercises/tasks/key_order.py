"""Lecture 12: the order in which an 8-bit kernel stores the keys of V."""

from typing import Any

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
Four threads hold a row of P. Of each 16 columns, which are keys, thread 1 has 2, 3, 10 and 11. The next matmul reads its registers as
columns 4, 5, 6 and 7 of the operand. So V's key 10 has to stand in place 6. In general thread $t$ = 0 … 3 holds columns $2t$, $2t + 1$,
$8 + 2t$, $9 + 2t$, and they are read as $4t$ to $4t + 3$. You get V transposed, `vt` [D, N], any dtype. Return it as the matmul needs
it, [D, N'], N' = N rounded up to a multiple of 16: each group of 16 keys reordered in itself, and zeros where a key is missing (N is no
multiple of 16; the missing keys are N to N' − 1).
"""

STUB = '''
def key_order(vt: torch.Tensor) -> torch.Tensor:
    """V transposed [D, N] -> [D, N'], the keys of each 16 in the order in which the threads hold P."""
    ...
'''


def remark(case: Case, result: Any) -> str:
    kind = case.args[0].dtype
    return (
        "" if result.dtype == kind else f"the numbers are right, but {result.dtype} came back; return {kind}, as vt is"
    )


EXERCISE = Exercise(
    name="key_order",
    lecture="12",
    title="the order of V's keys",
    level=2,
    minutes=10,
    asked=ASKED,
    stub=STUB,
    remark=remark,
    tolerance=0.0,
    hints=(
        "Write down the 16 places for t = 0, 1, 2, 3: place 4t + r gets the key that is the thread's r-th column. Which key is in place 2?",
        "Fill up with zeros to a multiple of 16 first. Then the 16 keys that you wrote down are the order in which to take each group; "
        "vt.unflatten(1, (-1, 16)) has a dimension for the groups.",
        "You have written down, place by place, which key stands there: that list is an index, to be used on each group's "
        "dimension. Apply it to 0 … 15 and see that place 6 gets key 10, and not key 6 place 10.",
    ),
)
