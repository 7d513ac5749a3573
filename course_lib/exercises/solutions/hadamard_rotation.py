"""Solution of hadamard_rotation."""

SOURCE = '''
def hadamard_rotation(x: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """x [N, d] times diag(sign) · Hadamard / sqrt(d), stage by stage; d a power of two."""
    x, half = x * sign, 1
    while half < x.shape[1]:
        pairs = x.unflatten(1, (-1, 2, half))
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        x = torch.stack([a + b, a - b], dim=-2).flatten(1) / math.sqrt(2)
        half *= 2
    return x
'''

EXPLANATION = """
Each stage keeps a² + b², so it keeps the length of the row and every product of two rows. After log₂ d stages each result holds a part of
every number: one outlier is shared out among d places and is √d times smaller. The division can wait until the end, as 1/√d. The signs come
first because without them a row of equal numbers would *become* an outlier.
"""
