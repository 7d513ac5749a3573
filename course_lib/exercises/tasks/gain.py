"""Lecture 14: how many times as fast a step becomes if its attention does."""

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="14",
    title="what a faster attention gains",
    hints=(
        "How long does the rest of the step, all but attention, take afterwards?",
        "Only the attention seconds are divided by `faster`. What is left is not.",
        "A gain is the time before over the time afterwards. Without attention nothing is gained; where all is attention, `faster`.",
    ),
)

# --- for teachers ---

SOLUTION = """
def gain(step, attention, faster):
    return step / (step - attention + attention / faster)
"""
WHY = """
Amdahl's law: what does not become faster stays in the denominator. With a share s of attention, no kernel gains more than 1 / (1 − s).
"""


def cases(draw):
    yield Case("half of the step is attention, and becomes twice as fast", (2.0, 1.0, 2.0))
    yield Case("a fifth of the step is attention", (0.03, 0.006, 1.5))
    yield Case("a step without attention", (1.0, 0.0, 8.0))
    yield Case("a step of attention alone", (1.0, 1.0, 3.0))
    for _ in range(4):
        step = draw.uniform(0.01, 5.0)
        yield Case("any step", (step, step * draw.uniform(0.05, 0.95), draw.uniform(1.1, 9.0)))


def expected(step, attention, faster):
    """1 over the share of the time that is left."""
    return 1 / (1 - attention / step * (1 - 1 / faster))


REST = "step / (step - attention + attention / faster)"
WRONG = {
    "if all of the step becomes faster": (REST, "faster"),
    "if attention takes no time any more": (REST, "step / (step - attention) if attention < step else math.inf"),
    "if the time afterwards is returned: a gain is the time before over it": ("step / (", "("),
}  # fmt: skip
