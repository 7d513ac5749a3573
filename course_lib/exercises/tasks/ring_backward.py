"""Lecture 13: one rank of the backward pass of a ring."""

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness.ranks import Ranks, attend, told


def run(function, case):
    """What went wrong with the messages, the gradients by rank, and how often each rank has posted."""
    count, q, k, v, do = case.args
    o, L = attend(*(x.float() for x in (q, k, v)))
    group = Ranks.of(function, count, q, k, v, o, L, do, attends=False)
    return told(group.trouble, {"gradients": group.results(), "posts": [x.count("post") for x in group.seen]})


EXERCISE = Exercise(
    lecture="13",
    title="gradients that travel home",
    run=run,
    tolerance=1e-4,
    parts=("dq", "dk", "dv"),
    arguments=("ranks", "q of all tokens", "k", "v", "do"),
    forbidden=("parallel.blocks.backward",),
    hints=(
        "The loop runs `ranks` times: compute with the keys that are there, add to the dK and dV that came with them, pass on all four.",
        "Begin with q, k, v, do in float() for the arithmetic, and dk = dv = zeros in float32. After the last post and wait "
        "the dk and dv here are those of this rank's keys.",
        "One block of lecture 07's Algorithm 2, in float32, with the L and O of all keys. dq grows at home; dk and dv are those "
        "that came with the keys, and go on with them. After how many posts are they home?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def ring_backward(rank: int, ranks: int, q, k, v, o, L, do):
    """A generator: (dq, dk, dv) of this rank's tokens, float32 [heads, c, d]."""
    q, do, root = q.float(), do.float(), q.shape[-1] ** 0.5
    D = (do * o).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(q), torch.zeros_like(q)
    for _ in range(ranks):
        p = (q @ k.float().mT / root - L[..., None]).exp()
        ds = p * (do @ v.float().mT - D)
        dq = dq + ds @ k.float() / root
        dk, dv = dk + ds.mT @ q / root, dv + p.mT @ do
        coming = yield ("post", k, v, dk, dv)
        yield ("wait",)
        k, v, dk, dv = coming
    return dq, dk, dv
'''
WHY = """
The weights of a block are final because L is that of all keys; with the block's own L each block's weights would sum to 1. What stays is
summed where it stays (dQ), what travels is summed on its way (dK, dV), and it needs one hop more than the keys: the last one brings it
home. The library saves that hop for its own part, sends sums a step behind their keys, and so hides them, too.
"""


def cases(draw):
    def tensors(heads, tokens, d):
        return [torch.randn(heads, tokens, d).bfloat16() for _ in range(4)]

    yield Case("one rank, three tokens", (1, *tensors(1, 3, 4)))
    yield Case("two ranks of two tokens", (2, *tensors(1, 4, 4)))
    yield Case("three ranks, two heads", (3, *tensors(2, 6, 4)))
    q, *others = tensors(1, 16, 16)
    yield Case("eight ranks, scores times four", (8, q * 4, *others))


def expected(ranks, q, k, v, do):
    """Autograd's gradients of the whole, in float64."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    found = torch.autograd.grad(attend(*leaves)[0], leaves, do.double())
    gradients = zip(*(x.float().chunk(ranks, dim=1) for x in found))
    return told("", {"gradients": list(gradients), "posts": [ranks] * ranks})


BLOCK, COMING = "    for _ in range(ranks):\n", "        k, v, dk, dv = coming\n"
POST, DK, DV = '        coming = yield ("post", k, v, dk, dv)\n', "ds.mT @ q / root", "p.mT @ do"
SUMS = f"dk, dv = dk + {DK}, dv + {DV}"
WRONG = {
    "if each block's weights are divided by that block's own sum: L is that of all keys": (" - L[..., None]).exp()", ").softmax(-1)"),
    "if the ring stops one hop short: dK and dV end with the rank before their own":
        ("for _ in", "for step in", POST, f"        if step == ranks - 1:\n            break\n{POST}"),
    "if dK and dV are rounded to bf16 at each rank: they are sums of many parts":
        (SUMS, f"{SUMS}\n        dk, dv = dk.bfloat16().float(), dv.bfloat16().float()"),
    "if a rank's part replaces the dK and dV that came: it adds to them": (SUMS, f"dk, dv = {DK}, {DV}"),
    "if dK and dV stay while their keys travel: they collect what belongs to other keys":
        (POST, POST.replace(", dk, dv", ""), COMING, COMING.replace(", dk, dv", "")),
    "if dK and dV are posted before this rank has added its part: with sums that travel the post comes last":
        (POST, "", BLOCK, BLOCK + POST),
}  # fmt: skip
