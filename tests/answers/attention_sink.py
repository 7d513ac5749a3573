import math

import torch


def right_by_a_sigmoid(O, L, sink):
    share = torch.sigmoid(L - sink[:, None]).nan_to_num(0.0)
    top = torch.maximum(L, sink[:, None])
    low = torch.minimum(L, sink[:, None])
    new = torch.where(low == -math.inf, top, top + torch.log1p(torch.exp(low - top)))
    return O * share.unsqueeze(-1), new


def right_as_a_merge_in_place(O, L, sink):
    both = torch.stack([L, sink[:, None].expand_as(L)])
    m = both.amax(0)
    m_safe = m.masked_fill(m == -math.inf, 0)
    a, b = (both - m_safe).exp()
    O.mul_((a / (a + b).clamp(min=1e-30))[..., None])
    return [O, m_safe + (a + b).log()]


def wrong_sum_instead_of_log(O, L, sink):
    """if O stays as it was"""
    return O, torch.logaddexp(L, sink[:, None])


def wrong_a_large_number_for_infinity(O, L, sink):
    L, s = L.clamp(min=-1e4), sink[:, None].clamp(min=-1e4)
    new = torch.logaddexp(L, s)
    return O * torch.exp(L - new)[..., None], new
