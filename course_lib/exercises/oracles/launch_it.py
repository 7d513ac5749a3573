"""Lecture 05: what launch_it is checked by."""

import functools
import random
from collections.abc import Iterable
from typing import Any

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.exercises.tasks.launch_it import BY_THE_KERNEL

APART = "the numbers of a row apart"
K_APART = "heads before rows, and the numbers of K's rows apart"
FORMATS = (torch.float16, torch.float32)


def _case(
    generator: torch.Generator, words: str, batch: int, heads: int, group: int, n_q: int, n_k: int, d: int, kib: int,
    causal: bool = False, layout: str = "one after another", dtype: torch.dtype = torch.float32,
) -> Case:  # fmt: skip
    shapes = [(batch, n_q, heads, d), *[(batch, n_k, heads // group, d)] * 2]
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    return Case(words, (*tensors, causal, kib * 1024, layout))


def cases() -> Iterable[Case]:
    case = functools.partial(_case, torch.Generator().manual_seed(0))
    yield case("one head of 32 tokens", 1, 1, 1, 32, 32, 16, 99)
    yield case("40 queries, 30 keys", 1, 1, 1, 40, 30, 16, 5)
    yield case("two sequences of three heads", 2, 3, 1, 20, 16, 16, 3, dtype=torch.float16)
    yield case("four heads share two of K and V, causal", 1, 4, 2, 15, 15, 16, 6, causal=True)
    yield case("q, k and v are parts of one tensor", 2, 2, 2, 9, 9, 16, 99, layout="parts of one tensor")
    yield case("heads before rows in memory", 1, 2, 1, 9, 9, 32, 14, layout="heads before rows")
    yield case("k and v lie in memory each in its own way", 1, 2, 1, 5, 9, 16, 99, layout="V's heads before its rows")
    yield case("keys and values in a longer cache", 2, 1, 1, 5, 9, 16, 99, layout="K and V in a longer cache")
    yield case("heads of 24 numbers", 1, 1, 1, 10, 34, 24, 8, dtype=torch.float16)
    yield case("heads of 8 numbers", 1, 1, 1, 10, 9, 8, 3, dtype=torch.float16)
    yield case("a row's numbers do not lie side by side", 1, 2, 1, 9, 9, 16, 99, layout=APART)
    yield case("those of k alone do not lie side by side", 1, 2, 1, 9, 9, 16, 99, layout=K_APART)


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    generator = torch.Generator().manual_seed(draw.randrange(2**62))
    for layout in ("one after another", "parts of one tensor", "V's heads before its rows", K_APART):
        group, n, d = draw.randint(1, 2), draw.randint(3, 35), draw.choice((8, 16, 20))
        sizes = (draw.randint(1, 2), 2 * group, group, n, n, d, draw.randint(2, 16))
        yield _case(generator, "any sizes", *sizes, draw.random() < 0.5, layout, draw.choice(FORMATS))


def expected(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, shared_bytes: int, layout: str
) -> tuple[torch.Tensor, str, int, Any, Any, Any, int, str]:
    """Attention in float64, and the most stages whose tiles add up to no more than there is."""
    (batch, n_q, heads, d), n_k = q.shape, k.shape[1]
    y, z = (x.double().repeat_interleave(heads // x.shape[2], 2) for x in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q.double(), y) / d**0.5
    if causal:
        s = s.masked_fill(torch.ones(n_q, n_k, dtype=torch.bool).triu(1), -torch.inf)
    o = torch.einsum("bhij,bjhd->bihd", s.softmax(-1), z).to(q.dtype)
    width = 16 if d <= 16 else 32
    stages = max(n for n in range(1, 5) if n == 1 or (32 + n * 32) * width * q.element_size() <= shared_bytes)
    copies = {APART: 3, K_APART: 1}.get(layout, 0)
    return o, str(q.dtype), 1, ((n_q + 31) // 32, batch * heads), (width, 32, 16), stages, copies, BY_THE_KERNEL


def _launch(kernel, q, k, v, causal, shared_bytes, bug):
    apart = [bug == "copies" or x.stride(3) != 1 for x in (q, k, v)]
    if bug != "numbers apart":
        q, k, v = (
            x.contiguous() if x_apart or (bug == "all or none" and any(apart)) else x
            for x, x_apart in zip((q, k, v), apart)
        )
    (batch, n_q, heads, d), (_, n_k, kv_heads, _) = q.shape, k.shape
    o = torch.empty(q.shape, dtype=torch.float32 if bug == "O in fp32" else q.dtype)
    width = 8 if bug == "D = 8" and d <= 8 else 16 if d <= 16 else 32
    size = {"4 bytes": 4, "2 bytes": 2}.get(bug, q.element_size())
    across = d if bug == "stages by d" else width
    tiles = {"K alone": 16, "Q left out": 32}.get(bug, 32)
    left = shared_bytes - (0 if bug == "Q left out" else 32 * across * size)
    fit = left // (tiles * across * size)
    stages = {"always 4": 4, "no limit": max(1, fit)}.get(bug, max(1, min(4, fit)))
    shapes = {"q": q, "k": k, "v": v, "o": q if bug == "O as Q" else o}
    strides = [n for x in shapes.values() for n in x.stride()[:3]]
    if bug == "contiguous":
        strides = [n for x in (q, k, v, o) for n in (x.shape[1] * x.shape[2] * d, x.shape[2] * d, d)]
    if bug == "swapped":
        strides = [n for x in (q, k, v, o) for n in (x.stride(0), x.stride(2), x.stride(1))]
    if bug == "Q swapped":
        strides[1:3] = strides[2:0:-1]
    if bug == "V as K":
        strides[6:9] = strides[3:6]
    blocks = {"rounded down": n_q // 32, "by keys": -(-n_k // 32)}.get(bug, -(-n_q // 32))
    grid = (max(1, blocks), {"batch alone": batch, "heads alone": heads}.get(bug, batch * heads))
    grid = grid[::-1] if bug == "axes" else grid
    group = {"group 1": 1, "heads of K": kv_heads}.get(bug, heads // kv_heads)
    scale = width**-0.5 if bug == "scale by D" else d**-0.5
    kernel[grid](
        q, k, v, o, heads, group, n_q, n_q if bug == "n_k is n_q" else n_k, d, scale, *strides,
        CAUSAL=causal and bug != "no mask", D=width, BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=stages,
    )  # fmt: skip
    return o


WRONG = variants(
    _launch,
    {
        "if strides are computed from the shapes: parts of a larger tensor lie further apart": "contiguous",
        "if the strides of rows and heads change places": "swapped",
        "if the strides of Q's rows and heads change places": "Q swapped",
        "if V is read with K's strides: it has its own": "V as K",
        "if O is written with Q's strides: it has its own": "O as Q",
        "if O is fp32 for other formats, too: it is to have q's": "O in fp32",
        "if the grid is rounded down: a ragged block of queries needs a program, too": "rounded down",
        "if the grid goes by the keys: programs make rows of O": "by keys",
        "if the grid's second number is the batch alone: each head of each sequence has a program": "batch alone",
        "if the grid's second number is that of the heads alone: the sequences of a batch have programs, too": "heads alone",
        "if the grid's two numbers change places: blocks of queries come first": "axes",
        "if group is taken for the number of K's heads: it is the number of Q's heads that share one": "heads of K",
        "if group is 1: several heads of Q may share one of K and V": "group 1",
        "if n_q is passed for n_k": "n_k is n_q",
        "if the scale goes by D: the padding has no numbers": "scale by D",
        "if CAUSAL is not passed on": "no mask",
        "if a row's numbers are taken to lie side by side: look at the last stride, and copy where it is not 1": "numbers apart",
        "if the tile of Q is left out of the bytes": "Q left out",
        "if a stage is taken for one tile: it holds one of K and one of V": "K alone",
        "if the bytes of a tile go by d: its rows are D wide": "stages by d",
        "if D is less than 16 for small heads: tl.dot takes no less": "D = 8",
        "with 4 bytes for each number of fp16, which has 2, or with 32 rows for a tile of K, which has 16": "4 bytes",
        "with 2 bytes for each number: fp32 has 4": "2 bytes",
        "if all three are copied as soon as one has to be: the others' strides will do": "all or none",
        "if all tensors are copied: the kernel takes strides so that nobody has to": "copies",
        "with four stages whether they fit or not": "always 4",
        "if there are more than four stages where more fit": "no limit",
    },
)
