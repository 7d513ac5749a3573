import math

import torch


def _walk(memory, Q, K, V, O, G, block_m, block_n, get=None, bug="", backwards=False):
    get = get or (lambda x, a, b: memory.load(x[a:b]))
    rows, n = len(Q.data), len(K.data)
    low = -1e38 if bug == "finite mask" else -math.inf
    for i in range(0, rows, block_m):
        with memory.scope("queries"):
            q = get(Q, i, i + block_m) / math.sqrt(Q.data.shape[1])
            count = len(q)
            limit = n - rows // G + torch.arange(i, i + count)[:, None] // G + 1  # keys that are seen
            o, l, m = torch.zeros_like(q), torch.zeros(count, 1), torch.full((count, 1), -math.inf)
            starts = range(0, int(limit.max()), block_n)
            for j in reversed(starts) if backwards else starts:
                with memory.scope("keys"):
                    end = j + block_n if bug else min(j + block_n, int(limit.max()))
                    k, v = get(K, j, end), get(V, j, end)
                    s = memory.matmul(q, k.T)
                    s = s.masked_fill(torch.arange(j, j + len(k)) >= limit, low)
                    new = s.amax(1, keepdim=True)
                    new = new if bug == "block maximum" else torch.maximum(m, new)
                    safe = new if bug else new.masked_fill(new == -math.inf, 0)
                    p, old = torch.exp(s - safe), torch.exp(m - safe)
                    m, l, o = new, l * old + p.sum(1, keepdim=True), o * old + memory.matmul(p, v)
            memory.store(O[i : i + block_m], o / l)


def right_no_key_too_many_and_backwards(memory, Q, K, V, O, G, block_m, block_n):
    _walk(memory, Q, K, V, O, G, block_m, block_n, backwards=True)


def wrong_k_loaded_but_read_by_data(memory, Q, K, V, O, G, block_m, block_n):
    """of .data, say"""

    def get(x, a, b):
        tile = memory.load(x[a:b])
        return x.data[a:b] if x is K else tile

    _walk(memory, Q, K, V, O, G, block_m, block_n, get)


def wrong_maximum_of_the_block(memory, Q, K, V, O, G, block_m, block_n):
    """of the block of keys alone"""
    _walk(memory, Q, K, V, O, G, block_m, block_n, bug="block maximum")


def wrong_mask_of_the_lowest_score(memory, Q, K, V, O, G, block_m, block_n):
    _walk(memory, Q, K, V, O, G, block_m, block_n, bug="finite mask")
