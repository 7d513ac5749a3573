"""Lecture 03: what tile_traffic is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variant
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
    return "none", (a.double() @ b.double()).float(), ANY


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


def _a_kept(memory, A, B, C, row_strips, col_strips, tile=None):
    """The loop as asked over the given strips; ``tile`` makes what is stored from a strip of A and one of B."""
    tile = tile or (lambda a, b: memory.tile("C_ij", memory.matmul(a, b)))
    for rows in row_strips:
        with memory.scope("strip"):
            a = memory.load(A[rows])
            for cols in col_strips:
                with memory.scope("tile"):
                    memory.store(C[rows, cols], tile(a, memory.load(B[:, cols])))


def full_tiles_only(memory, A, B, C, bm, bn):
    m, n = C.data.shape
    _a_kept(memory, A, B, C, _strips(m // bm * bm, bm), _strips(n // bn * bn, bn))


def swapped(memory, A, B, C, bm, bn):
    m, n = C.data.shape
    _a_kept(memory, A, B, C, _strips(m, bn), _strips(n, bm))


def tile_number_as_row(memory, A, B, C, bm, bn):
    m, n = C.data.shape
    rows = [slice(i, i + bm) for i in range(-(-m // bm))]
    _a_kept(memory, A, B, C, rows, [slice(j, j + bn) for j in range(-(-n // bn))])


def no_scope(memory, A, B, C, bm, bn):
    for rows in _strips(C.data.shape[0], bm):
        a = memory.load(A[rows])
        for cols in _strips(C.data.shape[1], bn):
            memory.store(C[rows, cols], memory.tile("C_ij", memory.matmul(a, memory.load(B[:, cols]))))


def b_stays(memory, A, B, C, bm, bn):
    for rows in _strips(C.data.shape[0], bm):
        with memory.scope("strip"):
            a = memory.load(A[rows])
            for cols in _strips(C.data.shape[1], bn):
                memory.store(C[rows, cols], memory.tile("C_ij", memory.matmul(a, memory.load(B[:, cols]))))


def all_at_once(memory, A, B, C, bm, bn):
    memory.store(C[:], memory.tile("C", memory.matmul(memory.load(A[:]), memory.load(B[:]))))


def no_tiles(memory, A, B, C, bm, bn):
    for i in range(C.data.shape[0]):
        for j in range(C.data.shape[1]):
            with memory.scope("number"):
                memory.store(C[i, j], memory.matmul(memory.load(A[i]), memory.load(B[:, j])))


def single_rows(memory, A, B, C, bm, bn):
    m, n = C.data.shape
    _a_kept(memory, A, B, C, _strips(m, 1), _strips(n, bn))


def sum_in_hbm(memory, A, B, C, bm, bn):
    for rows in _strips(C.data.shape[0], bm):
        with memory.scope("strip"):
            a = memory.load(A[rows])
            for cols in _strips(C.data.shape[1], bn):
                for p in range(a.shape[1]):
                    with memory.scope("term"):
                        c = memory.matmul(a[:, p : p + 1], memory.load(B[p, cols]))
                        memory.store(C[rows, cols], c + memory.load(C[rows, cols]) if p else c)


def _not_in_sram(memory, A, B, C, bm, bn, bug):
    m, n = C.data.shape
    for rows in _strips(m, bm):
        with memory.scope("strip"):
            a = A[rows].data if bug == "A" else memory.load(A[rows])
            for cols in _strips(n, bn):
                with memory.scope("tile"):
                    b = B[:, cols].data if bug in ("B", "B after loading") else memory.load(B[:, cols])
                    if bug == "B after loading":
                        memory.load(B[:, cols])
                    c = memory.tile("C_ij", memory.matmul(a, b))
                    if bug == "C":
                        C.data[rows, cols] = c
                    else:
                        memory.store(C[rows, cols], c)


def past_the_memory(memory, A, B, C, bm, bn):
    memory.store(C[:], A.data @ B.data)


def c_loaded(memory, A, B, C, bm, bn):
    for rows in _strips(C.data.shape[0], bm):
        with memory.scope("strip"):
            a = memory.load(A[rows])
            for cols in _strips(C.data.shape[1], bn):
                with memory.scope("tile"):
                    product = memory.matmul(a, memory.load(B[:, cols]))
                    memory.store(C[rows, cols], memory.load(C[rows, cols]) + product)


def _work(memory, A, B, C, bm, bn, tile):
    m, n = C.data.shape
    _a_kept(memory, A, B, C, _strips(m, bm), _strips(n, bn), lambda a, b: tile(memory, a, b))


WRONG = {
    "if A is loaded inside the loop over the block columns of C: once for each of them": a_for_each_tile,
    "if B's strip stays and A's strips pass: the loops are the wrong way round": b_kept,
    "if ragged tiles are left out: their part of C is still NaN": full_tiles_only,
    "if bm and bn change places: bm counts rows of A and C, bn columns of B and C": swapped,
    "if tile number i starts at row i: it starts at row i · bm": tile_number_as_row,
    "if nothing leaves the SRAM: each strip needs a scope that ends before the next one is loaded": no_scope,
    "if the strips of B stay in SRAM, one after another: the inner loop needs a scope of its own": b_stays,
    "if all of A and B is loaded at once: the SRAM has room for one strip of each": all_at_once,
    "without tiles: each number of C fetches its own row and column": no_tiles,
    "if A is kept one row at a time: B then passes for each row": single_rows,
    "if each term of the sum goes through HBM: add the terms in SRAM and store the tile once": sum_in_hbm,
    "if A and B are taken from .data: that is HBM, where nothing can be computed; use memory.load": past_the_memory,
    "if C is loaded to add to it: it is full of NaN until it is stored": c_loaded,
    "if A is taken from .data: that is HBM, where nothing can be computed; use memory.load": variant(_not_in_sram, "A"),
    "if B is taken from .data: that is HBM, where nothing can be computed; use memory.load": variant(_not_in_sram, "B"),
    "if C is written by .data, around the memory: use memory.store": variant(_not_in_sram, "C"),
    "if numbers are used that are not in the SRAM, of .data, say, or of a scope that has ended: they are NaN": variant(
        _not_in_sram, "B after loading"
    ),
    'if the product is stored without a place in SRAM: memory.tile("C_ij", c) comes before the store': variant(
        _work, lambda memory, a, b: memory.matmul(a, b)
    ),
    "if the product is taken with @: memory.matmul counts its operations": variant(
        _work, lambda memory, a, b: memory.tile("C_ij", a @ b)
    ),
    "if a @ b is stored as it is: memory.matmul counts its operations, memory.tile gives it a place in SRAM": variant(
        _work, lambda memory, a, b: a @ b
    ),
}
