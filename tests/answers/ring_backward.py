import torch


def _block(q, k, v, L, D, do):
    root = q.shape[-1] ** -0.5
    p = torch.exp(q @ k.transpose(1, 2) * root - L.unsqueeze(-1))
    ds = p * (do @ v.transpose(1, 2) - D) * root
    return ds @ k, ds.transpose(1, 2) @ q, p.transpose(1, 2) @ do


def _begun(q, k, v, o, do):
    q, k, v, do = (x.float() for x in (q, k, v, do))
    return q, k, v, do, (o * do).sum(-1).unsqueeze(-1), *(torch.zeros_like(x) for x in (q, k, v))


def right_in_place(rank, ranks, q, k, v, o, L, do):
    q, k, v, do, D, *totals = _begun(q, k, v, o, do)
    for _ in range(ranks):
        for total, part in zip(totals, _block(q, k, v, L, D, do)):
            total += part
        k, v, *totals[1:] = yield ("post", k, v, *totals[1:])
        yield ("wait",)
    return totals


def wrong_keys_home_without_their_sums(rank, ranks, q, k, v, o, L, do):
    """one hop short"""
    q, k, v, do, D, *totals = _begun(q, k, v, o, do)
    for step in range(ranks):
        totals = [x + part for x, part in zip(totals, _block(q, k, v, L, D, do))]
        if step < ranks - 1:
            k, v, *totals[1:] = yield ("post", k, v, *totals[1:])
            yield ("wait",)
    return totals
