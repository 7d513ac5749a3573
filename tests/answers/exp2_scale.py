import math

import numpy as np
import torch

LOG2E = math.log2(math.e)


def right_with_numpy(s, d, slope):
    far = np.arange(len(s))[::-1].astype(np.float32)
    y = (s.numpy() / np.sqrt(d) - slope * far) * np.log2(np.e)
    p = np.exp2(y - y.max())
    return torch.from_numpy(p / p.sum()), float((y.max() + np.log2(p.sum())) / np.log2(np.e))


def wrong_powers_of_e_by_torch(s, d, slope):
    x = s / math.sqrt(d) - slope * torch.arange(len(s)).flip(0)
    p = torch.pow(math.exp2(LOG2E), x - x.max())
    return p / p.sum(), float(x.max() + torch.log(p.sum()))


def wrong_one_factor_for_all(s, d, slope):
    """scaled by 1 / √d, too"""
    y = (s - slope * torch.arange(len(s)).flip(0)) * (LOG2E / math.sqrt(d))
    p = torch.exp2(y - y.max())
    return p / p.sum(), float(y.max() * math.log(2) + torch.log(p.sum()))
