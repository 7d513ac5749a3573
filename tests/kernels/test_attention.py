"""attention(): forward and backward against float64, every option, torch.compile, and every refusal."""

import math
import re
from pathlib import Path

import pytest
import torch
from rule import DEVICE, EPS, ROOM, definition, hard, heads, held

from course_lib import runtime
from course_lib.attention import attention
from course_lib.instruments import measure

pytestmark = pytest.mark.kernel
GPU = runtime.mode() == "GPU"
DTYPES = [torch.float32, torch.float16] + ([torch.bfloat16] if GPU else [])
HEADS = [(1, 1, 1), *([(2, 4, 4), (2, 4, 1)] if GPU else [(2, 2, 1)])]  # batch, heads of q, heads of k and v
LENGTHS = [(1, 1), (17, 64), (113, 17), (64, 128), (128, 113)]  # in the interpreter the first three with several heads
LENGTHS += [(128, 203), (203, 256), (256, 339), (339, 1), (339, 339)] if GPU else []
SIZES = [32, 40, 64, 96, 128] if GPU else [32, 40]


def run(function, tensors, do, **options):
    """(o, dq, dk, dv) of a function of q, k, v."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    o = function(*leaves, **options)
    o = o[0] if isinstance(o, tuple) else o
    return [o.detach(), *torch.autograd.grad(o, leaves, do.to(o.dtype))]


def check(q, k, v, **options) -> None:
    do = torch.randn(q.shape, device=q.device).to(q.dtype)
    right = dict(options)
    right["offset"] = right.pop("causal_offset", 0)
    doubles = [x.double() for x in (q, k, v)]
    exact, usual = run(definition, doubles, do, **right), run(definition, [q, k, v], do, **right)
    # Scores and dP are sums in fp32 in some order. Moving each score by one rounding moves p, and all that follows, in
    # proportion. dP and D are such sums, too, of parts of up to |dO||V|ᵀ; one rounding of each moves dQ by P|K| and dK by
    # Pᵀ|Q| of them, however much dP - D cancels.
    keys, values = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT for x in doubles[1:])
    room = ROOM[q.dtype] + EPS * float((doubles[0] @ keys).abs().max()) / math.sqrt(q.shape[-1])
    back = (do.double().abs() @ values.abs()).max() * 2 * EPS * (options.get("scale") or 1 / math.sqrt(q.shape[-1]))
    of_dp = {
        "dq": back * definition(doubles[0], doubles[1], doubles[1].abs(), **right)[0].max(),
        "dk": back * run(definition, doubles, doubles[0].abs(), **right)[3].max(),
    }
    for name, x, other, mine in zip(("o", "dq", "dk", "dv"), exact, usual, run(attention, [q, k, v], do, **options)):
        assert (mine.dtype, mine.shape) == (q.dtype, x.shape)
        held(mine, other, x, room + float(of_dp.get(name, 0)), (name, list(q.shape), list(k.shape), options))


# Each two of a dtype, a mask and a head size meet; in the interpreter all three each week.
@pytest.mark.parametrize(
    ("dtype", "causal", "d"),
    [
        pytest.param(dtype, causal, d, marks=[pytest.mark.weekly] * (not GPU and (i + j + causal) % 2))
        for i, dtype in enumerate(DTYPES)
        for causal in (False, True)
        for j, d in enumerate(SIZES)
    ],
    ids=str,
)
def test_forward_and_backward(dtype, causal, d) -> None:
    for b, h, h_k in HEADS if GPU or d == 32 else HEADS[1:]:
        for n_q, n_k in LENGTHS if GPU else LENGTHS[:3] if h > 1 else LENGTHS[3:]:
            for softcap, scale in ((None, None), (4.0, None), (None, 0.3)) if GPU else ((None, None), (4.0, 0.3)):
                check(*heads(b, h, h_k, n_q, n_k, d, dtype), causal=causal, softcap=softcap, scale=scale)


@pytest.mark.skipif(not GPU, reason="too long for the interpreter")
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_long_sequences(dtype, d) -> None:
    for n in (1024, 4096, 16_384):
        check(*heads(1, 1, 1, n, n, d, dtype), causal=True)


@pytest.mark.skipif(not GPU, reason="the interpreter compiles nothing")
def test_other_lengths_batches_and_heads_compile_nothing_anew(monkeypatch) -> None:
    import triton

    made: list[str] = []
    monkeypatch.setattr(triton.knobs.runtime, "jit_cache_hook", lambda *, repr, **_: made.append(repr.split("[")[0]))
    for b, h, h_k, n_q, n_k in ((1, 4, 2, 17, 64), (3, 6, 3, 64, 113), (2, 32, 16, 160, 160), (2, 10, 5, 33, 1)):
        leaves = [x.requires_grad_() for x in heads(b, h, h_k, n_q, n_k, 72, torch.float16)]
        torch.autograd.grad(attention(*leaves).sum(), leaves)
    assert made
    assert len(made) == len(set(made)), made


@pytest.mark.parametrize("offset", [-70, -5, 30, 2**31 - 1, -(2**31)])
def test_the_causal_edge_may_be_moved(offset) -> None:
    q, k, v = heads(1, 2, 2, 80, 100, 16, torch.float32)
    check(q, k, v, causal=True, causal_offset=offset)
    o, L = attention(q, k, v, causal=True, causal_offset=offset, return_lse=True)
    blind = min(80, max(0, -offset))
    assert not o[:, :, :blind].any()
    assert torch.isneginf(L[:, :, :blind]).all()
    assert torch.isfinite(L[:, :, blind:]).all()


def test_what_comes_back_to_a_row_that_saw_no_key_is_dropped() -> None:
    q, k, v = (x.requires_grad_() for x in heads(1, 1, 1, 40, 40, 16, torch.float32))
    o, L = attention(q, k, v, causal=True, causal_offset=-3, return_lse=True)
    back = torch.ones_like(L)
    back[..., :3] = torch.nan  # what logaddexp(-inf, -inf) sends back
    for gradient in torch.autograd.grad([o, L], [q, k, v], [torch.ones_like(o), back]):
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("causal", [False, True])
def test_hard_scores(causal) -> None:
    for tensors in hard(*heads(1, 2, 1, 65, 130, 32, torch.float32)):
        check(*tensors, causal=causal)


@pytest.mark.parametrize("softcap", [1e-3, 1.0, 50.0, 1e6, 1e38, 1e300])
def test_a_softcap_of_any_size(softcap) -> None:
    """Forward, L and gradients as exact as with torch.tanh, whose form 1 - 2 / (e^2x + 1) loses cap · 6e-8 of each score."""
    q, k, v = heads(1, 2, 1, 40, 50, 16, torch.float32)
    do, dL = torch.randn_like(q), torch.randn(1, 2, 40, device=DEVICE)

    def everything(function, dtype, softcap, **options):
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        o, L = function(*leaves, softcap=softcap, **options)
        return o.detach(), L.detach(), *torch.autograd.grad([o, L], leaves, [do.to(dtype), dL.to(dtype)])

    right = everything(definition, torch.float64, softcap)
    usual = everything(definition, torch.float32, min(softcap, 1e38))  # float32 has no 1e39
    ours = everything(attention, torch.float32, softcap, return_lse=True)
    for name, mine, other, exact in zip(("o", "L", "dq", "dk", "dv"), ours, usual, right):
        assert measure.max_error(mine, exact) <= 2 * measure.max_error(other, exact) + 1e-6, name


@pytest.mark.parametrize("scale", [2.0**64, -(2.0**64), 1e-44, 0.0])
def test_every_scale_that_is_taken_gives_finite_scores(scale) -> None:
    for dtype in DTYPES:
        q, k, v = (2.0**15 * x.sign() if dtype == torch.float16 else x for x in heads(1, 1, 1, 20, 20, 32, dtype))
        o, L = attention(q, k, v, scale=scale, return_lse=True)
        right, right_L = definition(*(x.double() for x in (q, k, v)), scale=scale)
        torch.testing.assert_close(L.double(), right_L, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(o.double(), right, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("of", ["o", "L", "both"])
def test_the_log_sum_exp_and_the_gradients_of_either_output(of) -> None:
    leaves = [x.requires_grad_() for x in heads(1, 2, 1, 40, 70, 16, torch.float32)]
    exact = [x.detach().double().requires_grad_() for x in leaves]
    outputs, right = attention(*leaves, return_lse=True), definition(*exact)
    torch.testing.assert_close(outputs[1].double(), right[1], atol=1e-5, rtol=1e-5)

    def loss(o, L):
        return (of != "L") * o.sin().sum() + (of != "o") * L.cos().sum()

    for x, y in zip(torch.autograd.grad(loss(*outputs), leaves), torch.autograd.grad(loss(*right), exact)):
        torch.testing.assert_close(x.double(), y, atol=2e-5, rtol=2e-4)


# --- what torch does with it ---


@pytest.mark.parametrize("name", ["grad", "vjp", "hessian", "jvp", "dual"])
def test_derivatives_that_it_does_not_have_are_refused(name) -> None:
    q, k, v = heads(2, 1, 1, 4, 4, 16, torch.float32)

    def loss(k):
        return attention(q, k, v).sum()

    def dual(k):
        with torch.autograd.forward_ad.dual_level():
            return loss(torch.autograd.forward_ad.make_dual(k, k))

    calls = {"jvp": lambda k: torch.func.jvp(loss, (k,), (k,)), "vjp": lambda k: torch.func.vjp(loss, k), "dual": dual}
    with pytest.raises(TypeError, match="k is being differentiated by torch"):
        (calls[name] if name in calls else getattr(torch.func, name)(loss))(k)
    (first,) = torch.autograd.grad(attention(q, leaf := k.clone().requires_grad_(), v).sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        first.sum().backward()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_is_a_loop() -> None:
    q, k, v = (x.requires_grad_() for x in heads(3, 2, 2, 5, 7, 16, torch.float32))
    mapped = torch.func.vmap(lambda one: attention(one[None], k[:1], v[:1])[0])(q)
    looped = torch.stack([attention(one[None], k[:1], v[:1])[0] for one in q])
    torch.testing.assert_close(mapped, looped)
    for x, y in zip(*(torch.autograd.grad(o.sum(), [q, k]) for o in (mapped, looped))):
        torch.testing.assert_close(x, y)


def test_any_stride_with_a_contiguous_last_dimension() -> None:
    x = torch.randn(2, 33, 3, 4, 16, device=DEVICE)  # batch, length, (q, k, v), heads, size: as a model makes it
    q, k, v = (part.transpose(1, 2) for part in x.unbind(2))
    assert not q.is_contiguous()
    check(q, k, v, causal=True)
    v = v.detach().requires_grad_()
    attention(q, k, v).transpose(1, 2).reshape(2, 33, -1).mul(2).sum().backward()  # a gradient with strides of its own
    torch.testing.assert_close(v.grad.sum(), torch.tensor(2.0 * q.numel(), device=DEVICE), rtol=1e-4, atol=1e-2)


def test_empty_lengths() -> None:
    q, k, v = (x.requires_grad_() for x in heads(1, 2, 2, 0, 5, 16, torch.float32))
    o = attention(q, k, v)
    assert o.shape == (1, 2, 0, 16)
    o.sum().backward()
    assert not k.grad.any()
    o, L = attention(*heads(1, 2, 2, 3, 0, 16, torch.float32), return_lse=True)
    assert not o.any()
    assert torch.isneginf(L).all()


def test_torch_compile_makes_one_graph() -> None:
    def model(q, k, v):
        return (attention(2 * q, k, v, causal=True) + 1).sum()

    compiled = torch.compile(model, fullgraph=True, backend="inductor" if GPU else "aot_eager")
    q, k, v = (x.requires_grad_() for x in heads(1, 2, 1, 40, 40, 16, torch.float32))
    right, found = (torch.autograd.grad(function(q, k, v), [q, k, v]) for function in (model, compiled))
    for x, y in zip(found, right):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-4)


def test_the_operator_keeps_torchs_rules() -> None:
    q, k, v = (x.requires_grad_() for x in heads(1, 2, 1, 20, 33, 16, torch.float32))
    torch.library.opcheck(torch.ops.course.attention_forward.default, (q, k, v, True, 3, 0.25, 0.0))
    q, k, v = (x.detach() for x in (q, k, v))
    o, L = attention(q, k, v, causal=True, scale=0.25, causal_offset=3, return_lse=True)
    arguments = (q, k, v, o, L, torch.ones_like(o), torch.zeros_like(L), True, 3, 0.25, 0.0)
    torch.library.opcheck(torch.ops.course.attention_backward.default, arguments)


def test_saved_tensors_may_come_back_in_another_layout() -> None:
    """As hooks that keep them elsewhere, or compressed, may do."""
    q, k, v = (x.requires_grad_() for x in heads(2, 2, 2, 5, 5, 16, torch.float32))
    right = torch.autograd.grad(attention(q, k, v).sum(), [q, k, v])
    turned = torch.autograd.graph.saved_tensors_hooks(
        lambda x: x, lambda x: x.transpose(1, 2).contiguous().transpose(1, 2) if x.dim() == 4 else x
    )
    with turned:
        found = torch.autograd.grad(attention(q, k, v).sum(), [q, k, v])
    for x, y in zip(found, right):
        torch.testing.assert_close(x, y)


def test_the_readme_shows_calls_that_run() -> None:
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    names: dict = {}
    exec(re.search("```python\n(.*?)```", text, re.DOTALL).group(1), names)
    q, k, v = (names[name].detach() for name in "qkv")
    assert names["q"].grad.isfinite().all()
    for b, length in enumerate(names["lengths"].tolist()):
        right = definition(q[b : b + 1, :, -1:].double(), *(x[b : b + 1, :, :length].double() for x in (k, v)))[0]
        torch.testing.assert_close(names["o"][b : b + 1].double(), right, atol=ROOM[q.dtype], rtol=1e-2)


X = torch.randn(1, 2, 8, 16, device=DEVICE)
BAD = [
    ((X[0], X, X), {}, ValueError, r"q has shape \[2, 8, 16\]"),
    ((X.tolist(), X, X), {}, TypeError, "q is a list; pass a torch.Tensor"),
    ((X, None, X), {}, TypeError, "k is a NoneType; pass a torch.Tensor"),
    ((X.to_sparse(), X, X), {}, TypeError, r"q has layout torch\.sparse_coo"),
    ((X, X, X), {"return_lse": "no"}, TypeError, r"return_lse is 'no' \(str\); pass True or False"),
    ((X.double(),) * 3, {}, TypeError, "q is torch.float64"),
    ((X, X.half(), X), {}, TypeError, "q is torch.float32 but k is torch.float16"),
    ((X, X, X[:, :, :4]), {}, ValueError, r"k has shape \[1, 2, 8, 16\] but v has \[1, 2, 4, 16\]"),
    ((X, X.expand(3, -1, -1, -1), X.expand(3, -1, -1, -1)), {}, ValueError, r"k is \[3, 2, 8, 16\]; batch"),
    ((torch.randn(1, 1, 4, 300, device=DEVICE),) * 3, {}, ValueError, "the head size is 300"),
    ((X[:, :1], X, X), {}, ValueError, "q's heads a multiple of k's"),
    ((X.mT, X.mT, X.mT), {}, ValueError, "q has strides .*; its last dimension must be contiguous"),
    ((X, X, X), {"causal": 1}, TypeError, "causal is 1 .*; pass True or False"),
    ((X, X, X), {"causal": True, "causal_offset": 1.0}, TypeError, "causal_offset is 1.0 .*; pass a whole number"),
    ((X, X, X), {"scale": math.inf}, ValueError, "scale is inf; pass a finite number"),
    ((X, X, X), {"scale": 2.0**65}, ValueError, r"scale is .*; pass at most 2\^64 in magnitude"),
    ((X, X, X), {"scale": True}, TypeError, "scale is True"),
    ((X, X, X), {"softcap": 10**5000}, ValueError, "softcap is <int>; pass a finite number"),
    ((X, X, X), {"softcap": -1.0}, ValueError, "softcap is -1.0; pass a finite number of at least 0"),
    ((X, X, X), {"deterministic": 1}, TypeError, "deterministic is 1"),
]


@pytest.mark.parametrize(("args", "options", "error", "message"), BAD)
def test_bad_input(args, options, error, message) -> None:
    for _ in range(
        2
    ):  # equal numbers of the right types were passed in between: 1 is not True, and 1.0 no whole number
        with pytest.raises(error, match=message):
            attention(*args, **options)
        attention(X, X, X, causal=True, causal_offset=1, scale=1.0, softcap=1.0)  # the process is alive
