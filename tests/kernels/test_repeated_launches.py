"""Launches that are repeated: the same results from other memory, streams, threads and graphs, and nothing stale."""

import threading

import pytest
import torch
from rule import DEVICE, heads

from course_lib import runtime
from course_lib.attention import attention

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(runtime.mode() != "GPU", reason="the interpreter launches nothing"),
]
# Shapes of the portable kernels and, on a Hopper GPU, of the specialised one, whose programs count tiles.
SHAPES = [(2, 4, 100, 40), (2, 32, 1000, 128), (4, 64, 1000, 64)]


def inputs(shape, grouped=False):
    b, h, n, d = shape
    return heads(b, h, h // 2 if grouped else h, n, n, d, torch.float16)


def anew(q, k, v, do, dL=None, causal=False):
    """(o, L, dq, dk, dv) by the operators, which Triton's own way launches."""
    options = (causal, 0, q.shape[3] ** -0.5, 0.0)
    o, L = torch.ops.course.attention_forward.default(q, k, v, *options)
    dL = torch.zeros_like(L) if dL is None else dL
    return o, L, *torch.ops.course.attention_backward.default(q, k, v, o, L, do, dL, *options)


def check(q, k, v, do, dL=None, causal=False) -> None:
    """o and L to the bit; gradients, whose sums a Hopper GPU adds up in any order, up to rounding."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    outputs = attention(*leaves, causal=causal, return_lse=True)
    back = [do, dL]
    asked = 1 if dL is None else 2
    found = [*outputs, *torch.autograd.grad(outputs[:asked], leaves, back[:asked])]
    right = anew(q, k, v, do, dL, causal)
    assert all(map(torch.equal, found[:2], right[:2]))
    for x, y in zip(found[2:], right[2:]):
        torch.testing.assert_close(x, y, atol=4e-3, rtol=1e-2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_a_repeated_launch_is_the_launch(shape, causal) -> None:
    x = torch.randn(shape, device=DEVICE).half()
    for _ in range(2):
        check(x, x, x, x, causal=causal)  # noted with one tensor as all of them
    for grouped in (False, True):
        for _ in range(4):  # each time other memory; the second is noted, then it is repeated
            q, k, v = inputs(shape, grouped=grouped)
            check(q, k, v, torch.randn_like(q), causal=causal)
            check(q, k, v, torch.randn_like(q), torch.randn(shape[:3], device=DEVICE), causal)
            with torch.no_grad():
                assert torch.equal(attention(q, k, v, causal=causal), anew(q, k, v, q, causal=causal)[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_other_strides_and_alignments_are_other_launches(shape) -> None:
    plain, (b, h, n, d) = inputs(shape), shape
    do = torch.randn_like(plain[0])
    packed = torch.empty(b, n, 3, h, d, device=DEVICE, dtype=torch.float16)
    views = [part.transpose(1, 2) for part in packed.unbind(2)]
    room = torch.empty(packed.numel() + 1, device=DEVICE, dtype=torch.float16)[1:]
    odd = [part.view(shape) for part in room.chunk(3)]  # begins on 2 bytes
    for copies in (plain, views, odd) * 3:
        for copy, x in zip(copies, plain):
            copy.copy_(x)
        check(*copies, do)
    spread = do.mean((2, 3), keepdim=True).expand(shape)  # a gradient without memory of its own
    every_other = torch.randn((*shape[:3], 2 * d), device=DEVICE).half()[..., ::2]  # the backward pass copies it
    for gradient in (spread, every_other) * 3:
        check(*plain, gradient)


def test_streams_and_threads_do_not_share_a_counter() -> None:
    many = [inputs(SHAPES[1]) for _ in range(8)]
    rights = [anew(*x, x[0])[0] for x in many]
    torch.cuda.synchronize()
    wrong = []

    def work(x, right):
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            found = [attention(*x) for _ in range(50)]
            torch.cuda.current_stream().synchronize()
        wrong.extend(i for i, y in enumerate(found) if not torch.equal(y, right))

    threads = [threading.Thread(target=work, args=(x, right)) for x, right in zip(many, rights)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert wrong == []


def test_graphs_of_one_stream_run_side_by_side() -> None:
    many = [inputs(SHAPES[1]) for _ in range(4)]
    rights = [anew(*x, x[0])[0] for x in many]
    for _ in range(2):
        attention(*many[0])
    torch.cuda.synchronize()
    graphs, outputs, stream = [], [], torch.cuda.Stream()
    for x in many:
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1], stream=stream), torch.no_grad():
            outputs.append([attention(*x) for _ in range(3)])
    for _ in range(20):
        for graph in graphs:
            with torch.cuda.stream(torch.cuda.Stream()):
                graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(o, right) for found, right in zip(outputs, rights) for o in found)
