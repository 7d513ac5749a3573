import torch

ORDER = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15]


def right_from_the_bits(vt):
    n = vt.shape[1]
    filled = torch.hstack((vt, torch.zeros(vt.shape[0], -n % 16).to(vt.dtype)))
    place = torch.arange(filled.shape[1])
    return filled.index_select(1, (place & ~15) | ((place & 12) >> 1) | ((place & 2) << 2) | (place & 1))


def wrong_in_zeros_of_float32(vt):
    filled = torch.zeros(len(vt), -(-vt.shape[1] // 16) * 16)
    filled[:, : vt.shape[1]] = vt
    return filled.unflatten(1, (-1, 16))[:, :, ORDER].flatten(1).to(vt.dtype)
