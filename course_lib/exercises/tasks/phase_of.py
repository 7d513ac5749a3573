"""Lecture 10: buffers and phases of a ring."""

from course_lib.exercises.base import Exercise

ASKED = r"""
With two buffers, tile 3 lies in buffer 1. The consumer waits there for phase 1 of *full*, the producer for phase 0 of *empty*: both go
round for the second time. Write this for tile `n` (counted from 0) of a ring of `buffers`. *full* and *empty* each complete one phase
for each tile of their buffer; phases are numbered 0, 1, 0, 1, … Of a fresh barrier phase 1 counts as complete, so the producer need not
wait for a buffer that nobody has used. Return three ints: the buffer, the phase of *full* that the consumer waits for, the phase of
*empty* that the producer waits for.
"""

STUB = '''
def phase_of(n: int, buffers: int) -> tuple[int, int, int]:
    """(buffer, phase of full, phase of empty) for tile n of a ring."""
    ...
'''


EXERCISE = Exercise(
    name="phase_of",
    lecture="10",
    title="buffers and phases of a ring",
    level=1,
    minutes=4,
    core=True,
    asked=ASKED,
    stub=STUB,
    parts=("buffer", "phase of full", "phase of empty"),
    hints=(
        "Tiles 0, 1, 2, … take the buffers in turn and begin again. How often has its buffer been used before tile n comes?",
        "The buffer is n mod buffers, and it was used n div buffers times before. The consumer waits for 0 the first time, 1 the second, "
        "0 the third.",
        "The consumer of round r waits for the phase that round completes; the producer waits for what the round before "
        "completed. Of a fresh barrier phase 1 counts as complete: check it with r = 0.",
    ),
)
