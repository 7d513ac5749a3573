"""Lecture 11: what beside_matmul is checked by."""

import random
import re
from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants

MATMUL = "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR{}], R24"
EIGHT = "QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR{}], R24"
KINDS = {
    "e": "MUFU.EX2 R{}, R{}", "p": "@P0 MUFU.EX2 R{}, R{}", "n": "@!P1 MUFU.EX2 R{}, R{}",
    "r": "MUFU.RCP R{}, R{}", "f": "FFMA R{}, R{}, R2, -R9",
    "a": "FADD R{}, R{}, R6", "w": "WARPGROUP.ARRIVE", "d": "@!P1 WARPGROUP.DEPBAR.LE gsb0, 0x0",
    "s": "@!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR{}+0x30220], RZ",
}  # fmt: skip


def lines(short: str) -> list[str]:
    """The lines of a loop: m a part of a matmul, M its last one, c and C with a condition, q and Q for 8 bits, 0 to 9 a wait, and KINDS."""
    found = []
    for i, letter in enumerate(short):
        if letter.isdecimal():
            found.append(f"WARPGROUP.DEPBAR.LE gsb0, 0x{letter}")
        elif letter in "mMqQcC":
            line = {"q": EIGHT, "c": f"@P0 {MATMUL}"}.get(letter.lower(), MATMUL).format(16 + 4 * (i % 8))
            found.append(line + ", gsb0" * letter.isupper())
        else:
            found.append(KINDS[letter].format(10 + i % 80, 30 + i % 80))
    return found


def cases() -> Iterable[Case]:
    for words, short in (
        ("a matmul, a wait, exponentials", "wmM0feea"),
        ("exponentials before the wait", "wmmMfee0ae"),
        ("conditions, reciprocals and a barrier", "wmMfpse0rep"),
        ("two matmuls, and a wait that leaves one", "mmMmM1eee0aae"),
        ("a wait that leaves one when there is only one", "mM1ee0e"),
        ("the matmul at the end is waited for at the beginning of the next iteration", "feea0eefwmM"),
        ("two under way at the end of the loop, one after the wait", "ee1efpmMmM0ewmMmM"),
        ("8 bits", "wqqQ1eefppr0e"),
        ("exponentials between the parts of a matmul", "0emfemaeMe"),
        ("a wait for at most two, which nobody has to wait for", "mMmM2ee1e0ee"),
        ("nothing is waited for in the loop", "emMe"),
        ("three groups, two waits", "mMmMmM2e1ee0e"),
        ("a wait between the parts of a matmul, which cannot make sure of it", "em0emeM0ee"),
        ("exponentials between the parts of a second matmul", "mMmeM1e0e"),
        ("a wait for none, and then one for at most one", "mMe01ee"),
        ("a matmul, a wait and exponentials under conditions; an arrival is no wait", "mMwncCpden"),
        ("no exponential", "mM0fa"),
    ):
        yield Case(words, (lines(short),))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(8):
        parts = [
            draw.choice(("mM", "qqQ", "mmmM", "0", "1", "2", "e" * draw.randint(1, 9), "fpa", "ree", "cC", "wn", "d"))
            for _ in range(9)
        ]
        yield Case("any loop", (lines("".join(["e", *parts, draw.choice("012")])),))


def expected(loop: list[str]) -> tuple[int, int, int]:
    """By the numbers of the groups: which of them have been begun, and up to which a wait has made sure of them."""
    text = loop * 12
    begun = ended = sure = 0
    last = len(loop) * 11
    beside = []
    for i, line in enumerate(text):
        if re.search(r"[HQ]GMMA", line):
            begun = ended + 1
            ended += line.endswith("gsb0")
        elif "WARPGROUP.DEPBAR" in line:
            sure = max(sure, ended - int(line[-1]))
        elif re.search(r"MUFU\.EX2", line) and i >= last:
            beside.append(begun - sure)
    return sum(x > 0 for x in beside), sum(x > 1 for x in beside), len(beside)


def _beside(loop, bug):
    groups, begun, kinds = 0, False, ("HGMMA",) if bug == "no 8 bits" else ("HGMMA", "QGMMA")
    beside = both = total = 0
    for _ in range(1 if bug == "first iteration" else 8):
        beside = both = total = 0
        for line in loop:
            if bug == "conditions" and line.startswith("@"):
                continue
            if any(kind in line for kind in kinds):
                begun = not line.endswith("gsb0") and bug != "each line"
                groups += not begun and bug != "over at its end"
                begun = begun and bug != "ended groups"
            elif "DEPBAR" in line and bug != "no wait":
                left = 0 if bug == "wait for all" else int(line[-1]) + (bug == "leaves one more")
                groups = {"wait for n": max(0, groups - left), "wait sets": left}.get(bug, min(groups, left))
                begun = begun and bug != "ends the open one"
            elif "WARPGROUP.ARRIVE" in line and bug == "arrive":
                groups = 0
            elif "MUFU" in line and ("EX2" in line or bug == "all MUFU"):
                total += 1
                under_way = groups + (begun and bug != "without the open one")
                beside += under_way == 1 if bug == "one alone" else under_way > 0 or begun
                exactly = {"exactly one": 1, "exactly two": 2}.get(bug)
                both += under_way == exactly if exactly else under_way > 1 and bug != "one flag"
    return beside, both, total


WRONG = variants(
    _beside,
    {
        "if the loop is gone through once: what it leaves under way meets the exponentials of the next iteration": "first iteration",
        "if every wait is for all: 0x1 leaves one group under way": "wait for all",
        "if a wait for at most n takes n away: it leaves n": "wait for n",
        "if the waits are passed over": "no wait",
        "if a matmul counts from its last line on: it is under way from its first": "ended groups",
        "if QGMMA is passed over: it is a matmul, too": "no 8 bits",
        "if WARPGROUP.ARRIVE is taken for a wait: WARPGROUP.DEPBAR alone waits": "arrive",
        "if MUFU.RCP counts: it is no power of two": "all MUFU",
        "if lines with a condition, @P0 or @!P1, are passed over: it counts as met": "conditions",
        "if a wait for at most n starts groups where fewer are under way": "wait sets",
        "if a wait ends a matmul that has not had its last line: it makes sure of ended groups only": "ends the open one",
        "if a matmul without its last line does not count as a second one": "without the open one",
        "if each line is taken for a matmul: its lines up to gsb0 are one": "each line",
        "if the second number counts where exactly one is under way: it is two or more": "exactly one",
        "if the second number counts where exactly two are under way: it is two or more": "exactly two",
        "if the first number leaves out where two or more are under way: it counts these, too": "one alone",
        "if a wait leaves one group more than it says: 0x0 leaves none": "leaves one more",
        "if a matmul is over with its last line: it is under way until a wait": "over at its end",
        "if a flag says that something is under way: two matmuls need a count": "one flag",
    },
)
