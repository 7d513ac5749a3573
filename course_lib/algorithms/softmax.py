"""Softmax of one long row, which does not fit in SRAM, on the simulated memory: how often does the row cross?"""

import torch

from course_lib.algorithms.run import Run, blocks, wide
from course_lib.model.memory import HBMTensor, Memory
from course_lib.model.softmax import State, normalise, output, start, update, weights


def offline_softmax(x: torch.Tensor, block: int, sram_bytes: int | None = None) -> Run:
    """Softmax of x [n] in three passes: every element is loaded three times and stored once.

    Source: arXiv 1805.02867, Algorithm 2.
    """
    memory, X, Y, parts = _long_row(x, block, sram_bytes)
    m, l = torch.tensor(-torch.inf, dtype=wide(x)), torch.zeros((), dtype=wide(x))
    for part in parts:
        with memory.scope("pass 1: maximum"):
            m = torch.maximum(m, memory.load(X[part]).to(m.dtype).max())
    for part in parts:
        with memory.scope("pass 2: sum"):
            l = l + weights(memory.load(X[part]).to(m.dtype), m).sum()
    for part in parts:
        with memory.scope("pass 3: divide"):
            memory.store(Y[part], normalise(memory.load(X[part]).to(m.dtype), State(m, l)))
    return Run(Y.data, memory)


def online_softmax(x: torch.Tensor, block: int, sram_bytes: int | None = None) -> Run:
    """Softmax of x [n] in two passes: every element is loaded twice and stored once.

    Source: arXiv 1805.02867, Algorithm 3.
    """
    memory, X, Y, parts = _long_row(x, block, sram_bytes)
    state = start(x)
    for part in parts:
        with memory.scope("pass 1: maximum and sum"):
            state = update(state, memory.load(X[part]))
    for part in parts:
        with memory.scope("pass 2: divide"):
            memory.store(Y[part], normalise(memory.load(X[part]).to(state.m.dtype), state))
    return Run(Y.data, memory)


def softmax_average(x: torch.Tensor, v: torch.Tensor, block: int, sram_bytes: int | None = None) -> Run:
    """The average of v [n, dv] under softmax(x), x [n], in one pass: x and v are loaded once, only o [dv] is stored.

    This is what FlashAttention does for one query.
    """
    memory, X, _, parts = _long_row(x, block, sram_bytes)
    V, O = memory.hbm("V", v), memory.hbm_empty("O", (v.shape[1],), v.dtype)
    state = start(x, v)
    for part in parts:
        with memory.scope("the only pass: maximum, sum and output"):
            state = update(state, memory.load(X[part]), memory.load(V[part]))
    memory.store(O[:], output(state))
    return Run(O.data, memory)


def _long_row(x: torch.Tensor, block: int, sram_bytes: int | None) -> tuple[Memory, HBMTensor, HBMTensor, list[slice]]:
    memory = Memory(sram_bytes)
    return memory, memory.hbm("x", x), memory.hbm_empty("y", x.shape, x.dtype), list(blocks(len(x), block))
