"""Lecture 06: the smallest block of keys with which V1 moves fewer bytes than V2."""

import bisect

from course_lib.exercises.exercise import Case, Exercise
from course_lib.model import cost

EXERCISE = Exercise(
    lecture="06",
    title="where V1 moves less",
    forbidden=("model.cost.flash_v1_traffic", "model.cost.flash_v2_traffic"),
    hints=(
        "Every term has the factor N: count the bytes of one row. What does V1 move for each block of keys, and what "
        "once? What does V2? Then try each block_n.",
        "For each block of keys V1 moves d·e for Q, 8·d for O both ways, and 16 for ℓ and m both ways; K and V are 2·d·e, "
        "once. Write V2 down in the same way. How many blocks of keys do N keys make, the last one shorter?",
        "Both totals, for each block_n from 1 to N, in whole numbers; the first at which V1 is below V2. Rounding up matters: "
        "100 keys in blocks of 64 are two blocks. Or look at which term of V1 depends on block_n at all, and solve for it.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def order_crossover(N: int, d: int, block_m: int, e: int) -> int | None:
    """The smallest block_n with which V1 moves fewer bytes than V2; None if there is none."""
    one_pass = d * e + 2 * 4 * d + 2 * 2 * 4  # of V1, a row: Q; O both ways; l and m both ways
    budget = 2 * math.ceil(N / block_m) * d * e + 4  # of V2, a row: K and V, and L; the rest is 2 d e in both
    passes = (budget - 1) // one_pass
    return math.ceil(N / passes) if passes else None
'''
WHY = """
The 2·d·e of K and V in V1 meet the 2·d·e of Q and O in V2. What is left: V1 pays d·e + 8·d + 16 for each block of
keys, V2 pays 2·d·e for each block of queries. For large d in fp16 that is 10·d against 4·d: V1 needs blocks two and a
half times as large as V2's, in fp32 one and a half times. For N = 4,096, d = 64, fp16 and 16 queries it needs 42
keys. The search is as good an answer: V1's bytes never grow with block_n, so the first hit is the smallest.
"""


def cases(draw):
    yield Case("one query, one key: V1 never wins", (1, 16, 1, 2))
    yield Case("at best equal is not fewer", (16, 2, 4, 2))
    yield Case("equal but for the bytes of L", (14, 4, 2, 2))
    yield Case("equal at one block_n", (24, 1, 2, 2))
    yield Case("N = 4,096, d = 64, 16 queries at a time, fp16", (4096, 64, 16, 2))
    yield Case("the same in fp32", (4096, 64, 16, 4))
    for words, size in (("any numbers, small", 12), ("any numbers", 300)):
        for _ in range(30):
            N = draw.randint(1, size)
            yield Case(words, (N, draw.randint(1, 16), draw.randint(1, max(1, N // 2)), draw.choice((2, 4))))
    for N in (3000, 5000, 100_000):
        yield Case("two blocks of queries: one block of all keys", (N, 64, N // 2, 4))


def expected(N, d, block_m, e):
    """By halving, from the counts that the simulated memory confirms: V1's never grow with block_n."""
    kind = {2: "fp16", 4: "fp32"}[e]
    v2 = cost.flash_v2_traffic(N, d, block_m, kind, lse=True).total_bytes
    blocks = range(1, N + 1)
    at = bisect.bisect_left(blocks, True, key=lambda b: cost.flash_v1_traffic(N, d, b, kind).total_bytes < v2)
    return blocks[at] if at < N else None


O, VECTORS, FIRST, L = "2 * 4 * d", " + 2 * 2 * 4", "math.ceil(N / passes)", "* d * e + 4"
WRONG = {
    "if V1's O is counted with e bytes: it is kept in fp32": (O, "2 * e * d"),
    "if V1's O is counted one way: it is read and written for each block of keys": (O, "4 * d"),
    "if ℓ and m are forgotten in V1": (VECTORS, ""),
    "if V2's L is forgotten": (L, "* d * e"),
    "if N // block is taken for ⌈N / block⌉ in both": ("math.ceil(N / block_m)", "(N // block_m)", FIRST, "N // (passes + 1) + 1"),
    "if equal counts pass for fewer": ("(budget - 1)", "budget"),
}  # fmt: skip
