import torch


def right_one_by_one(table, lengths, page, sequence, token):
    found = []
    for b, t in zip(sequence.tolist(), token.tolist()):
        found.append(int(table[b, t // page]) * page + t % page if t < lengths[b] else -1)
    return torch.tensor(found)


def wrong_without_the_table(table, lengths, page, sequence, token):
    """it is the slot of the table"""
    return torch.where(token < lengths[sequence], token, -1)
