"""Solution of page_lookup."""

SOURCE = '''
def page_lookup(
    table: torch.Tensor, lengths: torch.Tensor, page: int, sequence: torch.Tensor, token: torch.Tensor
) -> torch.Tensor:
    """The row of the pool of each token [n], -1 where its sequence has none; pages of ``page`` rows."""
    slot = (token // page).clamp(max=table.shape[1] - 1)
    rows = table[sequence, slot] * page + token % page
    return torch.where(token < lengths[sequence], rows, -1)
'''

EXPLANATION = """
36 // 16 = 2 is the slot, table[2] = 9 the page, 36 % 16 = 4 the row: 9 · 16 + 4 = 148. It is what an operating system does with a virtual
address. Only the length says where a sequence ends: its last page has rows behind the last token, and they may hold NaN, or what another
sequence left there.
"""
