import math

import torch


def right_cut_by_hand(rank, ranks, q, k, v, attend):
    times, h = math.lcm(k.shape[0], ranks) // k.shape[0], q.shape[0] // ranks
    k, v = ([x[i // times] for i in range(times * len(x))] for x in (k, v))
    found = []
    for x in (q, k, v):
        n = len(x) // ranks
        found.append(
            torch.cat((yield ("exchange", tuple(torch.stack(list(x[r * n : r * n + n])) for r in range(ranks)))), 1)
        )
    o = torch.cat([attend(found[0][i : i + 1], *(x[i * len(x) // h][None] for x in found[1:]))[0] for i in range(h)])
    back = yield ("exchange", o.chunk(ranks, dim=1))
    return torch.cat(back)


def right_all_in_one(rank, ranks, q, k, v, attend):
    h, c = q.shape[0] // ranks, q.shape[1]
    more = math.lcm(k.shape[0], ranks)
    m = more // ranks
    k, v = (x.repeat_interleave(more // k.shape[0], 0) for x in (k, v))
    shares = [torch.cat([q[r * h : (r + 1) * h], *(x[r * m : (r + 1) * m] for x in (k, v))]) for r in range(ranks)]
    got = torch.cat((yield ("exchange", shares)), dim=1)
    o, _ = attend(got[:h], got[h : h + m], got[h + m :])
    got = yield ("exchange", [o[:, r * c : (r + 1) * c] for r in range(ranks)])
    return torch.cat(got, dim=0)


def wrong_repeating_all(rank, ranks, q, k, v, attend):
    """up to those of q"""
    k, v = (x.repeat_interleave(q.shape[0] // k.shape[0], 0) for x in (k, v))
    return (yield from right_cut_by_hand(rank, ranks, q, k, v, attend))


def wrong_everything_to_everyone(rank, ranks, q, k, v, attend):
    """if everything is sent to everyone"""
    whole = []
    for x in (q, k, v):
        whole.append(torch.cat((yield ("exchange", [x for _ in range(ranks)])), dim=1))
    c = q.shape[1]
    return attend(*whole)[0][:, rank * c : (rank + 1) * c]


def wrong_two_way(rank, ranks, q, k, v, attend):
    """second exchange is forgotten"""
    group = math.lcm(k.shape[0], ranks) // k.shape[0]
    found = []
    for x in (q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)):
        found.append(torch.cat((yield ("exchange", list(x.chunk(ranks)))), dim=1))
    return attend(*found)[0]


def wrong_only_rank_0_asks(rank, ranks, q, k, v, attend):
    if rank == 0 and ranks > 1:
        yield ("exchange", list(q.chunk(ranks)))
    elif ranks == 1:
        yield ("exchange", [q])
    return attend(q, k, v)[0]
