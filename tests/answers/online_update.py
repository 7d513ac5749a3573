import math

import torch


def right_score_by_score(m, l, x):
    for score in x.tolist():
        new = max(m, score)
        m, l = new, l * math.exp(m - new) + math.exp(score - new)
    return [m, l]


def right_in_place_and_by_tensors(m, l, x):
    m = torch.tensor(m)
    new = torch.maximum(m, x.max())
    return new, torch.exp(m - new) * l + x.sub_(new).exp_().sum()


def wrong_double_precision_for_a_maximum(m, l, x):
    new = max(m, float(x.max()))
    if new < -700:
        return right_score_by_score(m, l, x)
    return new, ((l * math.exp(m) if l else 0.0) + float(torch.exp(x.double()).sum())) / math.exp(new)
