import math

import numpy as np
import torch


def right_by_the_bits_of_the_place(x, sign):
    y = (x.numpy() * sign.numpy()).reshape(len(x), *[2] * (x.shape[1].bit_length() - 1))
    for axis in range(1, y.ndim):
        a, b = np.split(y, 2, axis)
        y = np.concatenate([a + b, a - b], axis)
    return torch.from_numpy(y.reshape(x.shape)) / math.sqrt(x.shape[1])


def wrong_unit_rows_rotated(x, sign):
    """if you multiply with the matrix"""
    return (x * sign) @ right_by_the_bits_of_the_place(torch.eye(x.shape[1]), torch.ones_like(sign))
