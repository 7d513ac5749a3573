"""Lecture 12: what key_order is checked by."""

import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("16 keys, each with its own number", (torch.arange(16.0)[None],))
    yield Case("48 keys: groups of 16", (torch.arange(48.0)[None],))
    yield Case("a single key", (torch.tensor([[7.0]]),))
    yield Case("10 keys: the missing ones leave gaps", (torch.arange(1.0, 11.0)[None],))
    yield Case("16 rows of V transposed, 16 keys", (torch.arange(256.0).reshape(16, 16),))
    yield Case("float16 in, float16 out", (torch.arange(1.0, 21.0, dtype=torch.float16).reshape(2, 10),))
    yield Case("float64: nothing is rounded", (torch.arange(1.0, 41.0, dtype=torch.float64).reshape(2, 20) / 3,))
    yield Case("int64: nothing is rounded", (torch.arange(20)[None] + 2**60,))
    yield Case("three rows, 43 keys", (torch.arange(1.0, 130.0).reshape(3, 43),))
    yield Case("two rows, 64 keys", (torch.arange(128.0).reshape(2, 64),))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    torch.manual_seed(draw.randrange(2**62))
    for _ in range(8):
        yield Case("any number of keys", (torch.randn(draw.randint(1, 4), draw.randint(1, 150)),))


def expected(vt: torch.Tensor) -> torch.Tensor:
    """Register by register: where thread t's r-th column of a group is read."""
    rows, keys = vt.shape
    groups = -(-keys // 16)
    found = torch.zeros(rows, groups * 16, dtype=vt.dtype)
    for group in range(groups):
        for t in range(4):
            for r, column in enumerate((2 * t, 2 * t + 1, 8 + 2 * t, 9 + 2 * t)):
                if 16 * group + column < keys:
                    found[:, 16 * group + 4 * t + r] = vt[:, 16 * group + column]
    return found


ORDER = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15]


def _key_order(vt, bug):
    keys, full = vt.shape[1], vt.shape[1] // 16 * 16
    if bug == "tail dropped":
        vt = vt[:, :full]
    if bug == "rows":
        return _key_order(vt.T.contiguous(), "").T.contiguous()
    if bug == "no gaps":
        vt = vt[:, [16 * g + k for g in range(-(-keys // 16)) for k in ORDER if 16 * g + k < keys]]
    more = 16 - keys % 16 if bug == "one group more" else -vt.shape[1] % 16
    more = 0 if bug == "not filled" else more
    filled = torch.nn.functional.pad(vt, (more, 0) if bug == "zeros first" else (0, more))
    if bug == "halves of the row":
        return filled.unflatten(1, (2, -1, 2)).transpose(1, 2).flatten(1)
    if bug == "every so many":
        return filled.unflatten(1, (16, -1))[:, ORDER].flatten(1)
    order = {
        "no gaps": list(range(16)),
        "backwards": [ORDER.index(key) for key in range(16)],
        "unchanged": list(range(16)),
        "four apart": [t + 4 * r for t in range(4) for r in range(4)],
        "upper half first": [k ^ 8 for k in ORDER],
        "eighths": [k ^ 6 if k % 8 in (2, 3, 4, 5) else k for k in range(16)],
        "single": [k for t in range(8) for k in (t, 8 + t)],
    }.get(bug, ORDER)
    found = filled.unflatten(1, (-1, 16))[:, :, order].flatten(1)
    untouched = {"first group": 16, "tail in order": full}.get(bug)
    if untouched is not None:
        part = slice(untouched, None)
        found[:, part] = filled[:, part]
    if bug == "cut again":
        return found[:, :keys]
    return found.float() if bug == "float32" else found


WRONG = variants(
    _key_order,
    {
        "if the order is applied backwards: place p has to hold key order[p]; you put key p in place order[p]": "backwards",
        "if the halves of all N' keys are interleaved: the order holds within each 16": "halves of the row",
        "if whole parts of N' / 16 keys change places: it is single keys that do, within each 16": "every so many",
        "if only the first 16 keys are reordered": "first group",
        "if single keys of both halves alternate, 0 8 1 9 …: a thread holds pairs, 2t and 2t + 1": "single",
        "if the order is that of 8 keys, 0 1 4 5 2 3 6 7: it is one of 16, and the second pair is 8 further on": "eighths",
        "if no key moves: thread t holds 8 + 2t and 9 + 2t where 4t + 2 and 4t + 3 are read": "unchanged",
        "if a thread is taken to hold every fourth key: it holds pairs, 2t and 2t + 1, and 8 further on": "four apart",
        "if the keys from 8 on come first: a thread's first two columns are 2t and 2t + 1": "upper half first",
        "if the rows are reordered: vt is transposed, its keys are columns": "rows",
        "if the zeros come first: the missing keys are the last ones": "zeros first",
        "if a multiple of 16 gets a further group of zeros": "one group more",
        "if nothing is filled up: N need not be a multiple of 16": "not filled",
        "if the result is cut to N again: after the reordering keys stand behind place N, too": "cut again",
        "if the keys after the last full 16 are dropped": "tail dropped",
        "if missing keys leave no gaps: with the zeros all at the end, keys move to the places of others": "no gaps",
        "if the last, shorter group stays in order: fill up with zeros before you reorder": "tail in order",
        "if the result is float32, at the end or on the way: it has vt's dtype, and its digits": "float32",
    },
)
