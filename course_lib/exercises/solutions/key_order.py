"""Solution of key_order."""

SOURCE = '''
def key_order(vt: torch.Tensor) -> torch.Tensor:
    """V transposed [D, N] -> [D, N'], the keys of each 16 in the order in which the threads hold P."""
    filled = torch.nn.functional.pad(vt, (0, -vt.shape[1] % 16))
    return filled.unflatten(1, (-1, 2, 4, 2)).transpose(2, 3).flatten(1)
'''

EXPLANATION = """
A key of a group is 8h + 2t + i. Thread t holds all four with its t, in the order of h and i, so its place is 4t + 2h + i: h and t change
places. PV is a sum over keys, and as P and V are reordered alike, each product of the sum is still there. V is reordered once, when it is
rounded to 8 bits; P would have to be exchanged in every block. Missing keys get zeros where P's columns for them are, not at the end.
"""
