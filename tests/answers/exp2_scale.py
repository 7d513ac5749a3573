import math

import numpy as np
import torch

LOG2E = math.log2(math.e)


def right_with_numpy(s, d, slope):
    far = np.arange(len(s))[::-1].astype(np.float32)
    y = (s.numpy() / np.sqrt(d) - slope * far) * np.log2(np.e)
    p = np.exp2(y - y.max())
    return torch.from_numpy(p / p.sum()), float((y.max() + np.log2(p.sum())) / np.log2(np.e))


def right_score_by_score(s, d, slope):
    m, l, kept = -math.inf, 0.0, []
    for j, x in enumerate(s.tolist()):
        y = LOG2E * (x / d**0.5 - slope * (len(s) - 1 - j))
        new = max(m, y)
        l, m = l * 2 ** (m - new) + 2 ** (y - new), new
        kept.append(y)
    return torch.tensor([2 ** (y - m) / l for y in kept]), math.log(2) * m + math.log(l)


def wrong_softmax_by_another_name(s, d, slope):
    x = s / math.sqrt(d) - slope * torch.arange(len(s)).flip(0)
    return torch.special.softmax(x, 0), float(torch.special.logsumexp(x, 0))


def wrong_powers_of_e_by_torch(s, d, slope):
    x = s / math.sqrt(d) - slope * torch.arange(len(s)).flip(0)
    p = torch.pow(math.exp2(LOG2E), x - x.max())
    return p / p.sum(), float(x.max() + torch.log(p.sum()))


def _row(y, m):
    p = torch.exp2(y - m)
    return p / p.sum(), float(m * math.log(2) + torch.log(p.sum()))


def wrong_maximum_of_the_scores(s, d, slope):
    """before the penalty"""
    y = s * (LOG2E / math.sqrt(d))
    return _row(y - slope * LOG2E * torch.arange(len(s)).flip(0), y.max())


def wrong_one_factor_for_all(s, d, slope):
    """scaled by 1 / √d, too"""
    y = (s - slope * torch.arange(len(s)).flip(0)) * (LOG2E / math.sqrt(d))
    return _row(y, y.max())


def wrong_positions_for_distances(s, d, slope):
    """from the first key"""
    y = s * (LOG2E / math.sqrt(d)) - slope * LOG2E * torch.arange(len(s))
    return _row(y, y.max())
