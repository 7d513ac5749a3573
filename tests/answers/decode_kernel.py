from course_lib.kernels import tl, triton


@triton.jit
def right_without_dot(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    place, s = tl.program_id(0), tl.program_id(1)
    b, h = place // heads_k, place % heads_k
    d, r, g = tl.arange(0, D), tl.arange(0, PAGE), tl.arange(0, G)
    length = tl.load(lengths_ptr + b)
    pages = (length + PAGE - 1) // PAGE
    each = (pages + S - 1) // S
    head = (b * heads_k + h) * G + g
    q = tl.load(q_ptr + head[:, None] * D + d[None, :])
    m = tl.full([G], -1e30, tl.float32)
    l = tl.zeros([G], tl.float32)
    acc = tl.zeros([G, D], tl.float32)
    for slot in range(s * each, min((s + 1) * each, pages)):
        number = tl.load(table_ptr + b * slots + slot)
        inside = slot * PAGE + r < length
        at = (number * heads_k + h) * PAGE * D + r[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
        x = tl.sum(k[None, :, :] * q[:, None, :], 2) * scale
        x = tl.where(inside[None, :], x, -1e30)
        new = tl.maximum(m, tl.max(x, 1))
        p = tl.where(inside[None, :], tl.exp(x - new[:, None]), 0.0)
        old = tl.exp(m - new)
        v = tl.load(v_ptr + at, mask=inside[:, None], other=0.0)
        acc = acc * old[:, None] + tl.sum(p[:, :, None] * v[None, :, :], 1)
        l = l * old + tl.sum(p, 1)
        m = new
    out = s * B * heads_k * G + head
    some = tl.where(l == 0, 1.0, l)
    tl.store(o_ptr + out[:, None] * D + d[None, :], acc / some[:, None])
    tl.store(L_ptr + out, tl.where(l == 0, -float("inf"), m + tl.log(some)))


@triton.jit
def wrong_one_split_has_all(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    right_without_dot(
        q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, 1, scale, G, D, PAGE
    )
