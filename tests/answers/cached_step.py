import torch


def right_counted_from_one(q, k, v, keys, values, turn):
    position = 1 if keys is None else keys.shape[2] + 1
    keys = turn(k, position) if keys is None else torch.cat((keys, turn(k, position)), dim=2)
    values = v if values is None else torch.cat((values, v), dim=2)
    o = torch.nn.functional.scaled_dot_product_attention(turn(q, position), keys, values)
    return o, keys, values


def wrong_causal(q, k, v, keys, values, turn):
    """sees key 0 alone"""
    position = 0 if keys is None else keys.shape[2]
    keys = turn(k, position) if keys is None else torch.cat((keys, turn(k, position)), dim=2)
    values = v if values is None else torch.cat((values, v), dim=2)
    o = torch.nn.functional.scaled_dot_product_attention(turn(q, position), keys, values, is_causal=True)
    return o, keys, values


def wrong_forgets(q, k, v, keys, values, turn):
    o = torch.nn.functional.scaled_dot_product_attention(turn(q, 0), turn(k, 0), v)
    return o, k, v
