"""Solution of phase_of."""

SOURCE = '''
def phase_of(n: int, buffers: int) -> tuple[int, int, int]:
    """(buffer, phase of full, phase of empty) for tile n of a ring."""
    phase = n // buffers % 2
    return n % buffers, phase, phase ^ 1
'''

EXPLANATION = """
Nobody stores a phase: it follows from the number of the tile. *full* and *empty* of a buffer complete one phase in each round, so the
consumer of round r waits for phase r mod 2. The producer of round r waits for the consumers of round r − 1, the opposite phase. In round 0
that would be round −1, and a fresh barrier lets it pass: the first tiles need no special case.
"""
