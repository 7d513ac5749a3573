"""Lecture 01: the bytes that a naive tiled matmul moves, counted before it runs."""

from course_lib.exercises.base import Exercise

ASKED = r"""
A is [m, k], B is [k, n] and C is [m, n], all float32 (4 bytes a number), in HBM. This loop nest computes $C = AB$ in tiles of
`block` × `block`. It keeps nothing in SRAM from one step to the next, not even the sum:

```python
for i in range(0, m, block):
    for j in range(0, n, block):
        for p in range(0, k, block):
            a = load(A[i : i + block, p : p + block])
            b = load(B[p : p + block, j : j + block])
            c = load(C[i : i + block, j : j + block]) if p > 0 else 0
            store(C[i : i + block, j : j + block], c + a @ b)
```

With m = n = 4, k = 8 and block = 4 it takes two steps: 128 bytes of A, 128 of B, and 192 of C (stored, loaded, stored). At the edges
a slice ends with its matrix, so the last tiles are smaller: they are not padded.

Count before anything runs. Return a dictionary with the keys `'A'`, `'B'` and `'C'`: for each matrix the bytes loaded and stored
together, as whole numbers. The check runs the nest on the simulated memory; your count has to be equal to the byte.
"""

STUB = '''
def count_bytes(m: int, n: int, k: int, block: int) -> dict[str, int]:
    """Bytes that the loop nest moves between HBM and SRAM: {'A': ..., 'B': ..., 'C': ...}."""
    ...
'''


EXERCISE = Exercise(
    name="count_bytes",
    lecture="01",
    title="count the bytes of a loop nest",
    level=2,
    minutes=10,
    core=True,
    asked=ASKED,
    stub=STUB,
    hints=(
        "Take one tile of A, at block row i and step p. For how many values of j is it loaded? Ask the same of a tile of B.",
        "All tiles of A together are A, ragged or not: m · k numbers. So A crosses as a whole, once for each block column of C.",
        "Each matrix as a whole, 4 · m · k bytes, say, times how often it crosses. With t steps along k, C is stored in "
        "each step; in which is it not loaded?",
    ),
)
