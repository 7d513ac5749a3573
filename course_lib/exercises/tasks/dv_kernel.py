"""Lecture 07: dV = Pᵀ dO under a causal mask, as a Triton kernel that recomputes P."""

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness import watch


def run(kernel, case):
    """dV, and in words what was loaded or stored without need; '' for nothing."""
    q, k, L, do = case.args
    (n, d), dv = q.shape, torch.full_like(k, torch.nan)
    block = case.constants.get("BLOCK", 16)
    programs, largest = -(-n // block), (block * d, "BLOCK rows of D numbers")
    seen = watch.launched(kernel, (programs,), q, k, L, do, dv, n, d**-0.5, D=d, BLOCK=block, largest=largest)
    if sum(seen.stores) > dv.numel():
        return dv, f"dV has {dv.numel():,} numbers, {sum(seen.stores):,} were stored: keep the sum on the chip"
    needed = d * sum(n - first for first in range(0, n, block))
    more = max(seen.all("q_ptr"), seen.all("do_ptr")) > needed
    return dv, "a block of queries twice in a program, or one that sees none of its keys" if more else ""


EXERCISE = Exercise(
    lecture="07",
    title="dV under a causal mask",
    run=run,
    parts=("dV", "loads and stores"),
    arguments=("Q", "K", "L", "dO"),
    compiles={"scale": "fp32", "D": 16, "BLOCK": 16},
    tolerance=2e-4,
    hints=(
        "What is stationary in a program, what is streamed? A block of K and one accumulator, dV, both [BLOCK, D], stay. Q, dO and L "
        "stream past, BLOCK queries at a time. Which is the first query that sees the program's first key?",
        "Along a row of S lie keys, down a column queries; for dV the keys have to be the rows. So P is transposed, or made as "
        "[keys, queries] from the beginning. Two masks: the triangle on the diagonal, and the end of the sequence.",
        "What is P where a query does not exist, for the number that you load in place of its L? And where a key is hidden: "
        "e^(S − L) may be ∞ there, so choose 0 in its place, for ∞ times 0 is NaN.",
    ),
)

# --- for teachers ---

SOLUTION = '''
@triton.jit
def dv_kernel(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """dV [n, D] = Pᵀ dO, float32, with causal P = exp(scale · Q Kᵀ − L) recomputed; one block of keys per program."""
    first = tl.program_id(0) * BLOCK
    keys, cols = first + tl.arange(0, BLOCK), tl.arange(0, D)
    k = tl.load(k_ptr + keys[:, None] * D + cols[None, :], mask=keys[:, None] < n, other=0.0)
    dv = tl.zeros([BLOCK, D], tl.float32)
    for start in range(first, n, BLOCK):  # query i sees key i: the walk begins on the diagonal
        rows = start + tl.arange(0, BLOCK)
        at = rows[:, None] * D + cols[None, :]
        q = tl.load(q_ptr + at, mask=rows[:, None] < n, other=0.0)
        do = tl.load(do_ptr + at, mask=rows[:, None] < n, other=0.0)
        L = tl.load(L_ptr + rows, mask=rows < n, other=float("inf"))
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        p = tl.where(keys[None, :] <= rows[:, None], tl.exp(s - L[:, None]), 0.0)
        dv = tl.dot(tl.trans(p), do, dv, input_precision="ieee")
    tl.store(dv_ptr + keys[:, None] * D + cols[None, :], dv, mask=keys[:, None] < n)
'''
WHY = """
With L each block of P comes back alone: no maximum, no sum, in any order. So the outer loop may go over K/V, and dV is written once,
without atomics. Forward, a causal walk ends on the diagonal; here it begins there, because the keys stay and the queries pass. L knows
nothing of hidden scores, so e^(S − L) may overflow for them: tl.where chooses, a product with a mask of zeros and ones would make NaN.
"""


def hidden(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def cases(draw):
    def case(words, n, d=16, **sizes):
        return with_lse(words, torch.randn(n, d), torch.randn(n, d), **sizes)

    def with_lse(words, q, k, **sizes):
        s = (q.double() @ k.double().T / q.shape[1] ** 0.5).masked_fill(hidden(len(q)), -torch.inf)
        return Case(words, (q, k, torch.logsumexp(s, dim=1).float(), torch.randn(q.shape)), sizes)

    yield case("one block", 16, d=32)
    yield case("three blocks", 48)
    yield case("ragged", 21)
    yield case("one token", 1)
    yield case("BLOCK = 64", 130, BLOCK=64)
    q, k = torch.randn(2, 19, 16)
    q[:, 0], k[-1, 0] = 4, 120
    yield with_lse("a hidden score far above all others", q, k)
    q, k = torch.randn(2, 19, 16)
    q[:, 3:], k[:, 3:] = 0, 0  # few products: large scores are to be sums of few rounding errors
    q[:, 0], k[:, 0] = -20, 20
    yield with_lse("all scores far below 0", q, k)
    for _ in range(2):
        yield case("any sizes", draw.randint(1, 60), draw.choice((16, 32)), BLOCK=draw.choice((16, 16, 64)))


def expected(q, k, L, do):
    """PyTorch's own differentiation of the attention, in float64; it uses no L."""
    v = torch.zeros(k.shape, dtype=torch.float64, requires_grad=True)
    s = (q.double() @ k.double().T / q.shape[1] ** 0.5).masked_fill(hidden(len(q)), -torch.inf)
    return torch.autograd.grad(torch.softmax(s, dim=1) @ v, v, do.double())[0].float(), ""


SEEN, P = "keys[None, :] <= rows[:, None]", "tl.exp(s - L[:, None])"
P_SEEN = f"tl.where({SEEN}, {P}, 0.0)"
WRONG = {
    "if P is recomputed without L: exp(S) is not divided by the row's sum": (P, "tl.exp(s)"),
    "if P is not transposed: with square blocks the shapes fit all the same": ("tl.trans(p)", "p"),
    "if nothing is masked, and the walk begins at query 0, as without a causal mask": (P_SEEN, P, "range(first, n", "range(0, n"),
    "if the triangle is the other one: a query sees the keys before it, so a key is seen by the queries after it":
        (SEEN, SEEN.replace("<=", ">=")),
    "if P is multiplied by a mask of zeros and ones: where a hidden score is large that is ∞ · 0": (P_SEEN, f"{P} * ({SEEN})"),
    "if the walk begins at query 0: right, but blocks are loaded that see none of the keys": ("range(first, n", "range(0, n"),
    "if beyond the last query L is padded with −∞, or Q or dO with nothing: P is then undefined, and the sum NaN": ('"inf"', '"-inf"'),
}  # fmt: skip
