"""Solution of beside_matmul."""

SOURCE = '''
def beside_matmul(loop: list[str]) -> tuple[int, int, int]:
    """(powers of two issued while a matmul is under way, while two or more are, all powers of two) of an iteration."""
    groups, begun = 0, False
    for _ in range(10):  # of what is under way at the end the next iteration knows
        beside = both = total = 0
        for line in loop:
            if "GMMA." in line:
                begun = "gsb0" not in line
                groups += not begun
            elif "DEPBAR" in line:
                groups = min(groups, int(line.split()[-1], 16))
            elif "MUFU.EX2" in line:
                total += 1
                beside += groups + begun > 0
                both += groups + begun > 1
    return beside, both, total
'''

EXPLANATION = """
That is how the page read its table: 16 × HGMMA, wait(1), wait(0), 66 × MUFU.EX2 hides nothing, 8 × QGMMA, wait(1), 67 × MUFU.EX2, wait(0)
hides all. A loop has no first line. A matmul that is issued at its end and waited for at its beginning runs beside what stands between,
and on paper nothing stands there. What the code allows is not yet what happens: a matmul may be done long before its wait.
"""
