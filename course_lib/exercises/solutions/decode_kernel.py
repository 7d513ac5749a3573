"""Solution of decode_kernel."""

SOURCE = '''
@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):
    """O [S, B, H, D] and L [S, B, H], float32: the attention of one query a head over each split of a paged cache."""
    b, h, s = tl.program_id(0) // heads_k, tl.program_id(0) % heads_k, tl.program_id(1)
    rows, cols = tl.program_id(0) * G + tl.arange(0, G), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + cols[None, :])
    length = tl.load(lengths_ptr + b)
    used = tl.cdiv(length, PAGE)
    each = tl.cdiv(used, S)
    m = tl.full([G], -float("inf"), tl.float32)
    l = tl.zeros([G], tl.float32)
    acc = tl.zeros([G, D], tl.float32)
    for slot in range(s * each, tl.minimum((s + 1) * each, used)):
        page = tl.load(table_ptr + b * slots + slot)
        seen = slot * PAGE + tl.arange(0, PAGE) < length
        at = ((page * heads_k + h) * PAGE + tl.arange(0, PAGE))[:, None] * D + cols[None, :]
        k = tl.load(k_ptr + at, mask=seen[:, None], other=0.0)
        v = tl.load(v_ptr + at, mask=seen[:, None], other=0.0)
        x = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        x = tl.where(seen[None, :], x, -float("inf"))
        m_new = tl.maximum(m, tl.max(x, 1))
        p = tl.exp(x - m_new[:, None])
        correction = tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = tl.dot(p, v, acc * correction[:, None], input_precision="ieee")
        m = m_new
    l = tl.where(l == 0, 1.0, l)
    out = s * B * heads_k * G + rows
    tl.store(o_ptr + out[:, None] * D + cols[None, :], acc / l[:, None])
    tl.store(L_ptr + out, m + tl.log(l))
'''

EXPLANATION = """
Lecture 05's loop, with three changes. The rows of the tile are heads of one query, so a page is read once for all of them. The loop runs
over the pages of one split, and the table says where each lies. And the program leaves L beside its average, which is all that a merge
needs. Three masks say "no token here", for K, for the scores and for V: the scores' mask gives the weight 0, and V's keeps 0 · NaN away.
The course's kernel does the same with blocks of several pages, more queries than one, and the length checked.
"""
