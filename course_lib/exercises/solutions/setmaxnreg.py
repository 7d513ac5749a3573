"""Solution of setmaxnreg."""

SOURCE = '''
def setmaxnreg(consumers: int, producer: int) -> int:
    """Registers per thread of each consumer, if the producer keeps so many per thread."""
    start = 512 // (consumers + 1) // 8 * 8
    share = ((consumers + 1) * start - producer) // consumers
    return min(256, share // 8 * 8)
'''

EXPLANATION = """
Rounding happens twice. At the start three warpgroups own 3 · 168 = 504 of 512, and the other 8 stay unused for good. Then the share is
rounded: with a producer that keeps 32, (504 − 32) / 2 = 236 becomes 232, and 8 more are left over. With 24 none are: 24 + 2 · 240 = 504.
A kernel that requests 240 beside a producer of 32 does not fail: it waits forever.
"""
