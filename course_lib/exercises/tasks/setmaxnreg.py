"""Lecture 11: how many registers a consumer can have."""

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="11",
    title="who gets how many registers",
    forbidden=("model.registers.plan", "model.registers.at_start"),
    hints=(
        "Count in registers per thread of a warpgroup: the SM has 512 of them. How many do consumers + 1 warpgroups own together "
        "after the start?",
        "A multiple of 8 is needed twice: for the parts at the start, and for what a consumer has in the end. What remains to be "
        "divided in between?",
        "Three steps: the equal parts at the start, in multiples of 8; what all warpgroups then own together, without what the "
        "producer keeps; the share of a consumer, in multiples of 8 again. Which number is the most that a thread can have?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def setmaxnreg(consumers: int, producer: int) -> int:
    """Registers per thread of each consumer, if the producer keeps so many per thread."""
    start = 512 // (consumers + 1) // 8 * 8
    share = ((consumers + 1) * start - producer) // consumers
    return min(256, share // 8 * 8)
'''
WHY = """
Rounding happens twice. At the start three warpgroups own 3 · 168 = 504 of 512, and the other 8 stay unused for good. Then the share is
rounded: with a producer that keeps 32, (504 − 32) / 2 = 236 becomes 232, and 8 more are left over. With 24 none are: 24 + 2 · 240 = 504.
A kernel that requests 240 beside a producer of 32 does not fail: it waits forever.
"""


def cases(draw):
    yield Case("two consumers, a producer that keeps 24", (2, 24))
    yield Case("three consumers: a share that is no multiple of 8", (3, 40))
    yield Case("two consumers: a share that is no multiple of 8", (2, 32))
    yield Case("one consumer: the limit of 256", (1, 24))
    yield Case("four consumers: 512 / 5 is no whole number", (4, 24))
    for _ in range(10):
        yield Case("any numbers", (draw.randint(1, 7), 8 * draw.randint(3, 7)))


def expected(consumers, producer):
    """The largest number that keeps all rules, by trying them."""
    sizes = range(8, 257, 8)
    start = max(r for r in sizes if 128 * r * (consumers + 1) <= 65_536)
    owned = 128 * start * (consumers + 1)
    return max(r for r in sizes if 128 * (producer + consumers * r) <= owned)


WHOLE = "share // 8 * 8"
WRONG = {
    "if the consumers share all 512: what the rounding at the start leaves over belongs to nobody": ("(consumers + 1) * start", "512"),
    "if the start is not rounded down to a multiple of 8: 512 / 5 leaves 96 for each, not 102":
        ("(consumers + 1) // 8 * 8", "(consumers + 1)"),
    "if the share is not rounded down to a multiple of 8: setmaxnreg refuses it": (WHOLE, "share"),
    "without the limit of 256": (f"min(256, {WHOLE})", WHOLE),
    "if the producer's warpgroup is not counted at the start: all share the registers then": ("(consumers + 1)", "consumers"),
}  # fmt: skip
