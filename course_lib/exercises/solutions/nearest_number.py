"""Solution of nearest_number."""

SOURCE = '''
def nearest_number(x: float, mantissa: int, lowest: int) -> float:
    """The number nearest to x > 0 of a format with so many mantissa bits and the smallest normal number 2^lowest."""
    power = max(math.frexp(x)[1] - 1, lowest)
    step = math.ldexp(1.0, power - mantissa)
    return round(x / step) * step
'''

EXPLANATION = """
A format is a ruler whose marks double their distance at each power of two, and keep it below the smallest normal
number. Rounding is then rounding to whole steps. No case is special: 1.99 rounds up to 2 by itself, and what is at
most half the smallest number becomes 0. math.frexp reads the exponent off the bits; log2 would round, and be wrong
just below a power of two.
"""
