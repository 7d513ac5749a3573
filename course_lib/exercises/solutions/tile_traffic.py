"""Solution of tile_traffic."""

SOURCE = '''
from course_lib.model.memory import HBMTensor, Memory


def tile_traffic(memory: Memory, A: HBMTensor, B: HBMTensor, C: HBMTensor, bm: int, bn: int) -> None:
    """C [m, n] = A [m, k] B [k, n] in tiles of bm × bn, each strip of A loaded once."""
    m, n = C.data.shape
    for i in range(0, m, bm):
        with memory.scope("strip of A"):
            a = memory.load(A[i : i + bm])  # [bm, k], stays
            for j in range(0, n, bn):
                with memory.scope("tile of C"):
                    b = memory.load(B[:, j : j + bn])  # [k, bn], passes
                    c = memory.tile("C_ij", memory.matmul(a, b))
                    memory.store(C[i : i + bm, j : j + bn], c)
'''

EXPLANATION = """
The loop of the lecture needs only tiles, whatever k is, and pays with ⌈n / bn⌉ readings of A. Here k has to fit, and bn no longer
decides how often anything is read: bm alone does, through ⌈m / bm⌉ readings of B. On a GPU the L2 can have the same effect without
being requested: programs that run at about the same time read the same strip of A, and those that come later may find it in the cache.
The structure is that of FlashAttention-2: a block of Q stays, K passes.
"""
