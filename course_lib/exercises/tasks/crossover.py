"""Lecture 15: from which length on a rung with a costly call is the faster one."""

from course_lib.exercises.base import Exercise

ASKED = r"""
Say C++ takes 26 ns for each of the $N^2$ scores and 100 ns for the call, a GPU only 0.01 ns for a score but 45 µs for
the call. Then the GPU is faster from $N$ = 42 on. Compute that for any two rungs. `old` and `new` are pairs of whole
numbers, in picoseconds: what a call costs, whatever it computes, and what each score costs. A rung's time is call +
score · $N^2$. Return the smallest $N \ge 1$ from which on `new` is faster, at $N$ and at every greater length; equally
fast is not faster. Return None if there is none.
"""

STUB = '''
def crossover(old: tuple[int, int], new: tuple[int, int]) -> int | None:
    """The length from which on the rung new is faster than old; each is (a call, a score) in picoseconds."""
    ...
'''


EXERCISE = Exercise(
    name="crossover",
    lecture="15",
    title="from which length on it pays",
    level=2,
    minutes=10,
    asked=ASKED,
    stub=STUB,
    hints=(
        "Say new's call is the dearer one, and its score the cheaper one. How much more does the call cost, and how much does "
        "new save at length N? Any other pair has an answer without a formula.",
        "new is faster where N² · (old's score − new's score) > new's call − old's call. What if a side is 0 or less?",
        "Three answers need no root: new saves nothing on a score, or its call is not the dearer one, or both. Else N² has to "
        "exceed a quotient of whole numbers: math.isqrt is exact, where a float's root is not, for times of days.",
    ),
)
