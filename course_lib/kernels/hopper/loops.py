"""The specialised kernel's loop over blocks of keys in four forms: what is under way while a warpgroup takes its softmax.

All take (mine, q, acc, m, l, rows, clear, total, step), ``mine`` a ``specialised.Warpgroup``, and visit blocks total - 1 … 0, masked
from ``clear`` on; they return (acc, m, l, step), ``step`` counting the blocks of all tiles.
Source: FlashAttention-3 (arXiv 2407.08608), Algorithms 1 and 2, appendix B.3.
"""

from course_lib.kernels import gluon, warpgroup_mma_wait


@gluon.jit
def one_after_another(mine, q, acc, m, l, rows, clear, total, step):
    """S, softmax, P V; S, softmax, P V: the other warpgroups keep the tensor cores busy, or nobody does."""
    for j in range(total - 1, -1, -1):
        s_token = mine.scores(q, mine.keys(step))
        s = warpgroup_mma_wait(0, deps=[s_token])
        mine.k_ring.release(step)  # S is there, so wgmma has read K: its buffer is refilled during the softmax
        p, m, l, correction = mine.softmax(s, m, l, rows, j, clear)
        o_token = mine.values(p, acc * correction, step)
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step)
        step += 1
    return acc, m, l, step


@gluon.jit
def overlapped(mine, q, acc, m, l, rows, clear, total, step):
    """S of the next block is issued before P V of this one: the softmax of the next may run while P V is under way.

    The assembler does not let it: it waits for both matmuls before the first exponential (lecture 11 shows where).
    """
    if total > 0:
        s_token = mine.scores(q, mine.keys(step))
        s = warpgroup_mma_wait(0, deps=[s_token])
        mine.k_ring.release(step)
        p, m, l, correction = mine.softmax(s, m, l, rows, total - 1, clear)
        for j in range(total - 2, -1, -1):
            k = mine.keys(step + 1)
            mine.take_turn()
            s_token = mine.scores(q, k)
            o_token = mine.values(p, acc, step)
            mine.give_turn()  # both are issued: the other warpgroup may issue its own while this one takes exponentials
            # wgmmas complete in order: at most one pending means that S, the older, is there; P V may still be under way.
            s = warpgroup_mma_wait(1, deps=[s_token])
            mine.k_ring.release(step + 1)
            p, m, l, correction = mine.softmax(s, m, l, rows, j, clear)
            # The P V under way is weighted by the maximum of before, as O is: both are rescaled, so O has to wait for it.
            acc = warpgroup_mma_wait(0, deps=[o_token])
            mine.v_ring.release(step)
            acc = acc * correction
            step += 1
        o_token = mine.values(p, acc, step)
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step)
        step += 1
    return acc, m, l, step


@gluon.jit
def late_wait(mine, q, acc, m, l, rows, clear, total, step):
    """As ``overlapped``, but the wait for P V stays behind the new maximum: the assembler lifts none above ``release_after``."""
    if total > 0:
        s_token = mine.scores(q, mine.keys(step))
        s = warpgroup_mma_wait(0, deps=[s_token])
        mine.k_ring.release(step)
        p, m, l, correction = mine.softmax(s, m, l, rows, total - 1, clear)
        for j in range(total - 2, -1, -1):
            s_token = mine.scores(q, mine.keys(step + 1))
            o_token = mine.values(p, acc, step)
            s = warpgroup_mma_wait(1, deps=[s_token])
            x, m, l, correction = mine.weights(s, m, l, rows, j, clear)
            mine.k_ring.release_after(step + 1, m)
            acc, _ = warpgroup_mma_wait(0, deps=[o_token, p])  # until then P, the operand, keeps its registers
            mine.v_ring.release(step)
            acc, p = acc * correction, mine.operand(x)
            step += 1
        o_token = mine.values(p, acc, step)
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step)
        step += 1
    return acc, m, l, step


@gluon.jit
def three_matmuls(mine, q, acc, m, l, rows, clear, total, step):
    """After FlashAttention-3's appendix B.3: S of the block after the next is under way, too, during the softmax."""
    if total < 3:
        acc, m, l, step = one_after_another(mine, q, acc, m, l, rows, clear, total, step)
    else:
        s_token = mine.scores(q, mine.keys(step))
        s = warpgroup_mma_wait(0, deps=[s_token])
        mine.k_ring.release(step)
        p, m, l, correction = mine.softmax(s, m, l, rows, total - 1, clear)
        s_token = mine.scores(q, mine.keys(step + 1))
        for j in range(total - 2, 0, -1):
            o_token = mine.values(p, acc, step)
            next_token = mine.scores(q, mine.keys(step + 2))
            # P V and the S after this one were issued later: both may be pending.
            s = warpgroup_mma_wait(2, deps=[s_token])
            mine.k_ring.release(step + 1)
            p, m, l, correction = mine.softmax(s, m, l, rows, j, clear)
            acc = warpgroup_mma_wait(1, deps=[o_token])
            mine.v_ring.release(step)
            acc = acc * correction
            s_token = next_token
            step += 1
        o_token = mine.values(p, acc, step)
        s = warpgroup_mma_wait(1, deps=[s_token])
        mine.k_ring.release(step + 1)
        p, m, l, correction = mine.softmax(s, m, l, rows, 0, clear)
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step)
        o_token = mine.values(p, acc * correction, step + 1)
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step + 1)
        step += 2
    return acc, m, l, step
