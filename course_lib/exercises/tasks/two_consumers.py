"""Lecture 10: an order of matmuls that keeps the tensor cores busy."""

from collections import Counter

from course_lib.exercises.exercise import Case, Exercise, defined
from course_lib.model import pipeline


def examine(case, result):
    """What is wrong with an order, and in words how long the tensor cores are idle if that is too long."""
    try:
        order = [(int(consumer), str(kind), int(block)) for consumer, kind, block in result]
        if words := missing(order, case.args[0]):
            return words, ""
        idle = pipeline.idle_fraction(pipeline.in_order(order, *case.args))
    except (TypeError, ValueError, OverflowError) as error:
        said = str(error)
        return said if said.startswith("order") else 'return a list of (consumer, "QK" or "PV", block)', ""
    return (
        "",
        "" if idle < 0.25 else f"the tensor cores are idle for {100 * idle:.1f} % of the time; less than 25 % is asked",
    )


def missing(order, blocks):
    """In words which matmul is not in the order, or stands there twice, or is none."""
    wanted = Counter((c, kind, j) for j in range(blocks) for kind in ("QK", "PV") for c in (1, 2))
    if more := Counter(order) - wanted:
        return f"order has {min(more)} too often; consumers are 1 and 2, blocks 0 to {blocks - 1}"
    lacking = wanted - Counter(order)
    return f"order lacks {min(lacking)}" if lacking else ""


EXERCISE = Exercise(
    lecture="10",
    title="who multiplies next?",
    examine=examine,
    parts=("the order", "the result"),
    forbidden=("model.pipeline.simulate",),
    hints=(
        "Draw four blocks with qk = pv = 1 and softmax = 1, then with softmax = 3. What could the tensor cores do while both consumers are "
        "at their softmax, and which two orders of QK of block j + 1 and PV of block j are there?",
        "If PV of a block comes first, the consumer's softmax is hidden behind the other consumer's two matmuls only. If QK of the next "
        "block comes first, its softmax is hidden behind PV, too, but two blocks are in use. What does that ask of the buffers?",
        "Both orders go round the consumers: PV of block j, QK of block j + 1, the next consumer; or QK of block j + 1, PV of block j, the "
        "next. Which case needs which? You can also try both with in_order and return the better one.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def two_consumers(
    blocks: int, buffers: int, load: int, qk: int, softmax: int, pv: int
) -> list[tuple[int, str, int]]:
    """The order in which the tensor cores serve (consumer, "QK" or "PV", block)."""
    order = []
    for step in range(blocks + 1):
        for consumer in (1, 2):
            ahead = [(consumer, "QK", step)] if step < blocks else []
            behind = [(consumer, "PV", step - 1)] if step > 0 else []
            order += ahead + behind if buffers > 2 else behind + ahead
    return order
'''
WHY = """
With PV first, one consumer takes exponentials while the other multiplies: ping-pong, enough as long as a softmax is no longer than two
matmuls of the other. With QK of the next block first, a consumer is ahead of itself, and its softmax may also run beside its own PV; that
is FlashAttention-3's overlap inside a warpgroup. It holds two blocks at a time, so with two buffers nobody can fetch a third, and what the
order gains is lost in waiting for loads. With a buffer more it wins. So the buffers decide here, not the durations.
"""


def cases(draw):
    yield Case("all durations 1", (12, 2, 1, 1, 1, 1))
    yield Case("two buffers, a softmax of 2", (12, 2, 2, 1, 2, 1))
    yield Case("two buffers, a longer QK", (12, 2, 1, 2, 3, 1))
    yield Case("three buffers, a softmax of 3", (12, 3, 2, 1, 3, 1))
    yield Case("four buffers, 20 blocks, a softmax of 7", (20, 4, 3, 2, 7, 2))
    for _ in range(20):
        sizes = draw.randint(10, 20), draw.randint(2, 4), *(draw.randint(1, 6) for _ in range(4))
        if pipeline.idle_fraction(pipeline.in_order(defined(SOLUTION, "two_consumers")(*sizes), *sizes)) < 0.2:
            yield Case("any durations", sizes)


def expected(blocks, buffers, load, qk, softmax, pv):
    """Nothing is wrong with the order, and the tensor cores are not idle for too long."""
    return "", ""


TURNS = "ahead + behind if buffers > 2 else behind + ahead"
SORTED = "return sorted(order, key=lambda x: ({}))"
WRONG = {
    "if PV always comes before the next QK: a long softmax is then longer than what hides it": (TURNS, "behind + ahead"),
    "if the next QK always comes before PV: two blocks are in use at a time, and two buffers cannot bring a third":
        (TURNS, "ahead + behind"),
    "if a consumer finishes a block before the other begins: nobody multiplies during its softmax":
        ("return order", SORTED.format('x[2], x[0], x[1] == "PV"')),
    "if both consumers are at the same point: they take their exponentials at the same time":
        ("return order", SORTED.format('x[2], x[1] == "PV", x[0]')),
    "if the two orders change places: it is QK first that needs a third buffer": ("buffers > 2", "buffers == 2"),
}  # fmt: skip
