"""Lecture 08: how many splits fill a GPU."""

from course_lib.exercises.base import Exercise

ASKED = r"""
One sequence, 8 heads of keys and a GPU with 132 seats: 16 splits take one wave, 17 take two. Return how many splits to use.

A launch has `batch` · `heads_k` · $s$ programs, since the heads of a group share one. They run in waves of at most `seats`, and a wave
lasts as long whether it is full or not. The *fill* of $s$ splits is the share of the seats that work, over all waves: 128 of 132 for 16
splits, 136 of 264 for 17. Each split has at least one block: $s$ goes from 1 to ⌈`keys` / `block`⌉, and to 128 at most. Return the
*smallest* $s$ whose fill is at least 0.85 of the best fill among these. All arguments are whole numbers, 1 or more.
"""

STUB = '''
def choose_splits(batch: int, heads: int, heads_k: int, keys: int, block: int, seats: int) -> int:
    """The smallest number of splits that fills the GPU's seats at least 0.85 times as well as the best one."""
    ...
'''


EXERCISE = Exercise(
    name="choose_splits",
    lecture="08",
    title="how many splits",
    level=2,
    minutes=12,
    asked=ASKED,
    stub=STUB,
    answers=("course_lib.kernels.decoding.choose_splits", "course_lib.kernels.decoding.wave_efficiency"),
    hints=(
        "How many waves do p · s programs take on the seats? How many seats do these waves offer, and how many are taken?",
        "programs = batch * heads_k * s, waves = ⌈programs / seats⌉, fill = programs / (waves * seats). Not heads: a group is one tile.",
        "Which values may s take, by its own limit and by the number of blocks? You need the fill of all of them before you can "
        "say which is the first that is good enough.",
    ),
)
