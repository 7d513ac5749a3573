from course_lib.kernels import tl, triton


@triton.jit
def _walk(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BUG: tl.constexpr,
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
    last = (s + 1) * each
    for slot in range(s * each, last if BUG == "uncut" else min(last, pages)):
        number = tl.load(table_ptr + b * slots + slot)
        inside = slot * PAGE + r < length
        at = (number * heads_k + h) * PAGE * D + r[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
        x = tl.sum(k[None, :, :] * q[:, None, :], 2) * scale
        x = tl.where(inside[None, :], x, -1e30)
        new = tl.maximum(m, tl.max(x) if BUG == "one maximum" else tl.max(x, 1))
        if BUG == "two passes":
            k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
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
def right_without_dot(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    _walk(q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale, G, D, PAGE, "")


@triton.jit
def wrong_last_split_to_its_own_end(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """reads the table behind"""
    _walk(q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale, G, D, PAGE, "uncut")


@triton.jit
def wrong_one_maximum_for_the_group(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    _walk(
        q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale, G, D, PAGE, "one maximum"
    )  # fmt: skip


@triton.jit
def wrong_k_is_loaded_again(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """K is loaded twice"""
    _walk(
        q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale, G, D, PAGE, "two passes"
    )  # fmt: skip


@triton.jit
def wrong_head_by_head(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """each head of a group walks over the keys for itself"""
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
        for slot in range(s * each, tl.minimum((s + 1) * each, pages)):
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
