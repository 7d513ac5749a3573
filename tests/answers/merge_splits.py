import math

import torch


def right_by_softmax(O_s, L_s):
    weights = torch.softmax(L_s, 0).nan_to_num(0.0)
    return torch.einsum("sn,snd->nd", weights, O_s.nan_to_num(0.0)), torch.logsumexp(L_s, 0)


def right_two_at_a_time(O_s, L_s):
    O, L = torch.zeros_like(O_s[0]), torch.full_like(L_s[0], -math.inf)
    for o, l in zip(O_s, L_s):
        new = torch.logaddexp(L, l)
        a, b = (torch.where(x == -math.inf, 0.0, torch.exp(x - new)) for x in (L, l))
        O, L = O * a[:, None] + torch.where(b[:, None] > 0, o, 0.0) * b[:, None], new
    return [O, L]


def wrong_exp_of_L(O_s, L_s):
    """without subtracting"""
    w = torch.exp(L_s)
    total = w.sum(0)
    return (w[..., None] * O_s.nan_to_num(0.0)).sum(0) / total.clamp(min=1e-30)[:, None], torch.log(total)


def wrong_the_tail_is_nan(O_s, L_s):
    """0 · NaN"""
    w = torch.softmax(L_s, 0).nan_to_num(0.0)
    return (w[..., None] * O_s).sum(0), torch.logsumexp(L_s, 0)
