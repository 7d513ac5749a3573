"""Lecture 12: the rotation of rows in d log2 d additions."""

import functools
import math

import torch
from torch.overrides import TorchFunctionMode

from course_lib.exercises.exercise import Case, Exercise


class NoMatrix(TorchFunctionMode):
    """Refuses a new tensor of 16 times as many numbers as x has, as a matrix of d × d is where d is large."""

    def __init__(self, numbers):
        super().__init__()
        self.most = 16 * numbers

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.numel() > self.most:
            raise RuntimeError(
                f"a tensor of {result.numel():,} numbers was made; with stages {self.most:,} are more than enough"
            )
        return result


def run(function, case):
    with NoMatrix(case.args[0].numel()):
        return function(*case.args)


EXERCISE = Exercise(
    lecture="12",
    title="a rotation in d log₂ d additions",
    run=run,
    forbidden=("model.quantize.rotate", "model.quantize.hadamard", "model.quantize.butterflies"),
    hints=(
        "Write one stage first, for numbers `half` apart: `x.unflatten(1, (-1, 2, half))` has the a's at [:, :, 0] and the b's at "
        "[:, :, 1].",
        "torch.stack([a + b, a − b], dim=-2).flatten(1) puts both back in their places. The stages have half = 1, 2, 4, … below d.",
        "The stages differ in `half` alone, which doubles until it reaches d. Where does the division by √2 belong, and what "
        "happens for d = 1?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def hadamard_rotation(x: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """x [N, d] times diag(sign) · Hadamard / sqrt(d), stage by stage; d a power of two."""
    x, half = x * sign, 1
    while half < x.shape[1]:
        pairs = x.unflatten(1, (-1, 2, half))
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        x = torch.stack([a + b, a - b], dim=-2).flatten(1) / math.sqrt(2)
        half *= 2
    return x
'''
WHY = """
Each stage keeps a² + b², so it keeps the length of the row and every product of two rows. After log₂ d stages each result holds a part of
every number: one outlier is shared out among d places and is √d times smaller. The signs come
first because without them a row of equal numbers would *become* an outlier.
"""


def cases(draw):
    yield Case("a row of 3 and 1", (torch.tensor([[3.0, 1.0]]), torch.ones(2)))
    yield Case("d = 1: only the sign is left", (torch.tensor([[5.0]]), torch.tensor([-1.0])))
    yield Case("d = 4, two stages", (torch.tensor([[3.0, 2.0, 5.0, 1.0]]), torch.ones(4)))
    row = torch.tensor([[1.0, 2.0, 250.0, -3.0, 0.0, 2.0, -1.0, 4.0]])
    yield Case("an outlier of 250 among eight", (row, torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])))
    yield Case("five rows of 64", (torch.randn(5, 64), _signs(64)))
    yield Case("d = 1024, in d log2 d additions", (torch.randn(1, 1024), _signs(1024)))


def _signs(d):
    return 1.0 - 2.0 * torch.randint(0, 2, (d,))


def expected(x, sign):
    """With the matrix, in float64."""
    two = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    matrix = functools.reduce(torch.kron, [two] * (len(sign).bit_length() - 1), torch.ones(1, 1))
    return ((x.double() * sign) @ matrix.double() / math.sqrt(len(sign))).float()


ROOT, FIRST = " / math.sqrt(2)", "x * sign, 1"
WRONG = {
    "without the division by √2 in each stage: lengths grow by √d": (ROOT, ""),
    "if the signs are applied after the stages: numbers of one sign then still add up to an outlier":
        (FIRST, "x, 1", "return x", "return x * sign"),
    "if each stage divides by 2, or d divides at the end: a stage divides by √2, which keeps the length": (ROOT, " / 2"),
    "if all stages have the same distance: two such stages undo each other": ("2, half))", "2, 1))"),
    "if all sums come first and all differences behind them: they belong in the places of a and b": ("dim=-2", "dim=1"),
    "if you multiply with the matrix: right, but with d² multiplications a row instead of d log₂ d additions":
        (f"x, half = {FIRST}", "rows, x, half = x * sign, torch.eye(x.shape[1]), 1", "return x", "return rows @ x"),
}  # fmt: skip
