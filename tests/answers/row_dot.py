import math

import torch


def right_by_python_sums(o, do, p, dp):
    D = torch.tensor([math.fsum(a * b for a, b in zip(x, y)) for x, y in zip(o.tolist(), do.tolist())])
    return [D, p * dp - p * D[:, None]]


def right_in_place_by_a_batched_product(o, do, p, dp):
    D = torch.bmm(o.float()[:, None], do.float()[:, :, None])[:, 0, 0]
    dp -= D.view(-1, 1)
    p *= dp
    return D, p


def wrong_in_float64(o, do, p, dp):
    D = (o.double() * do.double()).sum(1)
    return D, p * (dp - D[:, None])
