import torch


def right_repeating_all(rank, ranks, q, k, v, attend):
    group = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    found = []
    for x in (q, k, v):
        found.append(torch.cat((yield ("exchange", x.chunk(ranks))), dim=1))
    o = attend(*found)[0]
    back = yield ("exchange", o.chunk(ranks, dim=1))
    return torch.cat(back)


def right_all_in_one(rank, ranks, q, k, v, attend):
    h = q.shape[0] // ranks
    group = q.shape[0] // k.shape[0]
    k, v = (x.repeat_interleave(group, 0) for x in (k, v))
    got = yield ("exchange", [torch.stack([x[r * h : (r + 1) * h] for x in (q, k, v)]) for r in range(ranks)])
    o, _ = attend(*torch.cat(got, dim=2))
    c = q.shape[1]
    got = yield ("exchange", [o[:, r * c : (r + 1) * c] for r in range(ranks)])
    return torch.cat(got, dim=0)


def wrong_two_way(rank, ranks, q, k, v, attend):
    """second exchange is forgotten"""
    group = q.shape[0] // k.shape[0]
    found = []
    for x in (q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)):
        found.append(torch.cat((yield ("exchange", list(x.chunk(ranks)))), dim=1))
    return attend(*found)[0]


def wrong_few_shares(rank, ranks, q, k, v, attend):
    got = yield ("exchange", [q])
    return got[0]


def wrong_only_rank_0_asks(rank, ranks, q, k, v, attend):
    if rank == 0 and ranks > 1:
        yield ("exchange", list(q.chunk(ranks)))
    elif ranks == 1:
        yield ("exchange", [q])
    return attend(q, k, v)[0]
