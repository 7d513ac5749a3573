import math

import torch


def right_number_by_number(x, cap, dy):
    t = [math.tanh(u / cap) for u in x.flatten().tolist()]
    slopes = [g * (1 - u) * (1 + u) for u, g in zip(t, dy.flatten().tolist())]
    return torch.tensor([cap * u for u in t]).reshape(x.shape), torch.tensor(slopes).reshape(x.shape)


def wrong_autograd_forward(x, cap, dy):
    return torch.func.jvp(lambda u: cap * torch.tanh(u / cap), (x,), (dy,))


def wrong_autograd_backward(x, cap, dy):
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        y = cap * torch.tanh(x / cap)
        y.backward(dy)
    return y.detach(), x.grad
