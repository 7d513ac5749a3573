"""Lecture 04: an attention whose blocks may be added, as a Triton kernel."""

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness import watch


def run(kernel, case):
    q, k, v, scale, bias = case.args
    (n_q, d), (n_k, dv) = q.shape, v.shape
    o = torch.full((n_q, dv), torch.nan)
    sizes = {"D": d, "DV": dv, "BLOCK_M": 16, "BLOCK_N": 32, **case.constants}
    rows = max(sizes["BLOCK_M"], sizes["BLOCK_N"])
    largest = rows * max(d, dv), "BLOCK_M or BLOCK_N rows of a matrix"
    watch.launched(kernel, (-(-n_q // sizes["BLOCK_M"]),), q, k, v, o, n_q, n_k, scale, bias, largest=largest, **sizes)
    return o


EXERCISE = Exercise(
    lecture="04",
    title="an attention that may be added block by block",
    run=run,
    arguments=("Q", "K", "V", "scale", "bias"),
    compiles={"scale": "fp32", "bias": "fp32", "D": 16, "DV": 32, "BLOCK_M": 16, "BLOCK_N": 32},
    tolerance=2e-5,
    hints=(
        "Which lines of the Lite kernel make weights of scores? They are replaced; the loop and the accumulator stay.",
        "Two widths: tl.arange(0, D) for the columns of Q and K, tl.arange(0, DV) for those of V, of O and of the accumulator. A row of V "
        "begins at key · DV.",
        "A key beyond the end has the score 0 + bias, and so a weight. What does it add if its row of V is loaded as zeros? And try "
        "both ways to write a sigmoid, e^x / (1 + e^x) and 1 / (1 + e^(−x)), for x = 1000.",
    ),
)

# --- for teachers ---

SOLUTION = '''
@triton.jit
def sigmoid_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """O [n_q, DV] = sigmoid(scale · Q Kᵀ + bias) V, float32; BLOCK_M rows of O per program."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims, wide = tl.arange(0, D), tl.arange(0, DV)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n_q, other=0.0)
    acc = tl.zeros([BLOCK_M, DV], tl.float32)
    for start in range(0, n_k, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * DV + wide[None, :], mask=keys[:, None] < n_k, other=0.0)
        x = tl.dot(q, tl.trans(k), input_precision="ieee") * scale + bias
        p = 1 / (1 + tl.exp(-x))
        acc = tl.dot(p, v, acc, input_precision="ieee")
    tl.store(o_ptr + rows[:, None] * DV + wide[None, :], acc, mask=rows[:, None] < n_q)
'''
WHY = """
Neither a maximum nor a sum: a weight is final when its score is known, so no block has to know of another, and the kernel is Lite without
its one wrong line. Keys beyond the end have the weight sigmoid(bias), but their rows of V are zeros. For large x, e^x / (1 + e^x)
is ∞ / ∞; 1 / (1 + e^(−x)) has no such place, because its exponential overflows only where the weight is 0.
"""


def cases(draw):
    def case(words, n_q, n_k, d=16, dv=32, scale=0.25, bias=-1.0, size=1.0, **sizes):
        q, k, v = torch.randn(n_q, d), torch.randn(n_k, d), torch.randn(n_k, dv)
        return Case(words, (size * q, size * k, v, scale, bias), {"D": d, "DV": dv, **sizes})

    yield case("one block of queries, one of keys; values wider than keys", 16, 32)
    yield case("values narrower than keys", 16, 64, 32, 16)
    yield case("ragged keys", 16, 41)
    yield case("one query, one key", 1, 1, bias=0.5)
    yield case("blocks of 32 queries and 16 keys, all ragged, DV = 64", 37, 75, 32, 64, 0.2, BLOCK_M=32, BLOCK_N=16)
    yield case("scores in the thousands, of both signs", 16, 40, size=50.0)
    yield case("any sizes", draw.randint(1, 50), draw.randint(1, 70), dv=draw.choice((16, 64)), bias=draw.random())


def expected(q, k, v, scale, bias):
    """In float64; of each score the exponential that cannot overflow."""
    x = q.double() @ k.double().T * scale + bias
    power = torch.exp(-x.abs())
    return (torch.where(x >= 0, 1.0, power) / (1 + power) @ v.double()).float()


P, SCORE = "1 / (1 + tl.exp(-x))", "* scale + bias"
WRONG = {
    "if V and O are taken to be D wide: they have DV columns": ("(0, DV)", "(0, D)", "* DV", "* D", "[BLOCK_M, DV]", "[BLOCK_M, D]"),
    "if the sigmoid is written e^x / (1 + e^x): for large x that is ∞ / ∞": (P, "tl.exp(x) / (1 + tl.exp(x))"),
    "if the sigmoid has the wrong sign: 1 / (1 + e^x) falls as the score grows": (P, "1 / (1 + tl.exp(x))"),
    "if the scores are not multiplied by scale": (SCORE, "+ bias"),
    "if the last block of keys is left out where it is not full": ("range(0, n_k,", "range(0, n_k // BLOCK_N * BLOCK_N,"),
    "if the store is not masked: a ragged block of queries writes beyond O": ("acc, mask=rows[:, None] < n_q", "acc"),
}  # fmt: skip
