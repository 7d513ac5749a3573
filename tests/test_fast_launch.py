"""Launches that are repeated: the same results from other memory, streams, threads and graphs, and nothing stale."""

import threading
from types import SimpleNamespace

import pytest
import torch

from course_lib import attention as module
from course_lib import runtime
from course_lib.attention import attention
from course_lib.kernels import fast_launch

pytestmark = pytest.mark.kernel
DEVICE, GPU = runtime.device(), runtime.mode() == "GPU"
needs_gpu = pytest.mark.skipif(not GPU, reason="the interpreter launches nothing")
# Shapes of the portable kernels and, on a Hopper GPU, of the specialised one, whose programs count tiles.
SHAPES = [(2, 4, 100, 40), (2, 32, 1000, 128), (4, 64, 1000, 64)]


def inputs(shape, dtype=torch.float16, grouped=False):
    few = (shape[0], shape[1] // 2 if grouped else shape[1], *shape[2:])
    return [torch.randn(x, device=DEVICE).to(dtype) for x in (shape, few, few)]


def anew(q, k, v, do, dL=None, **options):
    """(o, L, dq, dk, dv) by launchers that Triton's own way launches."""
    asked = module.attention_options(
        q, k, v, options.get("causal", False), options.get("scale"), options.get("softcap"), 0
    )
    o, L = module.launch_forward(q, k, v, *asked)
    return o, L, *module.launch_backward(q, k, v, o, L, do, dL, *asked, options.get("deterministic", False))


def ours(q, k, v, do, dL=None, **options):
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o, L = attention(*leaves, return_lse=True, **options)
    return (
        o.detach(),
        L.detach(),
        *torch.autograd.grad([o, L] if dL is not None else [o], leaves, [do, dL][: 1 + (dL is not None)]),
    )


def same(found, right) -> bool:
    """The same bits; of dq, which a Hopper GPU adds up in any order, the same numbers up to rounding."""
    (*one, dq, dk, dv), (*other, right_dq, right_dk, right_dv) = found, right
    torch.testing.assert_close(dq, right_dq, atol=2e-3, rtol=2e-3)
    return all(torch.equal(x, y) for x, y in zip([*one, dk, dv], [*other, right_dk, right_dv], strict=True))


@needs_gpu
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_a_repeated_launch_is_the_launch(shape, causal) -> None:
    x = torch.randn(shape, device=DEVICE).half()
    for _ in range(2):
        ours(x, x, x, x, causal=causal)  # noted with one tensor as all of them
    for grouped in (False, True):
        for _ in range(4):  # each time other memory; the second is noted, then it is repeated
            q, k, v = inputs(shape, grouped=grouped)
            do, dL = torch.randn_like(q), torch.randn(shape[:3], device=DEVICE)
            assert same(ours(q, k, v, do, causal=causal), anew(q, k, v, do, causal=causal))
            assert same(ours(q, k, v, do, dL, causal=causal), anew(q, k, v, do, dL, causal=causal))
            with torch.no_grad():
                assert torch.equal(attention(q, k, v, causal=causal), anew(q, k, v, do, causal=causal)[0])
    plans = [plan for (kinds, *_), plan in module._plans.items() if kinds[0][0] == shape]
    tapes = [tape for plan in plans for x in (plan.forward, *plan.backward) for tape in x.tapes.values()]
    assert len(tapes) >= 6
    assert all(tape.repeatable for tape in tapes)


@needs_gpu
def test_other_strides_and_alignments_are_other_launches() -> None:
    for shape in SHAPES:
        plain = inputs(shape)
        do = torch.randn_like(plain[0])
        right = anew(*plain, do)
        b, h, n, d = shape
        packed = torch.empty(b, n, 3, h, d, device=DEVICE, dtype=torch.float16)
        views = [part.transpose(1, 2) for part in packed.unbind(2)]
        room = torch.empty(packed.numel() + 1, device=DEVICE, dtype=torch.float16)[1:]
        odd = [part.view(shape) for part in room.chunk(3)]  # begins on 2 bytes
        for copies in (plain, views, odd) * 3:
            for copy, x in zip(copies, plain):
                copy.copy_(x)
            for x, y in zip(ours(*copies, do), right):
                torch.testing.assert_close(x.float(), y.float(), atol=4e-3, rtol=1e-2)
        spread = do.mean((2, 3), keepdim=True).expand(shape)  # a gradient without memory of its own
        for _ in range(3):
            assert same(ours(*plain, spread), anew(*plain, spread))


@needs_gpu
def test_streams_and_threads_do_not_share_a_counter() -> None:
    shape = SHAPES[1]
    many = [inputs(shape) for _ in range(8)]
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


@needs_gpu
def test_graphs_of_one_stream_run_side_by_side() -> None:
    shape = SHAPES[1]
    many = [inputs(shape) for _ in range(4)]
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


@needs_gpu
def test_a_copy_on_the_way_is_not_lost() -> None:
    q, k, v = inputs(SHAPES[0])
    for _ in range(4):
        do = torch.randn((*SHAPES[0][:3], 80), device=DEVICE).half()[..., ::2]  # the backward pass copies it
        assert same(ours(q, k, v, do), anew(q, k, v, do.contiguous()))


def test_arguments_that_compare_equal_are_told_apart() -> None:
    q, k, v = inputs((1, 1, 4, 16), torch.float32)
    for _ in range(2):
        attention(q, k, v, causal=True, causal_offset=1, scale=1.0, softcap=1.0)
    for options, error in (
        ({"causal": 1}, TypeError),
        ({"causal": True, "causal_offset": True}, TypeError),
        ({"causal": True, "causal_offset": 1.0}, TypeError),
        ({"causal": [True]}, TypeError),
        ({"scale": True}, TypeError),
        ({"softcap": True}, TypeError),
    ):
        with pytest.raises(error, match=r"causal|scale|softcap"):
            attention(q, k, v, **options)
    with pytest.raises(TypeError, match=r"q is torch\.float32 but k is torch\.float16"):
        attention(q, k.half(), v)
    with pytest.raises(TypeError, match=r"q has layout torch\.sparse_coo"):
        attention(q.to_sparse(), k, v)


@pytest.mark.parametrize("of", ["o", "L", "both"])
def test_gradients_of_either_output_alone(of) -> None:
    leaves = [x.requires_grad_() for x in inputs((1, 2, 9, 16), torch.float32)]
    o, L = attention(*leaves, return_lse=True)
    loss = (0.0 if of == "L" else o.sin().sum()) + (0.0 if of == "o" else L.cos().sum())
    exact = [x.detach().double().requires_grad_() for x in leaves]
    s = exact[0] @ exact[1].mT / 4
    right_o, right_L = s.softmax(-1) @ exact[2], s.logsumexp(-1)
    right = (0.0 if of == "L" else right_o.sin().sum()) + (0.0 if of == "o" else right_L.cos().sum())
    wanted = torch.autograd.grad(right, exact, allow_unused=True)
    for x, y in zip(torch.autograd.grad(loss, leaves), wanted):
        torch.testing.assert_close(x.double(), torch.zeros_like(x).double() if y is None else y, atol=1e-5, rtol=1e-4)


def test_gradients_of_gradients_are_refused() -> None:
    q, k, v = (x.requires_grad_() for x in inputs((1, 1, 4, 16), torch.float32))
    (first,) = torch.autograd.grad(attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        first.sum().backward()


def test_saved_tensors_may_come_back_in_another_layout() -> None:
    """As hooks that keep them elsewhere, or compressed, may do."""
    q, k, v = (x.requires_grad_() for x in inputs((2, 2, 5, 16), torch.float32))
    right = torch.autograd.grad(attention(q, k, v).sum(), [q, k, v])
    for layout in (lambda x: x.transpose(1, 2).contiguous().transpose(1, 2), torch.clone):
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x, f=layout: f(x) if x.dim() == 4 else x):
            found = torch.autograd.grad(attention(q, k, v).sum(), [q, k, v])
        for x, y in zip(found, right):
            torch.testing.assert_close(x, y)


def test_a_launcher_may_cut_what_it_has_made_into_several() -> None:
    x = torch.empty(8)
    tape = fast_launch._Tape([x])
    tape.counter, (first, second) = None, (made := torch.empty(10)).split((6, 4))
    tape.tensors.append(made)
    assert [tape.place(part) for part in (x, made, first, second)] == [(0, 0), (1, 0), (1, 0), (1, 24)]
    assert tape.place(x.view(2, 4)) == (0, 0)
    assert tape.place(x[1:]) is None  # of an input: it may begin elsewhere in the next call
    assert tape.place(torch.empty(10)) is None


@pytest.mark.parametrize("style", ["3.6", "3.7"])
def test_what_triton_s_launcher_is_handed(style) -> None:
    """Grid, stream, function and options, then each argument, a descriptor as its map, shape and strides."""
    handed = []

    def launcher(*args):
        handed.append(args)

    def wrapper(*args):  # Triton's own makes the maps anew
        raise AssertionError(launcher)

    run = SimpleNamespace(
        launch=wrapper, launch_cooperative_grid=False, launch_pdl=True, global_scratch_size=0, profile_scratch_size=0,
    )  # fmt: skip
    if style == "3.7":
        run.arg_annotations, run.kernel_signature = "annotations", b"signature"
    compiled = SimpleNamespace(
        run=run, function=99, packed_metadata=(4, 1, 0), metadata=SimpleNamespace(tensordesc_meta=[{}])
    )
    x, y = torch.empty(2, 3), torch.empty(4)
    descriptor = SimpleNamespace(base=x, shape=[2, 3], strides=[3, 1], padding="zero")
    places = {x: (1, 0), y: (0, 16)}  # y begins 16 bytes into what has the first address
    launch = fast_launch._Launch(compiled, (5,), [descriptor, y, 0.5, 64], places.get)
    launch.maps[0][2][1000] = "map"
    launch(7, [2000, 1000])
    arguments = ("map", 2, 3, 3, 1, 2016, 0.5, 64)
    if style == "3.7":
        expected = (5, 1, 1, 7, 99, False, True, (4, 1, 0), None, None, None, None, None, "annotations", b"signature")
        assert handed == [(*expected, list(arguments))]
    else:
        assert handed == [(5, 1, 1, 7, 99, False, True, None, None, (4, 1, 0), None, None, None, *arguments)]
