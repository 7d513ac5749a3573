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


def right_in_place_and_freed_by_hand(memory, Q, K, V, O, G, block_m, block_n):
    for i in range(0, len(Q.data), block_m):
        q = memory.load(Q[i : i + block_m]).div_(math.sqrt(Q.data.shape[1]))
        o = memory.tile("o", torch.zeros(O[i : i + block_m].data.shape))
        last = torch.arange(i, i + len(q)).div(G, rounding_mode="floor") + len(K.data) - len(Q.data) // G
        l, m = torch.zeros(len(q)), torch.full((len(q),), -torch.inf)
        j = 0
        while j <= last[-1]:
            p = memory.tile("p", q @ memory.load(K[j : j + block_n]).T)
            memory.free(str(K[j : j + block_n]))
            for key in range(p.shape[1]):
                p[last < j + key, key] = -torch.inf
            new = torch.maximum(m, p.amax(1))
            p.sub_(new[:, None]).exp_()
            old, m = torch.exp(m - new), new
            l.mul_(old).add_(p.sum(1))
            o.mul_(old[:, None]).add_(p @ memory.load(V[j : j + block_n]))
            memory.free("p")
            memory.free(str(V[j : j + block_n]))
            j += block_n
        memory.store(O[i : i + block_m], o.div_(l[:, None]))
        memory.free("o")
        memory.free(str(Q[i : i + block_m]))


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
