import math

import numpy as np
import torch

LOG2E = math.log2(math.e)


def right_with_numpy(s, d):
    y = s.numpy() * (np.log2(np.e) / np.sqrt(d))
    p = np.exp2(y - y.max())
    return torch.from_numpy(p / p.sum()), float((y.max() + np.log2(p.sum())) / np.log2(np.e))


def wrong_softmax_by_another_name(s, d):
    x = s / math.sqrt(d)
    return torch.special.softmax(x, 0), float(torch.special.logsumexp(x, 0))


def wrong_first_score_for_the_maximum(s, d):
    y = s * (LOG2E / math.sqrt(d))
    p = torch.exp2(y - y[0])
    return p / p.sum(), float(y[0] * math.log(2) + torch.log(p.sum()))
