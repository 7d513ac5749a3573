"""Solution of v2_from_v1."""

SOURCE = '''
def v2_from_v1(memory, Q, K, V, O, block_m: int, block_n: int) -> None:
    """softmax(Q Kᵀ / √d) V into O, on the simulated memory: outer loop over Q, each block of O stored once."""
    for first in range(0, Q.data.shape[0], block_m):
        rows = slice(first, first + block_m)
        with memory.scope("queries"):
            q = memory.load(Q[rows])
            o, l, m = torch.zeros(q.shape), torch.zeros(len(q)), torch.full((len(q),), -math.inf)
            for start in range(0, K.data.shape[0], block_n):
                cols = slice(start, start + block_n)
                with memory.scope("keys"):
                    k, v = memory.load(K[cols]), memory.load(V[cols])
                    s = q @ k.T / math.sqrt(q.shape[1])
                    m_new = torch.maximum(m, s.amax(dim=1))
                    p, factor = torch.exp(s - m_new[:, None]), torch.exp(m - m_new)
                    l = l * factor + p.sum(dim=1)
                    o = o * factor[:, None] + p @ v
                    m = m_new
            memory.store(O[rows], o / l[:, None])
'''

EXPLANATION = """
What belongs to a block of queries (q, o, l, m) moves to the outer loop and stays on the chip; what belongs to the
keys streams. With T blocks of keys, V1 sends O across T times each way, V2 once, and l and m not at all. The price: K
and V are read once for each block of queries, not once. As o stays a plain sum, one division for each row, at the
end, is enough.
"""
