"""Lecture 08: what page_lookup is checked by."""

import random
from collections.abc import Iterable, Sequence

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def _case(
    words: str,
    tables: Sequence[Sequence[int]],
    lengths: Sequence[int],
    page: int,
    asked: Sequence[tuple[int, int]],
    slots: int = 0,
) -> Case:
    """``tables``: the pages of each sequence, without the -1 behind them."""
    slots = max(slots, *(len(row) for row in tables))
    table = torch.tensor([[*row, *[-1] * (slots - len(row))] for row in tables])
    sequence, token = torch.tensor(asked).T
    return Case(words, (table, torch.tensor(lengths), page, sequence.clone(), token.clone()))


def _any(draw: random.Random) -> Case:
    page, batch = draw.choice((2, 16, 32)), draw.randint(1, 4)
    lengths = [draw.randint(0, 5 * page) for _ in range(batch)]
    pool = draw.sample(range(40), 40)
    tables = [[pool.pop() for _ in range(-(-length // page))] for length in lengths]
    asked = [(b, draw.randint(0, 6 * page)) for b in draw.choices(range(batch), k=12)]
    return _case("any tables", tables, lengths, page, asked, slots=draw.randint(1, 6))


def cases() -> Iterable[Case]:
    one = [[7, 2, 9]]
    yield _case("the first token, page 0", [[0]], [1], 16, [(0, 0)])
    yield _case("token 36 with the table [7, 2, 9]", one, [37], 16, [(0, 36)])
    yield _case("all edges of pages", one, [48], 16, [(0, t) for t in (0, 15, 16, 31, 32, 47)])
    yield _case("the last page holds 5 tokens: the sixth is none", one, [37], 16, [(0, 36), (0, 37), (0, 47)])
    yield _case("a token beyond the table", one, [37], 16, [(0, 48), (0, 1000)])
    yield _case("page 0 is a page", [[3, 0]], [20], 16, [(0, 16), (0, 19)])
    yield _case("pages of 32", one, [70], 32, [(0, 33), (0, 69)])
    two = [[7, 2, 9], [4, 1]]
    yield _case("two sequences", two, [37, 20], 16, [(0, 0), (1, 0), (1, 19), (0, 20)])
    yield _case("the shorter one has no third page", two, [37, 20], 16, [(1, 20), (1, 31), (1, 32), (0, 32)])
    yield _case("a sequence that has ended, its pages given to others", [[], [4, 1]], [0, 20], 16, [(0, 0), (1, 17)])
    draw = random.Random(0)
    for _ in range(20):
        yield _any(draw)


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(8):
        yield _any(draw)


def expected(
    table: torch.Tensor, lengths: torch.Tensor, page: int, sequence: torch.Tensor, token: torch.Tensor
) -> torch.Tensor:
    """By listing the rows of each sequence, token after token."""
    rows = [
        [page * number + row for number in numbers if number >= 0 for row in range(page)][:length]
        for numbers, length in zip(table.tolist(), lengths.tolist())
    ]
    pairs = zip(sequence.tolist(), token.tolist())
    return torch.tensor([rows[b][t] if t < len(rows[b]) else -1 for b, t in pairs])


def _look(table, lengths, page, sequence, token, bug):
    slot, row = token // page, token % page
    if bug == "swapped":
        slot, row = row, slot
    slot, row = {"slot for row": (slot, slot), "row for slot": (row, row)}.get(bug, (slot, row))
    size = 16 if bug == "16" else page
    slot, row = (token // 16, token % 16) if bug == "16" else (slot, row)
    last = slot if "unguarded" in bug else slot.clamp(max=table.shape[1] - 1)
    number = slot if bug == "no table" else table[0, last] if bug == "first sequence" else table[sequence, last]
    if bug == "whole token":
        row = token
    if bug == "last token":
        token = torch.minimum(token, lengths[sequence] - 1)
        return table[sequence, token // page] * page + token % page
    found = number * (1 if bug == "page not times its size" else size) + (0 if bug == "no row" else row)
    there = {
        "swapped": (token < lengths[sequence]) & (slot < table.shape[1]) & (number >= 0),
        "wherever a page is": number >= 0,
        "by the page": (number >= 0) & (slot < table.shape[1]),
        "one too many": token <= lengths[sequence],
        "one too many, guarded": (token <= lengths[sequence]) & (number >= 0),
        "page 0 is none": (token < lengths[sequence]) & (number > 0),
        "length of the first": token < lengths[0],
        "lengths by place": (token < lengths[torch.arange(len(token)) % len(lengths)]) & (number >= 0),
    }.get(bug, token < lengths[sequence])
    return found if bug == "unguarded, all there" else torch.where(there, found, 0 if bug == "zero" else -1)


WRONG = variants(
    _look,
    {
        "if token // page is taken for the page of the pool: it is the slot of the table": "no table",
        "if slot and row are swapped: // gives the slot, % the row": "swapped",
        "if token // page is taken for the row, too: the row in the page is token % page": "slot for row",
        "if token % page is taken for the slot, too: the slot is token // page": "row for slot",
        "if the page's number is not multiplied by the page's size": "page not times its size",
        "if pages always have 16 tokens": "16",
        "if all sequences read the first one's table": "first sequence",
        "if the last page counts as full: only the length says how many of its rows are tokens": "by the page",
        "if the token at the length itself is found: the last one is length − 1": "one too many",
        "if the token at the length itself is found where its page is: the last one is length − 1": "one too many, guarded",
        "if page 0 is taken for none: −1 is none": "page 0 is none",
        "if the first sequence's length serves all": "length of the first",
        "if a slot beyond the table is looked up: the look-up has to stay inside, whatever is chosen after it": "unguarded",
        "if table[sequence, slot] is all: a token may lie beyond the table, or behind the sequence's last": "unguarded, all there",
        "if the table alone says what is there, its last page beyond its end, too: the length says it": "wherever a page is",
        "if the token itself is added to the page's first row: token % page is the row": "whole token",
        "if what is not there gets 0: that is a row of the pool, −1 is none": "zero",
        "if a token behind the sequence's last becomes the last one: it is none": "last token",
        "if the row in the page is left out: each token of a page then has its first row": "no row",
        "if lengths is read by the place in the list of tokens: sequence says whose each is": "lengths by place",
    },
)
