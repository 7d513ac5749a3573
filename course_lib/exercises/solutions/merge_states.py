"""Solution of merge_states."""

SOURCE = '''
def merge_states(
    m_a: torch.Tensor, l_a: torch.Tensor, o_a: torch.Tensor, m_b: torch.Tensor, l_b: torch.Tensor, o_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(m, l, o) over the keys of a and b together; m and l are [n], o is [n, d], not divided by l."""
    m = torch.maximum(m_a, m_b)
    shift = torch.where(m == -math.inf, 0.0, m)
    a, b = torch.exp(m_a - shift), torch.exp(m_b - shift)
    return m, l_a * a + l_b * b, o_a * a[:, None] + o_b * b[:, None]
'''

EXPLANATION = """
Only the state with the smaller maximum shrinks; the other factor is 1, and which is which may differ from query to query. An empty
set adds nothing of its own accord: exp(−∞ − m) = 0. Only where both are empty must the exponent be kept from −∞ − (−∞). Because a
merge takes and gives undivided states, it can be repeated in any order; the division by l comes once, at the end.
"""
