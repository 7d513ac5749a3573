"""Lecture 11: what machine code lets run beside a matmul."""

from course_lib.exercises.base import Exercise

ASKED = r"""
Does a kernel take its exponentials while the tensor cores multiply? The machine code tells. `loop` has the lines of its innermost loop,
which runs many times:

```text
HGMMA.64x128x16.F32.BF16 R24, gdesc[UR16], RZ, !UPT      a part of a matmul begins
HGMMA.64x128x16.F32.BF16 R24, gdesc[UR20], R24, gsb0     its last part: `gsb0` ends the group
WARPGROUP.DEPBAR.LE gsb0, 0x0                            wait until at most so many groups (here none) are under way
@P0 MUFU.EX2 R15, R15                                    a power of two; @P0 or @!P1 is a condition, and counts as met
```

A matmul is under way from its first line on, until a wait makes sure that it is done; groups are done in their order. `QGMMA` is the same
for 8 bits. `MUFU.RCP` and everything else do not count. Return three numbers for one iteration after the first few: the powers of two
issued while a matmul is under way, those while two or more are, and all of them.
"""

STUB = '''
def beside_matmul(loop: list[str]) -> tuple[int, int, int]:
    """(powers of two issued while a matmul is under way, while two or more are, all powers of two) of an iteration."""
    ...
'''


EXERCISE = Exercise(
    name="beside_matmul",
    lecture="11",
    title="does it overlap?",
    level=2,
    minutes=18,
    asked=ASKED,
    stub=STUB,
    parts=("beside a matmul", "beside two or more", "all"),
    hints=(
        "Go through the lines with two things in hand: the number of groups that are under way, and whether one has been begun and not yet "
        "ended. What does each kind of line change?",
        "A wait for at most n leaves the smaller of n and the number of groups; a matmul that is not ended it leaves alone. What is under "
        "way at the end of the loop is still under way when it begins again.",
        "Go through the loop several times and keep the numbers, but begin to count anew each time. Look for GMMA and for MUFU.EX2 "
        "anywhere in a line; the number of a wait is int(line.split()[-1], 16).",
    ),
)
