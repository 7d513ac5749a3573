"""Lecture 08: where a token lies in a paged cache."""

import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="08",
    title="find a token in its page",
    hints=(
        "A token's number says which slot of its sequence's table to read, and which row of that page to take.",
        "slot = token // page, row = token % page; the pool's row is table[sequence, slot] * page + row.",
        "table[sequence, slot] raises where the slot lies beyond the table, and reads −1 where there is no page. Which tokens "
        "can that be? Only the length says whether a token is there; torch.where can choose after the look-up, if the look-up "
        "stays inside.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def page_lookup(
    table: torch.Tensor, lengths: torch.Tensor, page: int, sequence: torch.Tensor, token: torch.Tensor
) -> torch.Tensor:
    """The row of the pool of each token [n], -1 where its sequence has none; pages of ``page`` rows."""
    slot = (token // page).clamp(max=table.shape[1] - 1)
    rows = table[sequence, slot] * page + token % page
    return torch.where(token < lengths[sequence], rows, -1)
'''
WHY = """
It is what an operating system does with a virtual address. Only the length says where a sequence ends: its last page has rows behind the
last token, and they may hold NaN, or what another sequence left there.
"""


def cases(draw):
    def case(words, tables, lengths, page, asked, slots=0):
        slots = max(slots, *map(len, tables))
        table = torch.tensor([[*row, *[-1] * (slots - len(row))] for row in tables])
        sequence, token = torch.tensor(asked).T
        return Case(words, (table, torch.tensor(lengths), page, sequence.clone(), token.clone()))

    one, two = [[7, 2, 9]], [[7, 2, 9], [4, 1]]
    yield case("token 36 with the table [7, 2, 9]", one, [37], 16, [(0, 36)])
    yield case("the last page holds 5 tokens: the sixth is none", one, [37], 16, [(0, 36), (0, 37), (0, 47)])
    yield case("a token beyond the table", one, [37], 16, [(0, 48), (0, 1000)])
    yield case("page 0 is a page", [[3, 0]], [20], 16, [(0, 16), (0, 19)])
    yield case("two sequences", two, [37, 20], 16, [(0, 0), (1, 0), (1, 19), (0, 20)])
    yield case("a sequence that has ended, its pages given to others", [[], [4, 1]], [0, 20], 16, [(0, 0), (1, 17)])
    for _ in range(20):
        page, batch = draw.choice((2, 16, 32)), draw.randint(1, 4)
        lengths = [draw.randint(0, 5 * page) for _ in range(batch)]
        pool = draw.sample(range(40), 40)
        tables = [[pool.pop() for _ in range(-(-length // page))] for length in lengths]
        asked = [(b, draw.randint(0, 6 * page)) for b in draw.choices(range(batch), k=12)]
        yield case("any tables", tables, lengths, page, asked, slots=draw.randint(1, 6))


def expected(table, lengths, page, sequence, token):
    """By listing the rows of each sequence, token after token."""
    rows = [
        [page * number + row for number in numbers if number >= 0 for row in range(page)][:length]
        for numbers, length in zip(table.tolist(), lengths.tolist())
    ]
    pairs = zip(sequence.tolist(), token.tolist())
    return torch.tensor([rows[b][t] if t < len(rows[b]) else -1 for b, t in pairs])


CLAMP, THERE, NUMBER = ".clamp(max=table.shape[1] - 1)", "token < lengths[sequence]", "table[sequence, slot]"
WRONG = {
    "if token // page is taken for the page of the pool: it is the slot of the table": (NUMBER, "slot"),
    "if the page's number is not multiplied by the page's size": (" * page", ""),
    "if all sequences read the first one's table": (NUMBER, "table[0, slot]"),
    "if the last page counts as full: only the length says how many of its rows are tokens":
        (THERE, f"(token < page * table.shape[1]) & ({NUMBER} >= 0)"),
    "if the token at the length itself is found: the last one is length − 1": (THERE, THERE.replace("<", "<=")),
    "if a slot beyond the table is looked up: the look-up has to stay inside, whatever is chosen after it": (CLAMP, ""),
    "if table[sequence, slot] is all: a token may lie beyond the table, or behind the sequence's last":
        (CLAMP, "", f"torch.where({THERE}, rows, -1)", "rows"),
}  # fmt: skip
