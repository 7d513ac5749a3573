"""Lecture 08: what choose_splits is checked by."""

import math
import random
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("one seat", (1, 1, 1, 64, 64, 1))
    yield Case("one block of keys cannot be split", (1, 8, 2, 50, 64, 132))
    yield Case("8 heads of keys on 132 seats, a long text", (1, 32, 8, 100_000, 64, 132))
    yield Case("the same with two seats on each SM", (1, 32, 8, 100_000, 64, 264))
    yield Case("a short text: 5 blocks, the last one short", (1, 32, 8, 300, 64, 132))
    yield Case("16 sequences: nearly full without splits", (16, 32, 8, 8192, 64, 132))
    yield Case("17 sequences: 136 programs make a second wave", (17, 32, 8, 8192, 64, 132))
    yield Case("64 sequences", (64, 32, 8, 4096, 64, 132))
    yield Case("each head has keys of its own", (1, 32, 32, 8192, 128, 132))
    yield Case("one head of keys: the cap of 128", (1, 16, 1, 1_000_000, 64, 148))
    yield Case("one head on 2,000 seats: the cap of 128 is best", (1, 16, 1, 1_000_000, 64, 2000))
    yield Case("equal fills", (1, 4, 4, 640, 64, 2))
    yield Case("17 splits are 0.85 as good as 20", (1, 1, 1, 320, 16, 20))
    yield Case("no fill reaches 0.85, and the best is not the last", (3, 1, 1, 192, 64, 8))
    draw = random.Random(0)
    for _ in range(40):
        yield Case("any numbers", _arguments(draw))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(20):
        yield Case("any numbers", _arguments(draw))


def _arguments(draw: random.Random) -> tuple[int, ...]:
    """Such that no fill is 0.85 of the best to the last digit: there rounding would decide."""
    while True:
        heads_k, group = draw.choice((1, 2, 4, 8)), draw.choice((1, 4, 8))
        found = (
            draw.randint(1, 40),
            heads_k * group,
            heads_k,
            draw.randint(1, 20_000),
            draw.choice((16, 64, 128)),
            draw.randint(1, 300),
        )
        fills = _fills(*found)
        if all(abs(fill - Fraction(17, 20) * max(fills)) > Fraction(1, 10**9) for fill in fills):
            return found


