"""Lecture 14: the context at which attention takes as many operations as the matmuls with weights."""

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="14",
    title="where attention takes over",
    hints=(
        "Count both per token: the operations of the weights, and those of scores and values over T keys.",
        "A matmul with n weights takes 2n operations per token. Each key that a query sees costs it `width` multiplications for "
        "the score and as many for the values.",
        "Without a mask a query sees T keys, under a causal one half of them on average. Where are the two counts equal?",
    ),
)

# --- for teachers ---

SOLUTION = """
def crossing(width, mlp, causal):
    return (4 + mlp) * width * (1 if causal else 0.5)
"""
WHY = """
The weights take 2 · (4 + mlp) · width² operations per token, attention 4 · T · width without a mask and half of that under a causal
one. So the crossing grows with the width: in a wide model attention takes over late.
"""


def cases(draw):
    yield Case("a causal mask", (384, 8, True))
    yield Case("no mask", (1024, 8, False))
    for causal in (True, False) * 2:
        yield Case("any model", (64 * draw.randint(1, 128), draw.randint(2, 24), causal))


def expected(width, mlp, causal):
    """The T at which 4 · T · width, half of it under a mask, is 2 · (4 + mlp) · width²."""
    return 2 * (4 + mlp) * width**2 / (4 * width * (0.5 if causal else 1.0))


BOTH = "(1 if causal else 0.5)"
WRONG = {
    "if the mask counts for nothing: under it half of the pairs are left": (BOTH, "0.5"),
    "if every pair is masked by half: without a mask all are left": (f" * {BOTH}", ""),
    "without the 4 · width² around attention": ("(4 + mlp)", "mlp"),
    "if the operations of the weights are returned, and not the context": ("width *", "width**2 *"),
}
