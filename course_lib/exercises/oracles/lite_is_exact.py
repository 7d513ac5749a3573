"""Lecture 04: what lite_is_exact is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    for words, n_keys, block_n in (
        ("one key", 1, 16),
        ("one full block", 64, 64),
        ("the same keys in smaller blocks", 64, 32),
        ("a larger full block", 128, 128),
        ("blocks of one key", 2, 1),
        ("a ragged block", 50, 64),
        ("one key fewer than the block", 127, 128),
        ("one key more than the block", 65, 64),
        ("two full blocks", 128, 64),
        ("two full blocks and a ragged one", 150, 64),
    ):
        yield Case(words, (n_keys, block_n))


def expected(n_keys: int, block_n: int) -> bool:
    """Tried out, in float64: Lite and attention on random scores and values."""
    generator = torch.Generator().manual_seed(0)
    x, v = torch.randn(2, n_keys, dtype=torch.float64, generator=generator)
    e = torch.exp(x)
    lite = sum(
        float(e[i : i + block_n] @ v[i : i + block_n] / e[i : i + block_n].sum()) for i in range(0, n_keys, block_n)
    )
    return abs(lite - float(e @ v / e.sum())) < 1e-9


def up_to_64(n_keys, block_n):
    return n_keys <= 64


def only_a_full_block(n_keys, block_n):
    return n_keys == block_n


def block_not_filled(n_keys, block_n):
    return n_keys < block_n


def nothing_ragged(n_keys, block_n):
    return n_keys % block_n == 0


def full_blocks_counted(n_keys, block_n):
    return n_keys // block_n <= 1


def upside_down(n_keys, block_n):
    return n_keys >= block_n


def never(n_keys, block_n):
    return False


def one_key_only(n_keys, block_n):
    return n_keys == 1


WRONG = {
    "if Lite is held to be right up to 64 keys: the 64 is only the usual block": up_to_64,
    "if only a full block counts: the mask keeps a ragged block right": only_a_full_block,
    "if a block that is exactly full is left out: it is one block, too": block_not_filled,
    "if only ragged blocks are held to be wrong: two full blocks hand out twice the weight": nothing_ragged,
    "if only full blocks are counted: the keys left over make one more block": full_blocks_counted,
    "with the comparison upside down": upside_down,
    "if Lite is held to be always wrong: one block is normalised by the sum over all keys": never,
    "if only one key is held to be safe: any number of keys is, in one block": one_key_only,
}
