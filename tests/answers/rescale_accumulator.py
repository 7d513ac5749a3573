import math

import torch


def right_key_by_key(m, l, acc, x, V):
    for score, value in zip(x.tolist(), V):
        new = max(m, score)
        old, p = math.exp(m - new), math.exp(score - new)
        m, l, acc = new, l * old + p, acc * old + p * value
    return m, l, acc


def right_the_block_rescaled_in_place(m, l, acc, x, V):
    own = x.max()
    new = max(m, own.item())
    x.sub_(own).exp_()
    l = l * math.exp(m - new) + x.sum() * torch.exp(own - new)
    return [new, l, acc.mul_(math.exp(m - new)).add_(torch.einsum("n,nd->d", x, V) * torch.exp(own - new))]


def wrong_double_precision_for_a_maximum(m, l, acc, x, V):
    new = max(m, float(x.max()))
    if new < -700:
        return right_key_by_key(m, l, acc, x, V)
    p, old = torch.exp(x.double()), math.exp(m)
    return new, (l * old + float(p.sum())) / math.exp(new), (acc.double() * old + p @ V.double()) / math.exp(new)
