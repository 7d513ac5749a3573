"""Lecture 06: the smallest block of keys with which V1 moves fewer bytes than V2."""

from course_lib.exercises.base import Exercise

ASKED = r"""
$N$ = 4,096, $d$ = 64, fp16: with 16 queries at a time in V2 and 128 keys at a time in V1, V1 moves fewer bytes. Would
64 keys do? 32? Return the smallest `block_n`, from 1 to $N$, with which V1 moves *fewer* bytes than V2 with blocks of
`block_m` queries; `None` if there is none.

One head, $N$ queries and keys, no mask, exact bytes. $Q$, $K$, $V$ and V2's $O$ have `e` bytes an element (2 or 4);
$\ell$, $m$, $L$ and V1's $O$ are fp32, 4 bytes.

- V1, for each of the ⌈N / block_n⌉ blocks of keys: read all of $Q$, $O$, $\ell$, $m$, write all of $O$, $\ell$, $m$.
  $K$ and $V$ are read once.
- V2, for each of the ⌈N / block_m⌉ blocks of queries: read all of $K$ and $V$. $Q$ is read once, $O$ and $L$ are
  written once.

$\ell$, $m$ and $L$ are vectors of $N$ numbers, the matrices are $N$ × $d$.
"""

STUB = '''
def order_crossover(N: int, d: int, block_m: int, e: int) -> int | None:
    """The smallest block_n with which V1 moves fewer bytes than V2; None if there is none."""
    ...
'''


EXERCISE = Exercise(
    name="order_crossover",
    lecture="06",
    title="where V1 moves less",
    level=2,
    minutes=12,
    core=True,
    asked=ASKED,
    stub=STUB,
    answers=("course_lib.model.cost.flash_v1_traffic", "course_lib.model.cost.flash_v2_traffic"),
    hints=(
        "Every term has the factor N: count the bytes of one row. What does V1 move for each block of keys, and what "
        "once? What does V2? Then try each block_n.",
        "For each block of keys V1 moves d·e for Q, 8·d for O both ways, and 16 for ℓ and m both ways; K and V are 2·d·e, "
        "once. Write V2 down in the same way. How many blocks of keys do N keys make, the last one shorter?",
        "Both totals, for each block_n from 1 to N, in whole numbers; the first at which V1 is below V2. Rounding up matters: "
        "100 keys in blocks of 64 are two blocks. Or look at which term of V1 depends on block_n at all, and solve for it.",
    ),
)
