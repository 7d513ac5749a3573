import torch


def _merged(state, part):
    if state is None:
        return part
    (o, L), (p, p_L) = state, part
    weight = torch.sigmoid(p_L - L)[..., None]
    return o + weight * (p - o), torch.logaddexp(L, p_L)


def right_by_pairs(rank, ranks, q, k, v, attend):
    state = None
    for source in [(rank - t) % ranks for t in range(ranks)]:
        last = source == (rank + 1) % ranks
        new = None if last else (yield ("post", k, v))
        if source <= rank:
            state = _merged(state, attend(q, k, v, causal=source == rank))
        if not last:
            yield ("wait",)
            k, v = new
    return state[0]


def wrong_exponentials_of_both(rank, ranks, q, k, v, attend):
    """beyond 88"""
    for step in range(ranks):
        if step + 1 < ranks:
            new = yield ("post", k, v)
        if step == 0:
            o, L = attend(q, k, v, True)
        elif step <= rank:
            part, part_L = attend(q, k, v)
            total = torch.log(torch.exp(L) + torch.exp(part_L))
            o = o * torch.exp(L - total)[..., None] + part * torch.exp(part_L - total)[..., None]
            L = total
        if step + 1 < ranks:
            yield ("wait",)
            k, v = new
    return o


def wrong_attends_after_the_wait(rank, ranks, q, k, v, attend):
    """travels while nobody computes"""
    state = None
    for step in range(ranks):
        mine = (k, v)
        if step + 1 < ranks:
            k, v = yield ("post", k, v)
            yield ("wait",)
        if step <= rank:
            state = _merged(state, attend(q, *mine, step == 0))
    return state[0]
