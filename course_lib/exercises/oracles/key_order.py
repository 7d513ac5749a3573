"""Lecture 11: what key_order is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    yield Case("16 keys, each with its own number", (torch.arange(16.0)[None],))
    yield Case("32 keys: groups of 16", (torch.arange(32.0)[None],))
    yield Case("a single key", (torch.tensor([[7.0]]),))
    yield Case("10 keys: the missing ones leave gaps", (torch.arange(1.0, 11.0)[None],))
    yield Case("16 rows of V transposed, 16 keys", (torch.arange(256.0).reshape(16, 16),))
    yield Case("float16 in, float16 out", (torch.arange(1.0, 21.0, dtype=torch.float16).reshape(2, 10),))
    yield Case("three rows, 43 keys", (torch.arange(1.0, 130.0).reshape(3, 43),))
    yield Case("two rows, 64 keys", (torch.arange(128.0).reshape(2, 64),))


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


def _padded(vt):
    return torch.nn.functional.pad(vt, (0, -vt.shape[1] % 16))


def _each_16(vt, order):
    return vt.unflatten(1, (-1, 16))[:, :, order].flatten(1)


def in_order(vt):
    return _padded(vt)


def inverse(vt):
    return _each_16(_padded(vt), [ORDER.index(key) for key in range(16)])


def whole_row(vt):
    return _padded(vt).unflatten(1, (2, -1, 2)).transpose(1, 2).flatten(1)


def first_group_for_all(vt):
    padded = _padded(vt)
    return torch.cat([padded[:, ORDER], padded[:, 16:]], 1)


def single_keys(vt):
    return _each_16(_padded(vt), [k for t in range(8) for k in (t, 8 + t)])


def blocks_of_four(vt):
    return _each_16(_padded(vt), [4 * r + t for t in range(4) for r in range(4)])


def tail_dropped(vt):
    return _each_16(vt[:, : vt.shape[1] // 16 * 16], ORDER)


def gaps_closed(vt):
    keys = vt.shape[1]
    order = [16 * g + k for g in range(-(-keys // 16)) for k in ORDER if 16 * g + k < keys]
    return _padded(vt[:, order])


def tail_in_order(vt):
    full = vt.shape[1] // 16 * 16
    return torch.cat([_each_16(vt[:, :full], ORDER), _padded(vt[:, full:])], 1)


def always_float32(vt):
    return _each_16(_padded(vt).float(), ORDER)


def rows_moved(vt):
    padded = torch.nn.functional.pad(vt, (0, 0, 0, -vt.shape[0] % 16))
    return padded.unflatten(0, (-1, 16))[:, ORDER].flatten(0, 1)


WRONG = {
    "if the keys stay in order: then threads have to exchange P": in_order,
    "if the order is applied backwards: place p has to hold key order[p]; you put key p in place order[p]": inverse,
    "if the halves of all N' keys are interleaved: the order holds within each 16": whole_row,
    "if only the first 16 keys are reordered": first_group_for_all,
    "if single keys of both halves alternate, 0 8 1 9 …: a thread holds pairs, 2t and 2t + 1": single_keys,
    "if thread t holds t, 4 + t, 8 + t, 12 + t: it holds 2t, 2t + 1, 8 + 2t, 9 + 2t": blocks_of_four,
    "if the keys after the last full 16 are dropped": tail_dropped,
    "if missing keys leave no gaps: with the zeros all at the end, keys move to the places of others": gaps_closed,
    "if the last, shorter group stays in order: fill up with zeros before you reorder": tail_in_order,
    "if the result is always float32: it has vt's dtype": always_float32,
    "if rows are reordered: in V transposed the keys are the columns": rows_moved,
}