def _fills(batch: int, heads: int, heads_k: int, keys: int, block: int, seats: int) -> list[Fraction]:
    programs = [batch * heads_k * s for s in range(1, min(128, -(-keys // block)) + 1)]
    return [Fraction(p, -(-p // seats) * seats) for p in programs]


def expected(*arguments: int) -> int:
    """With fractions."""
    fills = _fills(*arguments)
    return next(s for s, fill in enumerate(fills, 1) if fill >= Fraction(17, 20) * max(fills))


def _first(batch, heads, heads_k, keys, block, seats, bug):
    """The search; ``bug`` changes what is counted."""
    ways: dict[str, Any] = {
        "programs": batch * heads_k,
        "waves": math.ceil,
        "most": 128,
        "share": 0.85,
        "blocks": math.ceil,
    }
    ways |= bug(batch, heads, heads_k)
    most = max(1, min(ways["most"], ways["blocks"](keys / block)))
    counts = [
        s for s in range(1, max(2, most + 1 - ways.get("last", 0))) if not ways.get("doubled") or s & (s - 1) == 0
    ]
    if ways.get("one wave"):
        return next((s for s in counts if ways["programs"] * s >= ways["share"] * seats), most)
    fill = {s: ways["programs"] * s / max(1, ways["waves"](ways["programs"] * s / seats)) / seats for s in counts}
    if ways.get("last wave"):
        fill = {s: ways["programs"] * s % seats or seats for s in counts}
    least = ways["share"] * max(fill.values())
    if "itself" in ways:
        return next((s for s in counts if fill[s] >= ways["share"]), ways["itself"](fill))
    good = [s for s in counts if (fill[s] > least if ways.get("above") else fill[s] >= least)]
    return max(good) if ways.get("largest") else good[0]


def _divided(batch, heads, heads_k, keys, block, seats, bug):
    up, limits, told = bug
    most = [{"blocks": -(-keys // block), "128": 128}[x] for x in limits if x != "1"]
    found = min([*most, (math.ceil if up else math.floor)(seats / (batch * (heads if told else heads_k)))])
    return max(1, found) if "1" in limits else found


WRONG = {
    **variants(
        _first,
        {
            "if the heads of the queries are counted: those of a group share one program": lambda b, h, k: {
                "programs": b * h
            },
            "if heads_k is forgotten": lambda b, h, k: {"programs": b},
            "if the largest s is never tried: range(1, n) ends before n": lambda b, h, k: {"last": 1},
            "if the batch is forgotten": lambda b, h, k: {"programs": k},
            "if a wave may be a part of one: programs / seats is not rounded up": lambda b, h, k: {"waves": float},
            "if all programs are taken to run in one wave: no more than the seats do": lambda b, h, k: {
                "waves": lambda x: 1
            },
            "if waves are rounded down: what is left over takes a wave, too": lambda b, h, k: {"waves": math.floor},
            "if short texts are split into more pieces than they have blocks": lambda b, h, k: {
                "blocks": lambda x: 128
            },
            "if the last, shorter block of keys is forgotten": lambda b, h, k: {"blocks": math.floor},
            "if the best fill itself is wanted, and not 0.85 of it: more splits write more partial results": lambda b, h, k: {
                "share": 1
            },
            "if a fill of 0.85 of the best is not good enough: at least is asked": lambda b, h, k: {"above": True},
            "if the largest number that is good enough is taken: the smallest is asked": lambda b, h, k: {
                "largest": True
            },
            "if only powers of two are tried: any number of splits will do": lambda b, h, k: {"doubled": True},
            "if the largest number of the best fill is taken: the smallest that comes near it is asked": lambda b, h, k: {
                "share": 1,
                "largest": True,
            },
            "if the heads of a group are counted in place of the heads of keys": lambda b, h, k: {
                "programs": b * h // k
            },
            "if only the first wave is filled: where one wave is not enough, the last one counts": lambda b, h, k: {
                "one wave": True
            },
            "if only the last wave is looked at: the full waves before it count, too": lambda b, h, k: {
                "last wave": True
            },
            **{
                f"if 0.85 is asked of the fill itself{rest}: it is a share of the best fill": lambda b, h, k, otherwise=f: {
                    "itself": otherwise
                }
                for rest, f in {
                    "": lambda fill: 1,
                    ", and else the most splits are taken": max,
                    ", and else the best fill": lambda fill: max(fill, key=fill.get),
                }.items()
            },
            "if more than 128 splits are tried": lambda b, h, k: {"most": 10**4},
        },
    ),
    **variants(
        _divided,
        {
            "if waves are ignored: seats // programs, whatever is left over": (False, ["1", "blocks", "128"], False),
            "if waves are ignored: ⌈seats / programs⌉ makes a second wave for a few programs": (
                True,
                ["blocks", "128"],
                False,
            ),
            "if waves are ignored, and the heads of the queries counted: seats // (batch * heads)": (
                False,
                ["1", "blocks", "128"],
                True,
            ),
            **{
                f"if waves are ignored, with {'⌈seats / programs⌉' if up else 'seats // programs'}, and {what}": (
                    up,
                    limits.split(),
                    False,
                )
                for up, limits, what in (
                    (False, "blocks 128", "0 splits are possible"),
                    (False, "1 blocks", "128 is no limit"),
                    (False, "1 128", "the blocks of keys are no limit"),
                    (False, "1", "neither 128 nor the blocks of keys are a limit"),
                    (False, "blocks", "128 is no limit and 0 splits are possible"),
                    (False, "128", "the blocks of keys are no limit and 0 splits are possible"),
                    (False, "", "nothing is a limit, above or below"),
                    (True, "blocks", "128 is no limit"),
                    (True, "128", "the blocks of keys are no limit"),
                    (True, "", "neither 128 nor the blocks of keys are a limit"),
                )
            },
        },
    ),
}
