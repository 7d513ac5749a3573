"""Lecture 13: what zigzag_owner is checked by."""

import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("an early token", (2, 4, 16))
    yield Case("a late token", (12, 4, 16))
    yield Case("the last token is with rank 0", (15, 4, 16))
    yield Case("the first token", (0, 4, 16))
    yield Case("the second token of the last early piece", (7, 4, 16))
    yield Case("the middle: piece P belongs to the last rank", (8, 4, 16))
    yield Case("the second token of a late piece", (13, 4, 16))
    yield Case("pieces of three", (20, 4, 24))
    yield Case("three ranks", (10, 3, 12))
    yield Case("one rank has all", (5, 1, 8))
    yield Case("11 ranks: 15 / 22 is no float", (15, 11, 22))
    yield Case("a billion tokens", (987_654_321, 512, 1024 * 1_000_000))
    yield Case("the last token of a piece of a million", (999_999_999, 512, 1024 * 1_000_000))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(16):
        ranks, size = draw.randint(1, 40), draw.randint(1, 50)
        yield Case("any token of any rank", (draw.randrange(2 * ranks * size), ranks, 2 * ranks * size))


def expected(token: int, ranks: int, length: int) -> tuple[int, int]:
    """Rank after rank: is the token in one of its two ranges?"""
    size = length // (2 * ranks)
    for rank in range(ranks):
        early, late = range(rank * size, (rank + 1) * size), range(length - (rank + 1) * size, length - rank * size)
        for before, piece in ((0, early), (size, late)):
            if token in piece:
                return rank, before + piece.index(token)
    raise ValueError(f"token is {token}; the sequence has {length}")


def _owner(token, ranks, length, bug):
    size = length // (2 * ranks)
    piece, place = divmod(token, size)
    if bug in ("float", "fp32"):
        piece = int(token / length * 2 * ranks) if bug == "float" else int(torch.tensor(float(token)) / size)
        place = token - piece * size
    if bug == "contiguous":
        return divmod(token, 2 * size)
    if bug == "striped":
        return token % ranks, token // ranks
    early = piece <= ranks if bug == "middle" else piece < ranks
    rank = (
        piece if early else {"second half": piece - ranks, "one off": 2 * ranks - piece}.get(bug, 2 * ranks - 1 - piece)
    )
    if bug == "pieces":
        return rank, place
    if bug == "twice the piece" and early:
        return piece, piece
    if bug == "swapped" or (bug == "early swapped" and early):
        return place + size * (not early), rank
    if bug == "whole" or (bug == "whole, early" and early):
        return rank, token
    if bug == "backwards" and not early:
        return rank, 2 * size - 1 - place
    if bug == "late first":
        return rank, place + size * early
    return rank, place if early else size + place


WRONG = variants(
    _owner,
    {
        "if each rank has one piece: that is contiguous order": "contiguous",
        "if the piece is computed with floats: a quotient may come out just below its whole number; // is exact": "float",
        "if the piece is computed in fp32, as by torch: it has no room for the digits of a billion": "fp32",
        "if tokens are dealt out one by one: that is striped order": "striped",
        "if the late pieces go to ranks 0 to P − 1 again: they go back, P − 1 to 0": "second half",
        "if the late piece is 2P − r: pieces are counted from 0, so it is 2P − 1 − r": "one off",
        "if piece P counts as an early one: pieces are counted from 0, so it is the first late one": "middle",
        "if place and rank change places": "swapped",
        "if place and rank change places for an early piece": "early swapped",
        "if the piece is the place, too, for an early piece": "twice the piece",
        "if the place is that within the piece: a late piece follows the early one": "pieces",
        "if a late piece is kept backwards: only the ranks go back, tokens keep their order": "backwards",
        "if the late piece comes first: the early one does": "late first",
        "if the place of an early token is that in the sequence: it is that in the rank's share": "whole, early",
        "if the place is that in the sequence: it is that in the rank's share": "whole",
    },
)
