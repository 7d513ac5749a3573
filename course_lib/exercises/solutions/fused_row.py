"""Solution of fused_row."""

SOURCE = '''
def fused_row(q: list[float], k: list[list[float]], v: list[list[float]]) -> list[float]:
    """softmax(q Kᵀ / √d) V for one query q [d], keys k [N][d] and values v [N][e], as a list of e floats."""
    m, l, o = -math.inf, 0.0, [0.0] * len(v[0])
    for key, value in zip(k, v):
        x = sum(a * b for a, b in zip(q, key)) / math.sqrt(len(q))
        new = max(m, x)
        correction, weight = math.exp(m - new), math.exp(x - new)
        l = l * correction + weight
        o = [y * correction + weight * z for y, z in zip(o, value)]
        m = new
    return [y / l for y in o]
'''

EXPLANATION = """
What is kept does not grow with N: m, ℓ and e sums. Each key and value is read once, as in the Online kernel, which
does the same for a block of queries and keys at a time. In Python it is a little slower than plain loops: it does e
multiplications more for each key, and nothing waits for memory. Fewer bytes are worth something where bytes are what a
run waits for.
"""
