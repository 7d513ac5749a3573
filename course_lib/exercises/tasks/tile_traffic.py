"""Lecture 03: a tiled product that keeps a strip of A in SRAM, and moves no more bytes than that needs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from course_lib.cost import Traffic
from course_lib.exercises.base import Case, Exercise
from course_lib.memory import Memory

ASKED = r"""
A is [64, 8], B is [8, 64], tiles of C are 16 × 16, float32. The loop of this lecture loads A four times, 8,192 bytes: once for each
block column of C. But k = 8 is short, as the head dimension of attention is. So one more dimension may stay in SRAM: a **strip** of
`bm` rows of A, with all k columns, while the block columns of C pass.

Write this loop. A [m, k], B [k, n] and C [m, n] lie in the HBM of `memory`, C is full of NaN. Load A once in all (2,048 bytes above),
and B once for each strip of A, ⌈m / bm⌉ times; store C once and load nothing of it. The SRAM holds a strip [bm, k] of A, a strip
[k, bn] of B and a tile [bm, bn] of C, and no byte more. `bm` and `bn` need not divide m and n; a slice ends with its matrix. Return
nothing.

You need `memory.load(A[rows, cols])`, which returns a tensor, `memory.matmul(a, b)`, and `memory.store(C[rows, cols], c)`; `rows` and
`cols` are slices, and `C.data.shape` is (m, n). A computed tile has its place in SRAM after `memory.tile("C_ij", c)`. What comes to
SRAM inside `with memory.scope("name"):` leaves it at the end of that block. The check reads off `memory` the bytes, whether each tile
of C had its place when it was stored, and the operations of `memory.matmul`.
"""

STUB = '''
from course_lib.memory import HBMTensor, Memory


def tile_traffic(memory: Memory, A: HBMTensor, B: HBMTensor, C: HBMTensor, bm: int, bn: int) -> None:
    """C [m, n] = A [m, k] B [k, n] in tiles of bm × bn, each strip of A loaded once."""
    ...
'''


@dataclass(frozen=True)
class Moved:
    """What crossed between HBM and SRAM, and, where that is right, what was done past the memory ('' for nothing).

    Unknown (None) is equal to any: both are judged by ``remark``, after the product.
    """

    traffic: Traffic | None
    past: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moved):
            return NotImplemented
        return None in (self.traffic, other.traffic) or (self.traffic, self.past) == (other.traffic, other.past)


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


def expected(a: torch.Tensor, b: torch.Tensor, bm: int, bn: int) -> tuple[torch.Tensor, Moved]:
    return (a.double() @ b.double()).float(), Moved(None)


def run(function: Callable[..., object], case: Case) -> tuple[torch.Tensor, Moved]:
    a, b, bm, bn = case.args
    (m, k), n = a.shape, b.shape[1]
    memory = Memory(4 * (bm * k + k * bn + bm * bn))
    C = memory.hbm_empty("C", (m, n))
    function(memory, memory.hbm("A", a), memory.hbm("B", b), C, bm, bn)
    traffic = memory.traffic()
    return C.data, Moved(traffic, "" if _wrong_bytes(case, traffic) else _past_the_memory(memory, 2 * m * n * k))


def remark(case: Case, result: tuple[torch.Tensor, Moved]) -> str:
    """Wrong bytes, or right ones with work that the memory was not told of."""
    return _wrong_bytes(case, result[1].traffic or Traffic({}, {})) or result[1].past


def _past_the_memory(memory: Memory, operations: int) -> str:
    """Tiles of C that were stored without a place in SRAM, and operations that were not counted."""
    placed: dict[str, int] = {}
    words = ""
    for event in memory.trace:
        if event.op == "tile":
            placed[event.tensor] = event.bytes
        elif event.op == "free":
            placed.pop(event.tensor, None)
        elif event.op == "store" and sum(placed.values()) < event.bytes:
            words = 'product and bytes are right, but a tile of C is stored that has no place in SRAM: memory.tile("C_ij", c)'
    if (counted := memory.flops().matmul) < operations:
        words += "; " if words else "product and bytes are right, but "
        words += f"only {counted:,} of {operations:,} operations are counted: memory.matmul counts them, @ does not"
    return words


def _wrong_bytes(case: Case, traffic: Traffic) -> str:
    """Too many bytes, or fewer than there are."""
    a, b, bm, _ = case.args
    strips, needed = len(a.split(bm)), a.element_size() * len(a) * b.shape[1]
    for name, matrix, times in (("A", a, 1), ("B", b, strips)):
        found = traffic.reads.get(name, 0)
        if found < matrix.nbytes:
            return f"the product is right, but only {found:,} of the {matrix.nbytes:,} bytes of {name} were loaded from HBM"
        if found > matrix.nbytes * times:
            often = f"{_times(found / (matrix.nbytes * times))} as often as needed"
            return f"right, but you read {name} {often}: {found:,} bytes, where {matrix.nbytes * times:,} are enough"
    if back := traffic.reads.get("C", 0):
        return f"right, but {back:,} bytes of C are read back; its tile can stay in SRAM until it is finished"
    stored = traffic.writes.get("C", 0)
    if stored < needed:
        return f"the product is right, but only {stored:,} of the {needed:,} bytes of C were stored to HBM"
    if stored > needed:
        return f"right, but you write C {_times(stored / needed)} as often as needed: {stored:,} bytes, where {needed:,} are enough"
    return ""


def _times(ratio: float) -> str:
    return "twice" if ratio == 2 else f"{ratio:.3g} times"


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


def _all_strips(memory, A, B, C, bm, bn, tile):
    m, n = C.data.shape
    _a_kept(memory, A, B, C, _strips(m, bm), _strips(n, bn), tile)


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


def no_place(memory, A, B, C, bm, bn):
    _all_strips(memory, A, B, C, bm, bn, memory.matmul)


def not_counted(memory, A, B, C, bm, bn):
    _all_strips(memory, A, B, C, bm, bn, lambda a, b: memory.tile("C_ij", a @ b))


def no_place_not_counted(memory, A, B, C, bm, bn):
    _all_strips(memory, A, B, C, bm, bn, torch.matmul)


EXERCISE = Exercise(
    name="tile_traffic",
    lecture="03",
    title="a tiled product that reads A once",
    level=2,
    minutes=20,
    asked=ASKED,
    stub=STUB,
    cases=cases,
    expected=expected,
    run=run,
    remark=remark,
    parts=("C", "bytes moved"),
    hints=(
        "Two loops, no third: with a strip [bm, k] of A and a strip [k, bn] of B in SRAM, a tile of C is one product.",
        "The outer loop walks the strips of A, range(0, m, bm), and loads each before the inner loop over the strips of B begins.",
        "Outside: with memory.scope('strip'), a = memory.load(A[i : i + bm]). Inside: with memory.scope('tile'), b = memory.load("
        "B[:, j : j + bn]), c = memory.tile('C_ij', memory.matmul(a, b)), memory.store(C[i : i + bm, j : j + bn], c).",
    ),
    wrong={
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
        "if the numbers are taken from .data: that is HBM, where nothing can be computed; use memory.load": past_the_memory,
        "if C is loaded to add to it: it is full of NaN until it is stored": c_loaded,
        'if the product is stored without a place in SRAM: memory.tile("C_ij", c) comes before the store': no_place,
        "if the product is taken with @: memory.matmul counts its operations": not_counted,
        "if a @ b is stored as it is: memory.matmul counts its operations, memory.tile gives it a place in SRAM": (
            no_place_not_counted
        ),
    },
)
