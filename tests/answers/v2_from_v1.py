import math

import torch


def _v2(memory, Q, K, V, O, block_m, block_n, *, get, put):
    for i in range(0, len(Q.data), block_m):
        with memory.scope("queries"):
            q = get(Q, slice(i, i + block_m)) / math.sqrt(Q.data.shape[1])
            o, l, m = torch.zeros_like(q), torch.zeros(len(q), 1), torch.full((len(q), 1), -math.inf)
            for j in range(0, len(K.data), block_n):
                with memory.scope("keys"):
                    k, v = (get(x, slice(j, j + block_n)) for x in (K, V))
                    s = memory.matmul(q, k.T)
                    new = torch.maximum(m, s.amax(1, keepdim=True))
                    p, old = torch.exp(s - new), torch.exp(m - new)
                    m, l, o = new, l * old + p.sum(1, keepdim=True), o * old + memory.matmul(p, v)
            put(slice(i, i + block_m), o / l)


def right_columns_kept_two_dimensional(memory, Q, K, V, O, block_m, block_n):
    get, put = (lambda x, rows: memory.load(x[rows])), (lambda rows, o: memory.store(O[rows], o))
    _v2(memory, Q, K, V, O, block_m, block_n, get=get, put=put)


def right_in_place_and_freed_by_hand(memory, Q, K, V, O, block_m, block_n):
    for i in range(0, len(Q.data), block_m):
        q = memory.load(Q[i : i + block_m]).div_(math.sqrt(Q.data.shape[1]))
        o = memory.tile("o", torch.zeros(O[i : i + block_m].data.shape))
        l, m = torch.zeros(len(q)), torch.full((len(q),), -torch.inf)
        for j in range(0, len(K.data), block_n):
            p = memory.tile("p", q @ memory.load(K[j : j + block_n]).T)
            memory.free(str(K[j : j + block_n]))
            new = torch.maximum(m, p.amax(1))
            p.sub_(new[:, None]).exp_()
            old, m = torch.exp(m - new), new
            l.mul_(old).add_(p.sum(1))
            o.mul_(old[:, None]).add_(p @ memory.load(V[j : j + block_n]))
            memory.free("p")
            memory.free(str(V[j : j + block_n]))
        memory.store(O[i : i + block_m], o.div_(l[:, None]))
        memory.free("o")
        memory.free(str(Q[i : i + block_m]))


def wrong_k_loaded_but_read_by_data(memory, Q, K, V, O, block_m, block_n):
    """of .data, say"""

    def get(x, rows):
        tile = memory.load(x[rows])
        return x.data[rows] if x is K else tile

    _v2(memory, Q, K, V, O, block_m, block_n, get=get, put=lambda rows, o: memory.store(O[rows], o))


def wrong_nan_stored_and_o_written_by_data(memory, Q, K, V, O, block_m, block_n):
    def put(rows, o):
        memory.store(O[rows], O[rows].data)
        O[rows].data.copy_(o)

    _v2(memory, Q, K, V, O, block_m, block_n, get=lambda x, rows: memory.load(x[rows]), put=put)


def wrong_tiles_after_their_scope(memory, Q, K, V, O, block_m, block_n):
    """of a scope that has ended"""

    def get(x, rows):
        with memory.scope("load"):
            return memory.load(x[rows])

    _v2(memory, Q, K, V, O, block_m, block_n, get=get, put=lambda rows, o: memory.store(O[rows], o))
