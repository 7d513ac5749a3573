"""Solution of packed_group."""

SOURCE = '''
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

EXPLANATION = """
A row of scores knows nothing of heads: it has a query, and keys that it sees. So a block may hold rows of several heads and tokens, and the
keys pass once for all of them, G times less often. With many tokens, without a mask, packing saves nothing: then each head fills its
blocks by itself. That is why decoding packs (lecture 08), and training does not. Heads of a token lie together, so a block spans few
tokens, and its walk ends early; with all tokens of head 0 first, each block would reach to the last token.
"""
