import math

import torch


def right_one_width_for_each_row(block, queries, keys):
    q = torch.zeros(3, 64)
    k, v = torch.zeros(block + 1, 64), torch.zeros(block + 1, 2)
    for i, (height, last) in enumerate(((-2000, 3), (-1200, -2), (-4000, -120))):
        q[i, i] = 8
        for j in range(block):
            k[j, i] = height + j / 4
        k[block, i] = height + block / 4 + last
    v[:, 0] = 70_000 * (-1.0) ** torch.arange(block + 1)
    v[:, 1] = torch.linspace(-8e4, 1e5, block + 1)
    return q, k, v


def right_by_least_squares(block, queries, keys):
    """Any q will do whose rows are independent: k follows from the scores that are wanted."""
    n_q, n_k = min(queries, 3), min(keys, 2 * block + 1) // block * block + 1
    torch.manual_seed(3)
    scores = torch.randn(n_q, n_k) / 4 + torch.tensor([[-1300.0], [-1500.0], [-1700.0]])
    scores[0, block:] += 2
    scores[1, block:] -= 1.5
    scores[2, block:] -= 150
    q = torch.linalg.qr(torch.randn(3, 3)).Q * math.sqrt(3)
    k = (torch.linalg.solve(q, scores) * math.sqrt(3)).T
    return [q, k, 3e5 * torch.randn(n_k, 4)]


def wrong_small_values(block, queries, keys):
    """fp16 holds them"""
    q, k, v = right_one_width_for_each_row(block, queries, keys)
    return q, k, v / 1e4


def wrong_shared_height(block, queries, keys):
    """share a maximum"""
    q, k, v = right_one_width_for_each_row(block, queries, keys)
    for i in range(3):
        k[:, i] -= k[block - 1, i] + 2000
    return q, k, v


def wrong_for_one_block_size(block, queries, keys):
    return right_one_width_for_each_row(4, queries, keys)
