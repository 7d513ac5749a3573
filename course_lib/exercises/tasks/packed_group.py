"""Lecture 06: V2 on the simulated memory, with the queries of a group of heads packed into one block."""

import math

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness.guarded_memory import GuardedMemory


def run(function, case):
    """What never moved, O, and in words what crossed too often, or too seldom; '' for nothing."""
    q, k, v, group, block_m, block_n = case.args
    d = q.shape[1]
    memory = GuardedMemory(4 * (3 * block_m * d + 2 * block_n * d + 2 * block_m * block_n + 8 * block_m))
    inputs = [memory.hbm(name, x) for name, x in (("Q", q), ("K", k), ("V", v))]
    function(memory, *inputs, memory.hbm_empty("O", q.shape), group, block_m, block_n)
    row, tokens = 4 * d, len(q) // group
    last = (min(first + block_m, len(q)) - 1 for first in range(0, len(q), block_m))
    seen = [len(k) - tokens + i // group + 1 for i in last]  # keys, by each block of queries
    of_k = row * sum(seen), row * sum(min(len(k), -(-keys // block_n) * block_n) for keys in seen)
    of_q = q.nbytes, q.nbytes
    words = memory.wrong_bytes({"Q": of_q, "K": of_k, "V": of_k}, {"O": of_q})
    return memory.never_moved(), memory.stored("O"), words


EXERCISE = Exercise(
    lecture="06",
    title="the heads of a group in one block",
    run=run,
    tolerance=1e-4,
    parts=("never loaded, nor stored to", "O", "bytes"),
    hints=(
        "Packing costs nothing where rows of Q lie so that a block of them is a slice. Which token does row 5 belong to, if G = 4? Which "
        "keys does it see?",
        "V2: for each block of rows load q, and let o and l start at 0 and m at −∞, plain tensors of len(q) rows; then walk over the keys. "
        "Only the last row of the block decides where the walk may end; the mask belongs to each row.",
        "token = (first + torch.arange(len(q))) // G. A score is −∞ where its key's number exceeds n − N + token, and that before the "
        "maximum is taken. Every row sees key 0, so m is finite after the first block.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def packed_group(memory, Q, K, V, O, G: int, block_m: int, block_n: int) -> None:
    """Causal attention of the last tokens into O, on the simulated memory: V2's loops, with G heads packed into the rows of Q."""
    (rows, d), n = Q.data.shape, K.data.shape[0]
    for first in range(0, rows, block_m):
        part = slice(first, first + block_m)
        with memory.scope("queries"):
            q = memory.load(Q[part])
            token = (first + torch.arange(len(q))) // G
            last_key = n - rows // G + token  # that each row sees
            o, l, m = torch.zeros(q.shape), torch.zeros(len(q)), torch.full((len(q),), -math.inf)
            for start in range(0, int(last_key[-1]) + 1, block_n):
                with memory.scope("keys"):
                    k, v = memory.load(K[start : start + block_n]), memory.load(V[start : start + block_n])
                    s = q @ k.T / math.sqrt(d)
                    hidden = start + torch.arange(len(k)) > last_key[:, None]
                    s = s.masked_fill(hidden, -math.inf)
                    m_new = torch.maximum(m, s.amax(dim=1))
                    p, factor = torch.exp(s - m_new[:, None]), torch.exp(m - m_new)
                    l = l * factor + p.sum(dim=1)
                    o = o * factor[:, None] + p @ v
                    m = m_new
            memory.store(O[part], o / l[:, None])
'''
WHY = """
A row of scores knows nothing of heads: it has a query, and keys that it sees. So a block may hold rows of several heads and tokens, and the
keys pass once for all of them, G times less often. With many tokens, without a mask, packing saves nothing: then each head fills its
blocks by itself. That is why decoding packs (lecture 08), and training does not. Heads of a token lie together, so a block spans few
tokens, and its walk ends early; with all tokens of head 0 first, each block would reach to the last token.
"""


def inputs(tokens, group, keys, d=4):
    return torch.randn(tokens * group, d), torch.randn(keys, d), torch.randn(keys, d)


def cases(draw):
    for words, tokens, group, keys, block_m, block_n in (
        ("one token, four heads: one block, which sees all keys", 1, 4, 4, 4, 2),
        ("2 tokens, 4 heads, blocks of 8: K passes once", 2, 4, 8, 8, 2),
        ("a token in each block: the first one sees a key less", 2, 2, 8, 2, 2),
        ("blocks that cut a token's heads", 3, 4, 9, 5, 2),
        ("one head: a causal mask", 6, 1, 6, 2, 3),
        ("all ragged", 5, 3, 11, 4, 3),
        ("one query, one key, blocks larger than both", 1, 1, 1, 4, 8),
    ):
        yield Case(words, (*inputs(tokens, group, keys), group, block_m, block_n))
    q, k, v = inputs(3, 2, 9)
    q[1] *= 200
    yield Case("one query 200 times as large as the others", (q, k, v, 2, 3, 2))
    q, k, v = inputs(3, 2, 9)
    k[6] = 8 * q[1]
    yield Case("the largest score comes late", (q, k, v, 2, 4, 2))
    q, k, v = inputs(3, 2, 9)
    q[:, 0], k[:, 0] = 2.0**63, -2.2e19  # a power of two: nothing is rounded
    yield Case("all scores −10³⁸", (q, k, v, 2, 3, 2))
    tokens, group = draw.randint(1, 5), draw.randint(1, 5)
    drawn = inputs(tokens, group, tokens + draw.randint(0, 8))
    yield Case("any sizes", (*drawn, group, draw.randint(1, 7), draw.randint(1, 5)))


def expected(q, k, v, group, block_m, block_n):
    """Row by row, over the keys that its token sees, in float64."""
    rows = []
    for i, query in enumerate(q.double()):
        seen = len(k) - len(q) // group + i // group + 1
        scores = k[:seen].double() @ query / math.sqrt(q.shape[1])
        rows.append(torch.softmax(scores, 0) @ v[:seen].double())
    return "", torch.stack(rows).float(), ""


TOKEN, LAST, MASK = "(first + torch.arange(len(q))) // G", "int(last_key[-1]) + 1", "s.masked_fill(hidden, -math.inf)"
WRONG = {
    "if the rows are taken to hold all tokens of one head after the other: row r belongs to token r // G":
        (TOKEN, "(first + torch.arange(len(q))) % (rows // G)", LAST, "int(last_key.max()) + 1"),
    "if the mask is aligned at the first key: the last token sees the last key": ("n - rows // G + token", "token"),
    "if nothing is masked: a block walks as far as its last row sees, and its other rows see less": (MASK, "s"),
    "if a token does not see its own key: it sees keys up to n − N + t, that one included": ("> last_key", ">= last_key"),
    "if a block walks on to the last key: right, but blocks are loaded that none of its rows sees": (LAST, "n"),
    "if numbers are NaN: of .data, say, or of a scope that has ended, or by a factor of ∞ in the first block":
        ("q @ k.T", "q @ K[start : start + block_n].data.T"),
    "if all rows have one maximum: in a row whose scores lie far below it all weights vanish": ("s.amax(dim=1)", "s.max().expand(len(q))"),
    "if the maximum is that of the block of keys alone: when a large score has passed, the correction overflows":
        ("torch.maximum(m, s.amax(dim=1))", "s.amax(dim=1)"),
}  # fmt: skip
