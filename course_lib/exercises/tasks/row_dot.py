"""Lecture 07: D from dO and O, and a block of dS."""

import math

import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="07",
    title="D without a row of P",
    dtypes=True,
    parts=("D", "dS"),
    hints=(
        "A sum over the block's keys is only a part of D. Which sum over c, the d entries of a row, gives all of it?",
        "Σ_j P_ij dP_ij = Σ_j P_ij Σ_c dO_ic V_jc = Σ_c dO_ic (Σ_j P_ij V_jc). The bracket is O_ic. Convert 16-bit "
        "numbers to float32 first.",
        "That sum runs over the d entries of a row of O and dO, in float32. In dS each row of the block subtracts its own D: "
        "which dimension does D lack?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def row_dot(o: torch.Tensor, do: torch.Tensor, p: torch.Tensor, dp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(D [N], dS [N, n]), float32, from o, do [N, d] and a block p, dp [N, n] of P and dP."""
    D = (o.float() * do.float()).sum(dim=1)
    return D, p * (dp - D[:, None])
'''
WHY = r"""
$D_i = \sum_j P_{ij} \sum_c dO_{ic} V_{jc} = \sum_c dO_{ic}\,O_{ic}$: the forward pass has already summed over the keys, and $O$ is that
sum. So $D$ is known before the first block, and each block of $dS$ can be finished alone. Over all blocks each row of $dS$ sums to 0;
over one block it need not.
"""


def of_attention(n, keys, d, first=0, last=None):
    """One block of an attention over all keys."""
    p = torch.softmax(2 * torch.randn(n, keys), dim=1)
    v, do = torch.randn(keys, d), torch.randn(n, d)
    return p @ v, do, p[:, first:last], (do @ v.T)[:, first:last]


def cases(draw):
    by_hand = [[[2.0], [2.5]], [[1.0], [2.0]], [[0.5, 0.5], [0.25, 0.75]], [[1.0, 3.0], [2.0, 6.0]]]
    yield Case("the 2 × 2 case by hand", tuple(torch.tensor(x) for x in by_hand))
    one_key = [[[1.0, -2.0, 0.5]], [[2.0, 0.5, 4.0]], [[1.0]], [[3.0]]]
    yield Case("one query, one key: dS is 0", tuple(torch.tensor(x) for x in one_key))
    yield Case("keys 2 and 3 of 5", of_attention(4, 5, 3, 2, 4))
    yield Case("as many keys as queries, as large a d", of_attention(6, 6, 6))
    o, do, p, dp = of_attention(5, 8, 4, 4, 8)
    p[:2] = 0.0
    yield Case("rows that see no key of the block", (o, do, p, dp))
    yield Case("a ragged block of one key", of_attention(9, 7, 16, 6))
    large = torch.tensor([[300.0, 250.0], [400.0, 300.0]]).half()
    yield Case("float16, with products beyond 65,504", (large, large.flip(1), p[2:4, :3], dp[2:4, :3]))
    keys = draw.randint(3, 12)
    yield Case("any sizes", of_attention(draw.randint(2, 9), keys, draw.randint(1, 9), draw.randint(0, keys - 3)))


def expected(o, do, p, dp):
    """Number by number, in exactly rounded sums of float64."""
    rows = [math.fsum(x * y for x, y in zip(a, b)) for a, b in zip(o.tolist(), do.tolist())]
    ds = [[x * (y - total) for x, y in zip(a, b)] for a, b, total in zip(p.tolist(), dp.tolist(), rows)]
    return torch.tensor(rows), torch.tensor(ds)


PRODUCT, DS = "o.float() * do.float()", "p * (dp - D[:, None])"
WRONG = {
    "if D is summed over the block of P ∘ dP: the keys outside of the block are missing": (PRODUCT, "p * dp"),
    "if D is summed over the queries instead of along each row": ("dim=1", "dim=0"),
    "if D is subtracted along the keys: D[:, None] gives each row its own number": ("D[:, None]", "D"),
    "if 16-bit numbers are multiplied or summed in 16 bits: all is rounded, and ∞ beyond 65,504":
        (PRODUCT, "(o * do).float()"),
    "if D is not subtracted: dS = P ∘ (dP − D)": (DS, "p * dp"),
    "if D is right, and dS subtracts the sum over the block: the keys outside of it are missing":
        (DS, "p * (dp - (p * dp).sum(dim=1, keepdim=True))"),
}  # fmt: skip
