"""Lecture 08: where a token lies in a paged cache."""

from course_lib.exercises.base import Exercise

ASKED = r"""
Pages of 16 tokens, and a sequence with the table [7, 2, 9]: token 36 is row 4 of page 9. In the pool as one long list of rows, page 0
first, that is row 9 · 16 + 4 = 148.

`table` [B, slots] holds the pages of each of B sequences, in order; where a sequence has no page, it holds −1. For `sequence` [n] and
`token` [n] return a tensor [n] with the row of the pool in which `token[i]` of `sequence[i]` lies, and −1 where that sequence has no
such token. `lengths` [B] says how many each has; a token is 0 or more, and may lie beyond the table. These are int64; the
result may have any integer type.
"""

STUB = '''
def page_lookup(
    table: torch.Tensor, lengths: torch.Tensor, page: int, sequence: torch.Tensor, token: torch.Tensor
) -> torch.Tensor:
    """The row of the pool of each token [n], -1 where its sequence has none; pages of ``page`` rows."""
    ...
'''


EXERCISE = Exercise(
    name="page_lookup",
    lecture="08",
    title="find a token in its page",
    level=2,
    minutes=8,
    asked=ASKED,
    stub=STUB,
    hints=(
        "A token's number says which slot of its sequence's table to read, and which row of that page to take.",
        "slot = token // page, row = token % page; the pool's row is table[sequence, slot] * page + row.",
        "table[sequence, slot] raises where the slot lies beyond the table, and reads −1 where there is no page. Which tokens "
        "can that be? Only the length says whether a token is there; torch.where can choose after the look-up, if the look-up "
        "stays inside.",
    ),
)
