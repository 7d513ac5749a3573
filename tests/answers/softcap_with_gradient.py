import math

import torch


def right_number_by_number(x, cap, dy):
    t = [math.tanh(u / cap) for u in x.flatten().tolist()]
    slopes = [g * (1 - u) * (1 + u) for u, g in zip(t, dy.flatten().tolist())]
    return torch.tensor([cap * u for u in t]).reshape(x.shape), torch.tensor(slopes).reshape(x.shape)


def wrong_tanh_from_a_sigmoid(x, cap, dy):
    t = 2 * torch.sigmoid(2 * x / cap) - 1
    return cap * t, dy * (1 - t * t)


def wrong_autograd_turned_on(x, cap, dy):
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        y = cap * torch.tanh(x / cap)
        (dx,) = torch.autograd.grad(y, x, dy)
    return y.detach(), dx


def wrong_autograd_as_a_function(x, cap, dy):
    y, backward = torch.func.vjp(lambda u: cap * torch.tanh(u / cap), x)
    return y, backward(dy)[0]


def wrong_two_dimensions_at_most(x, cap, dy):
    y, dx = torch.zeros_like(x), torch.zeros_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1] if x.dim() > 1 else 1):
            at = (i, j) if x.dim() > 1 else (i,)
            t = math.tanh(float(x[at]) / cap)
            y[at], dx[at] = cap * t, float(dy[at]) * (1 - t * t)
    return y, dx
