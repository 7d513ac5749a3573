"""Lecture 11: what machine code lets run beside a matmul."""

import re

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="11",
    title="does it overlap?",
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

# --- for teachers ---

SOLUTION = '''
def beside_matmul(loop: list[str]) -> tuple[int, int, int]:
    """(powers of two issued while a matmul is under way, while two or more are, all powers of two) of an iteration."""
    groups, begun = 0, False
    for _ in range(10):  # of what is under way at the end the next iteration knows
        beside = both = total = 0
        for line in loop:
            if "GMMA." in line:
                begun = "gsb0" not in line
                groups += not begun
            elif "DEPBAR" in line:
                groups = min(groups, int(line.split()[-1], 16))
            elif "MUFU.EX2" in line:
                total += 1
                beside += groups + begun > 0
                both += groups + begun > 1
    return beside, both, total
'''
WHY = """
That is how the page read its table: 16 × HGMMA, wait(1), wait(0), 66 × MUFU.EX2 hides nothing, 8 × QGMMA, wait(1), 14 × MUFU.EX2, wait(0),
53 × MUFU.EX2 hides 14. A loop has no first line. A matmul that is issued at its end and waited for at its beginning runs beside what stands between,
and on paper nothing stands there. What the code allows is not yet what happens: a matmul may be done long before its wait.
"""

MATMUL = "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR{}], R24"
KINDS = {
    "m": MATMUL, "q": "QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR{}], R24", "c": f"@P0 {MATMUL}",
    "e": "MUFU.EX2 R{}, R{}", "p": "@P0 MUFU.EX2 R{}, R{}", "n": "@!P1 MUFU.EX2 R{}, R{}",
    "r": "MUFU.RCP R{}, R{}", "f": "FFMA R{}, R{}, R2, -R9",
    "a": "FADD R{}, R{}, R6", "w": "WARPGROUP.ARRIVE", "d": "@!P1 WARPGROUP.DEPBAR.LE gsb0, 0x0",
    "s": "@!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR{}+0x30220], RZ",
} | {f"{n}": f"WARPGROUP.DEPBAR.LE gsb0, 0x{n}" for n in range(3)}  # fmt: skip


def lines(short):
    """The lines of a loop, one for each letter; a capital one is the last part of a matmul."""
    found = [KINDS[letter.lower()].format(10 + i, 30 + i) for i, letter in enumerate(short)]
    return [line + ", gsb0" * letter.isupper() for line, letter in zip(found, short)]


def cases(draw):
    for words, short in (
        ("a matmul, a wait, exponentials", "wmM0feea"),
        ("conditions, reciprocals and a barrier", "wmMfpse0rep"),
        ("two matmuls, and a wait that leaves one", "mmMmM1eee0aae"),
        ("the matmul at the end is waited for at the beginning of the next iteration", "feea0eefwmM"),
        ("two under way at the end of the loop, one after the wait", "ee1efpmMmM0ewmMmM"),
        ("8 bits", "wqqQ1eefppr0e"),
        ("exponentials between the parts of a matmul", "0emfemaeMe"),
        ("a wait between the parts of a matmul, which cannot make sure of it", "em0emeM0ee"),
        ("a matmul, a wait and exponentials under conditions; an arrival is no wait", "mMwncCpden"),
    ):
        yield Case(words, (lines(short),))
    choices = ("mM", "qqQ", "mmmM", "0", "1", "2", "eeeee", "fpa", "ree", "cC", "wn", "d")
    for _ in range(8):
        parts = draw.choices(choices, k=9)
        yield Case("any loop", (lines("".join(["e", *parts, draw.choice("012")])),))


def expected(loop):
    """By the numbers of the groups: which of them have been begun, and up to which a wait has made sure of them."""
    begun = ended = sure = 0
    last = len(loop) * 11
    beside = []
    for i, line in enumerate(loop * 12):
        if re.search(r"[HQ]GMMA", line):
            begun = ended + 1
            ended += line.endswith("gsb0")
        elif "WARPGROUP.DEPBAR" in line:
            sure = max(sure, ended - int(line[-1]))
        elif re.search(r"MUFU\.EX2", line) and i >= last:
            beside.append(begun - sure)
    return sum(x > 0 for x in beside), sum(x > 1 for x in beside), len(beside)


LEFT, LINE = "min(groups, int(line.split()[-1], 16))", "        for line in loop:\n"
WRONG = {
    "if the loop is gone through once: what it leaves under way meets the exponentials of the next iteration": ("range(10)", "range(1)"),
    "if every wait is for all: 0x1 leaves one group under way": (LEFT, "0"),
    "if a matmul counts from its last line on: it is under way from its first": ("groups + begun", "groups"),
    "if QGMMA is passed over: it is a matmul, too": ('"GMMA."', '"HGMMA."'),
    "if lines with a condition, @P0 or @!P1, are passed over: it counts as met":
        (LINE, f'{LINE}            if "@" in line:\n                continue\n'),
    "if a flag says that something is under way: two matmuls need a count": ("both += groups + begun > 1", "both += 0"),
}  # fmt: skip
