"""Inputs of decoding, with NaN wherever no token is, and its definition."""

import itertools

import torch

from course_lib import runtime

DEVICE = runtime.device()


def whole(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device=DEVICE)


def inputs(lengths, heads, heads_k, n_q, d, dtype, room=None):
    """q, and a cache [B, Hk, room, D] with NaN in every place that no token has."""
    room = max(1, *lengths) if room is None else room
    shapes = ((len(lengths), heads, n_q, d), *[(len(lengths), heads_k, room, d)] * 2)
    q, k, v = (torch.randn(shape, device=DEVICE).to(dtype) for shape in shapes)
    for b, length in enumerate(lengths):
        k[b, :, length:] = v[b, :, length:] = torch.nan
    return q, k, v


def paged(k, v, lengths, page):
    """The same cache in pages that lie in any order, NaN in all unused places; and the table, which holds no page where no token is."""
    (b, heads_k, _, d), slots = k.shape, max(1, *[-(-length // page) for length in lengths]) + 1
    pages = b * slots + 2
    table = torch.randperm(pages)[: b * slots].view(b, slots).int()
    pools = [torch.full((pages, heads_k, page, d), torch.nan, dtype=k.dtype, device=DEVICE) for _ in "kv"]
    for i, length in enumerate(lengths):
        for slot in range(slots):
            begin, end = slot * page, min((slot + 1) * page, length)
            if begin < end:
                for pool, x in zip(pools, (k, v)):
                    pool[table[i, slot], :, : end - begin] = x[i, :, begin:end]
            else:
                table[i, slot] = -7 if slot % 2 else 10**9
    return *pools, table.to(DEVICE)


def definition(q, k, v, lengths, scale=None):
    """(o, L), one row at a time, in the inputs' own dtype."""
    o, L = torch.zeros_like(q), torch.full(q.shape[:3], -torch.inf, dtype=torch.promote_types(q.dtype, torch.float32))
    group, (n_q, d) = q.shape[1] // k.shape[1], q.shape[2:]
    for b, h, i in itertools.product(*map(range, q.shape[:3])):
        seen = lengths[b] - n_q + i + 1
        if seen > 0:
            s = k[b, h // group, :seen] @ q[b, h, i] * (d**-0.5 if scale is None else scale)
            o[b, h, i], L[b, h, i] = torch.softmax(s, 0) @ v[b, h // group, :seen], torch.logsumexp(s, 0)
    return o, L.to(q.device)
