"""Lecture 05: a kernel with two mistakes."""

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness import watch

GIVEN = '''
@triton.jit
def debug_it(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """O [heads, n_q, D] of the heads of Q over those of K and V, which ``group`` heads of Q share."""
    head, rows, dims = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    q_at = (head * n_q + rows[:, None]) * D + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=rows[:, None] < n_q, other=0.0)
    acc, l = tl.zeros([BLOCK, D], tl.float32), tl.zeros([BLOCK], tl.float32)
    m = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, n_k, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        kv_at = (head % group * n_k + keys[:, None]) * D + dims[None, :]
        k = tl.load(k_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, -float("inf"))
        m_new = tl.max(s, 1)
        p, correction = tl.exp(s - m_new[:, None]), tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + q_at, acc / l[:, None], mask=rows[:, None] < n_q)
'''


def run(kernel, case):
    q, k, v, scale = case.args
    (heads, n_q, d), (kv_heads, n_k, _) = q.shape, k.shape
    o, group = torch.full_like(q, torch.nan), heads // kv_heads
    watch.launched(kernel, (-(-n_q // 16), heads), q, k, v, o, n_q, n_k, group, scale, D=d, BLOCK=16)
    return o


EXERCISE = Exercise(
    lecture="05",
    title="debug it",
    given=GIVEN,
    run=run,
    arguments=("Q", "K", "V", "scale"),
    compiles={"scale": "fp32", "D": 16, "BLOCK": 16},
    tolerance=1e-4,
    hints=(
        "The check tells the first case that fails. Which line treats the second head otherwise than the first? Work it out for four heads "
        "with group = 2, and write down which head of K each of them reads.",
        "The other mistake is correct on paper: in exact arithmetic this kernel would be right. Follow m through three blocks whose "
        "largest scores are 100, 0 and 0. What is the correction after the second?",
        "exp never overflows if its argument is never positive. Of exp(m − m_new) that holds only if m_new is at least m.",
    ),
)

# --- for teachers ---

HEAD, HEAD_GIVEN = "head // group", "head % group"
MAX, MAX_GIVEN = "m_new = tl.maximum(m, tl.max(s, 1))", "m_new = tl.max(s, 1)"
SOLUTION = GIVEN.replace(HEAD_GIVEN, HEAD).replace(MAX_GIVEN, MAX)
WHY = """
`head % group` deals the heads out in turns, and for a group of 1 it gives all of them head 0; `head // group` gives neighbours the same
head. With one head both are 0. The block's own maximum is right on paper, because the correction may go up as well as down; in fp32 it
overflows as soon as a block lies 89 below the one before. Random scores hardly ever do that, so more random tests would not have found
it: it takes a spike that comes early.
"""


def cases(draw):
    def case(words, heads, kv_heads, n_q, n_k, spiked=slice(0), spike=0):
        q, k, v = torch.randn(heads, n_q, 16), *torch.randn(2, kv_heads, n_k, 16)
        q[:, :, 0], k[:, spiked, 0] = 4, spike
        return Case(words, (q, k, v, 0.25))

    yield case("the author's test: one head of random numbers", 1, 1, 20, 40)
    yield case("four heads share two of K and V", 4, 2, 16, 20)
    yield case("two heads, each with its own K and V", 2, 2, 17, 16)
    yield case("a late spike", 1, 1, 16, 40, 38, 150)
    yield case("an early spike", 1, 1, 16, 40, 3, 150)
    yield case("all scores near −200", 2, 1, 16, 33, slice(None), -200)
    uneven = case("one query 200 times as large as the others", 1, 1, 16, 40)
    uneven.args[0][0, 3] *= 200
    yield uneven
    kv_heads, group = draw.randint(1, 2), draw.randint(1, 3)
    yield case("any sizes", kv_heads * group, kv_heads, draw.randint(1, 40), draw.randint(1, 40))


def expected(q, k, v, scale):
    """In float64, with K and V copied for each head of Q."""
    k, v = (x.double().repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    return (torch.softmax(q.double() @ k.mT * scale, -1) @ v).float()


M = 'm = tl.full([BLOCK], -float("inf"), tl.float32)'
WRONG = {
    "if one mistake is mended: heads still read keys and values that belong to others": (HEAD, HEAD_GIVEN),
    "if one mistake is mended: the other still shows once a spike has passed": (MAX, MAX_GIVEN),
    "if both mistakes are left": (HEAD, HEAD_GIVEN, MAX, MAX_GIVEN),
    "if heads take K and V in turns, 0, 1, 0, 1: neighbours share, 0, 0, 1, 1": (HEAD, "head % (tl.num_programs(1) // group)"),
    "if no maximum is subtracted: large scores overflow, and those far below 0 vanish": (MAX, "m_new = tl.zeros([BLOCK], tl.float32)"),
    "if m starts at 0: where all scores lie far below, the row is 0/0": (M, "m = tl.zeros([BLOCK], tl.float32)"),
}  # fmt: skip
