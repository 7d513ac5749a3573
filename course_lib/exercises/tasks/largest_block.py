"""Lecture 01: the largest block of keys whose tiles fit in SRAM."""

from course_lib.exercises.base import Exercise

ASKED = r"""
An H100 gives one program 227 KiB of SRAM: 232,448 bytes. One step of flash attention needs five tiles at once:

- $Q_i$ [block_m, d], $K_j$ and $V_j$ [block_n, d], in fp16, 2 bytes a number;
- $S_{ij}$ [block_m, block_n] and the accumulator $O_i$ [block_m, d], in fp32, 4 bytes a number. $P_{ij}$ takes the place of $S_{ij}$.

This is the model of this page, with all five in SRAM. Kernels for an H100 keep $S_{ij}$ and $O_i$ in registers (lectures 05 and 10).

With block_m = 128 and d = 128, block_n = 128 takes 229,376 bytes and fits; 256 takes 360,448 and does not.

Return the largest block_n for `sram_bytes` bytes of SRAM, as a whole number: a power of two (1, 2, 4, 8 …), or 0 if not even one
key fits. Tiles that fill SRAM to the last byte fit. The check doubles block_n on the simulated memory until that refuses.
"""

STUB = '''
def largest_block(sram_bytes: int, block_m: int, d: int) -> int:
    """The largest block_n, a power of two, whose five tiles fit in sram_bytes; 0 if there is none."""
    ...
'''


EXERCISE = Exercise(
    name="largest_block",
    lecture="01",
    title="the largest block that fits",
    level=1,
    minutes=5,
    asked=ASKED,
    stub=STUB,
    hints=(
        "Write down the bytes of the five tiles. Which of them do not depend on block_n?",
        "Q and O take 6 · block_m · d bytes. Each key takes 2d + 2d bytes in K and V, and one column of S: 4 · block_m bytes.",
        "So (sram_bytes − fixed part) // (bytes for a key) keys have room. Which power of two is the last that does not exceed "
        "it, and what if not one key has room?",
    ),
)
