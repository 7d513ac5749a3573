"""Solution of row_dot."""

SOURCE = '''
def row_dot(o: torch.Tensor, do: torch.Tensor, p: torch.Tensor, dp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(D [N], dS [N, n]), float32, from o, do [N, d] and a block p, dp [N, n] of P and dP."""
    D = (o.float() * do.float()).sum(dim=1)
    return D, p * (dp - D[:, None])
'''

EXPLANATION = r"""
$D_i = \sum_j P_{ij}\,dP_{ij}$ needs all keys. With $dP_{ij} = \sum_c dO_{ic} V_{jc}$ the two sums can change places:
$D_i = \sum_c dO_{ic} \sum_j P_{ij} V_{jc} = \sum_c dO_{ic}\,O_{ic}$. The forward pass has already summed over the
keys: $O$ is that sum. So $D$ is known before the first block, and each block of $dS$ can be finished alone. Over all
blocks each row of $dS$ sums to 0; over one block it need not.
"""
