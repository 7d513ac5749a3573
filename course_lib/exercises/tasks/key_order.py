"""Lecture 12: the order in which an 8-bit kernel stores the keys of V."""

import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="12",
    title="the order of V's keys",
    tolerance=0.0,
    dtypes=True,
    hints=(
        "Write down the 16 places for t = 0, 1, 2, 3: place 4t + r gets the key that is the thread's r-th column. Which key is in place 2?",
        "Fill up with zeros to a multiple of 16 first. Then the 16 keys that you wrote down are the order in which to take each group; "
        "vt.unflatten(1, (-1, 16)) has a dimension for the groups.",
        "You have written down, place by place, which key stands there: that list is an index, to be used on each group's "
        "dimension. Apply it to 0 … 15 and see that place 6 gets key 10, and not key 6 place 10.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def key_order(vt: torch.Tensor) -> torch.Tensor:
    """V transposed [D, N] -> [D, N'], the keys of each 16 in the order in which the threads hold P."""
    filled = torch.nn.functional.pad(vt, (0, -vt.shape[1] % 16))
    return filled.unflatten(1, (-1, 2, 4, 2)).transpose(2, 3).flatten(1)
'''
WHY = """
A key of a group is 8h + 2t + i. Thread t holds all four with its t, in the order of h and i, so its place is 4t + 2h + i: h and t change
places. PV is a sum over keys, and as P and V are reordered alike, each product of the sum is still there. V is reordered once, when it is
rounded to 8 bits; P would have to be exchanged in every block. Missing keys get zeros where P's columns for them are, not at the end.
"""


def cases(draw):
    yield Case("16 keys, each with its own number", (torch.arange(16.0)[None],))
    yield Case("48 keys: groups of 16", (torch.arange(48.0)[None],))
    yield Case("a single key", (torch.tensor([[7.0]]),))
    yield Case("10 keys: the missing ones leave gaps", (torch.arange(1.0, 11.0)[None],))
    yield Case("float64: nothing is rounded", (torch.arange(1.0, 41.0, dtype=torch.float64).reshape(2, 20) / 3,))
    yield Case("int64: nothing is rounded", (torch.arange(20)[None] + 2**50,))
    for _ in range(8):
        yield Case("any number of keys", (torch.randn(draw.randint(1, 4), draw.randint(1, 150)),))


def expected(vt):
    """Register by register: where thread t's r-th column of a group is read."""
    rows, keys = vt.shape
    columns = [column for t in range(4) for column in (2 * t, 2 * t + 1, 8 + 2 * t, 9 + 2 * t)]
    found = torch.zeros(rows, -(-keys // 16) * 16, dtype=vt.dtype)
    for place in range(found.shape[1]):
        key = place // 16 * 16 + columns[place % 16]
        if key < keys:
            found[:, place] = vt[:, key]
    return found


PARTS, MISSING = "(-1, 2, 4, 2)", "(0, -vt.shape[1] % 16)"
WRONG = {
    "if the order is applied backwards: place p has to hold key order[p]; you put key p in place order[p]": (PARTS, "(-1, 4, 2, 2)"),
    "if single keys of both halves alternate, 0 8 1 9 …: a thread holds pairs, 2t and 2t + 1": (PARTS, "(-1, 2, 8)"),
    "if no key moves: thread t holds 8 + 2t and 9 + 2t where 4t + 2 and 4t + 3 are read": (".transpose(2, 3)", ""),
    "if a multiple of 16 gets a further group of zeros": (MISSING, "(0, 16 - vt.shape[1] % 16)"),
    "if the result is float32, at the end or on the way: it has vt's dtype, and its digits": ("return filled", "return filled.float()"),
}  # fmt: skip
