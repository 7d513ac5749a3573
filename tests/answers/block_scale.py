import numpy as np
import torch


def right_padded_with_numpy(x, block):
    n, d = x.shape
    filled = np.pad(x.numpy(), ((0, -n % block), (0, 0))).reshape(-1, block, d)
    scales = np.abs(filled).max(axis=(1, 2)) / np.float32(127)
    scales[scales == 0] = 1
    integers = np.rint(filled / scales[:, None, None]).reshape(-1, d)[:n]
    return torch.from_numpy(integers.astype(np.int8)), torch.from_numpy(scales)


def wrong_least_scale(x, block):
    tops = torch.stack([rows.abs().max() for rows in x.split(block)])
    scales = torch.where(tops == 0, torch.ones(()), (tops / 127).clamp(min=1e-12))
    return (x / scales.repeat_interleave(block)[: len(x), None]).round().to(torch.int8), scales
