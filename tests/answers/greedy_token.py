import math

import torch


def right_score_by_score(blocks):
    best, place, total, seen = None, 0, 0.0, 0
    for block in blocks:
        for x in block.tolist():
            if x > -math.inf:
                if best is None or x > best:
                    total = total * math.exp(best - x) if best is not None else 0.0
                    best, place = x, seen
                total += math.exp(x - best)
            seen += 1
    return place, 1.0 / total


def right_by_log_sum_exp(blocks):
    L, m = torch.tensor(-math.inf, dtype=torch.float32), torch.tensor(-math.inf)
    token, offset = torch.tensor(0), 0
    for x in blocks:
        L = torch.logaddexp(L, torch.logsumexp(x, 0))
        value, index = x.max(0)
        token = torch.where(value > m, index + offset, token)
        m = torch.maximum(m, value)
        offset += x.numel()
    return token, torch.exp(m - L)


def wrong_first_block_decides_the_origin(blocks):
    origin, l, best, token, before = None, 0.0, -math.inf, 0, 0
    for x in blocks:
        origin = float(x[x > -math.inf].max()) if origin is None and bool((x > -math.inf).any()) else origin
        if origin is not None:
            l += float(torch.exp(x - origin).sum())
        if float(x.max()) > best:
            best, token = float(x.max()), before + int(x.argmax())
        before += len(x)
    return token, math.exp(min(700.0, best - origin)) / l
