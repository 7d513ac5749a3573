from course_lib.kernels import tl, triton


@triton.jit
def right_without_dot(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    place, s = tl.program_id(0), tl.program_id(1)
    b, h = place // heads_k, place % heads_k
    d, r = tl.arange(0, D), tl.arange(0, PAGE)
    length = tl.load(lengths_ptr + b)
    pages = (length + PAGE - 1) // PAGE
    each = (pages + S - 1) // S
    for g in range(G):
        head = h * G + g
        q = tl.load(q_ptr + (b * heads_k * G + head) * D + d)
        m = -float("inf")
        l = 0.0
        acc = tl.zeros([D], tl.float32)
        for slot in range(s * each, min((s + 1) * each, pages)):
            number = tl.load(table_ptr + b * slots + slot)
            inside = (slot * PAGE + r < length)[:, None]
            at = (number * heads_k + h) * PAGE * D + r[:, None] * D + d[None, :]
            k = tl.load(k_ptr + at, mask=inside, other=0.0)
            x = tl.where(slot * PAGE + r < length, tl.sum(k * q[None, :], 1) * scale, -float("inf"))
            new = tl.maximum(m, tl.max(x, 0))
            p = tl.exp(x - new)
            old = tl.exp(m - new)
            v = tl.load(v_ptr + at, mask=inside, other=0.0)
            acc = acc * old + tl.sum(p[:, None] * v, 0)
            l = l * old + tl.sum(p, 0)
            m = new
        out = (s * B + b) * heads_k * G + head
        tl.store(o_ptr + out * D + d, acc / tl.where(l == 0, 1.0, l))
        tl.store(L_ptr + out, tl.where(l == 0, -float("inf"), m + tl.log(tl.where(l == 0, 1.0, l))))


@triton.jit
def wrong_all_slots(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(1)
    out = s * B * heads_k * G + tl.program_id(0) * G + tl.arange(0, G)
    tl.store(o_ptr + out[:, None] * D + tl.arange(0, D)[None, :], tl.zeros([G, D], tl.float32))
    tl.store(L_ptr + out, tl.zeros([G], tl.float32))
