"""Lecture 03: what tile_traffic is checked by."""

import contextlib
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.exercises.values import ANY, Whatever


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    for words, m, k, n, bm, bn in (
        ("one tile", 4, 3, 4, 4, 4),
        ("two block columns", 4, 5, 8, 4, 4),
        ("two block rows", 8, 5, 4, 4, 4),
        ("bm larger than bn", 12, 5, 12, 6, 3),
        ("bm smaller than bn", 12, 5, 12, 3, 6),
        ("ragged m", 9, 4, 8, 4, 4),
        ("ragged n", 8, 4, 9, 4, 4),
        ("tiles larger than the matrices", 3, 2, 5, 8, 8),
        ("k = 1, fewer rows than bm", 3, 1, 8, 4, 4),
        ("k = 1, ragged m and n", 7, 1, 10, 4, 3),
        ("the matrices of the question", 64, 8, 64, 16, 16),
    ):
        sizes = f"[{m}, {k}] times [{k}, {n}], bm = {bm}, bn = {bn}"
        yield Case(f"{words}: {sizes}", (torch.randn(m, k), torch.randn(k, n), bm, bn))


def expected(a: torch.Tensor, b: torch.Tensor, bm: int, bn: int) -> tuple[str, torch.Tensor, Whatever]:
    return "", (a.double() @ b.double()).float(), ANY


def _strips(length, size):
    return [slice(start, start + size) for start in range(0, length, size)]


def a_for_each_tile(memory, A, B, C, bm, bn):
    (m, n), k = C.data.shape, A.data.shape[1]
    for rows in _strips(m, bm):
        for cols in _strips(n, bn):
            with memory.scope("tile"):
                c = memory.tile("C_ij", torch.zeros(C[rows, cols].data.shape))
                for p in range(k):
                    with memory.scope("term"):
                        c += memory.matmul(memory.load(A[rows, p]), memory.load(B[p, cols]))
                memory.store(C[rows, cols], c)


def b_kept(memory, A, B, C, bm, bn):
    for cols in _strips(C.data.shape[1], bn):
        with memory.scope("strip"):
            b = memory.load(B[:, cols])
            for rows in _strips(C.data.shape[0], bm):
                with memory.scope("tile"):
                    memory.store(C[rows, cols], memory.tile("C_ij", memory.matmul(memory.load(A[rows]), b)))


def all_at_once(memory, A, B, C, bm, bn):
    memory.store(C[:], memory.tile("C", memory.matmul(memory.load(A[:]), memory.load(B[:]))))


def _a_kept(memory, A, B, C, bm, bn, bug):
    """The loop as asked."""
    if bug == "swapped":
        bm, bn = bn, bm
    m, n = (x // b * b for x, b in zip(C.data.shape, (bm, bn))) if bug == "full tiles only" else C.data.shape
    scope = (lambda name: contextlib.nullcontext()) if bug == "no scope" else memory.scope
    columns = [slice(start, start + bn) for start in range(0, n, bm)] if bug == "columns by bm" else _strips(n, bn)
    for rows in _strips(m, bm):
        with scope("strip"):
            a = memory.load(A[rows])
            for cols in columns:
                with scope("tile"):
                    b = memory.load(B[:, cols])
                    b = B[:, cols].data if bug == "not in SRAM" else b
                    c = a @ b if bug == "@" else memory.matmul(a, b)
                    c = c if bug == "no place" else memory.tile("C_ij", c)
                    if bug == "C by data":
                        C.data[rows, cols] = c
                    else:
                        memory.store(C[rows, cols], c)


WRONG = {
    "if A is loaded inside the loop over the block columns of C: once for each of them": a_for_each_tile,
    "if B's strip stays and A's strips pass: the loops are the wrong way round": b_kept,
    "if all of A and B is loaded at once: the SRAM has room for one strip of each": all_at_once,
} | variants(
    _a_kept,
    {
        "if ragged tiles are left out: their part of C is still NaN": "full tiles only",
        "if bm and bn change places: bm counts rows of A and C, bn columns of B and C": "swapped",
        "if the columns advance by bm: a block column is bn wide": "columns by bm",
        "if nothing leaves the SRAM: each strip needs a scope that ends before the next one is loaded": "no scope",
        "if nothing is stored to C: memory.store does that, neither .data nor a return": "C by data",
        "if numbers are used that are not in the SRAM, of .data, say, or of a scope that has ended: they are NaN": "not in SRAM",
        'if the product is stored without a place in SRAM: memory.tile("C_ij", c) comes before the store': "no place",
        "if the product is taken with @: memory.matmul counts its operations": "@",
    },
)
