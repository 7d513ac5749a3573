"""The drop-in attention() at the end of the road, forward and backward.

o = attention(q, k, v, causal=True)                     # q [B, H, Nq, D], k and v [B, Hk, Nk, D]
o, L = attention(q, k, v, return_lse=True)              # L [B, H, Nq], the log-sum-exp of each row of scores

torch.nn.functional.scaled_dot_product_attention = scaled_dot_product_attention     # in a model that calls torch's
"""

from typing import Any

import torch

from course_lib import checks
from course_lib.kernels import decoding, fast_launch, hopper, portable
from course_lib.kernels.arguments import Options, attention_options, autocast, in_float32
from course_lib.kernels.fast_launch import Replayed


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    causal_offset: int = 0,
    return_lse: bool = False,
    deterministic: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale · q kᵀ) v without S or P in memory, with gradients for q, k, v (and through L).

    q [B, H, Nq, D], k and v [B, Hk, Nk, D] -> [B, H, Nq, D] in q's dtype: float32, float16 or bfloat16 (in the interpreter computed
    in float32), any strides with a contiguous last dimension, D up to 256. Under torch.autocast all three are cast to its dtype, as for
    torch's attention. H is a multiple of Hk: consecutive heads of q share one of k and v.
    ``scale`` is 1/√D unless given, at most 2^64 in magnitude: so scores of finite float16 are finite, and those of bfloat16 and
    float32 while q kᵀ stays below 2^63. ``softcap`` replaces a score x by softcap · tanh(x / softcap); 0 is none. ``causal`` lets
    query i see the keys j <= i + causal_offset; 0 aligns the first query with the first key (top left), as torch's is_causal does,
    Nk - Nq the last with the last, as new tokens over a cache need it. A query that sees no key gets 0, L = -inf and no gradient.
    Keys behind the last one that any query sees are not read, so that they may be NaN, and their gradients are 0; a NaN among the
    keys or values that some query sees may show in all rows. float32 is multiplied in TF32 if
    torch's own matmuls are (torch.backends.cuda.matmul.fp32_precision). L is in float32. On a Hopper GPU q's gradient is
    added up in any order, so that two calls may differ by roundings, unless ``deterministic``, or torch's
    use_deterministic_algorithms, is set. Up to 8 queries over 256 keys and more take the decoding kernels (``kernels.decoding``),
    which read K and V once for all heads of q that share them, and cut the keys among programs; ``kernel_choice`` says which kernel
    takes a call, and why. Raises TypeError or ValueError before any launch.
    """
    if return_lse is not False:
        checks.truth("return_lse", return_lse)
    q, k, v = autocast(q, k, v)
    kind = None if torch.compiler.is_compiling() else fast_launch.kinds(q, k, v)
    if kind is None:
        options = attention_options(q, k, v, causal, scale, softcap, causal_offset)
        o, L = _forward(q, k, v, *options, checks.truth("deterministic", deterministic))
        return (o, L) if return_lse else o
    asked = causal, scale, softcap, causal_offset, deterministic
    types = tuple(map(type, asked))  # 1 and True are equal
    key = kind, asked, types
    plan = _plans.get(key) if _NUMBERS.issuperset(types) else None
    if plan is None:
        plan = _Plan(attention_options(q, k, v, *asked[:-1]), checks.truth("deterministic", deterministic))
        if len(_plans) >= fast_launch.MOST:
            _plans.clear()
        _plans[key] = plan
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        o, L = _Differentiable.apply(q, k, v, plan)
    else:
        o, L = plan.forward((), (q, k, v))
    return (o, L) if return_lse else o


_NUMBERS = {bool, int, float, type(None)}


# --- eager calls: checked once, launched by repeating ---


class _Plan:
    """What the arguments of calls alike mean, and the launches that serve them."""

    def __init__(self, options: Options, deterministic: bool) -> None:
        self.options, self.deterministic = options, deterministic
        self.forward = Replayed(launch_forward, options)
        self.backward = [Replayed(launch_backward, (*options, flag)) for flag in (False, True)]


_plans: dict[Any, _Plan] = {}


class _Differentiable(torch.autograd.Function):
    """(o, L), with gradients. An operator of torch's library, which torch.compile needs, would cost the host 60 µs more."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: _Plan) -> Any:
        o, L = plan.forward((), (q, k, v))
        ctx.save_for_backward(q, k, v, o, L)
        ctx.plan = plan
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)  # they may give back something else
        ctx.places = (q.data_ptr(), k.data_ptr(), v.data_ptr()) if hooks is None else None
        ctx.set_materialize_grads(False)  # where nobody uses L, its gradient is no tensor of zeros but None
        return o, L

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor | None, dL: torch.Tensor | None) -> tuple[Any, ...]:
        q, k, v, o, _ = saved = ctx.saved_tensors
        plan, do = ctx.plan, torch.zeros_like(o) if do is None else do
        tensors = (do,) if dL is None else (do, dL)
        if ctx.places != (q.data_ptr(), k.data_ptr(), v.data_ptr()):  # not the plan's tensors: look at them again
            tensors = (*saved, *tensors)
        # With gradients of gradients, the operator says that it has none; a compiler of backward passes traces it.
        anew = torch.is_grad_enabled() or torch.compiler.is_compiling()
        kind = None if anew else fast_launch.kinds(*tensors)
        if kind is None:
            found = _backward(*saved, do, dL, *plan.options, plan.deterministic)
        else:
            deterministic = plan.deterministic or torch.are_deterministic_algorithms_enabled()
            found = plan.backward[deterministic](kind, (*saved, do, dL))
        return (*found, None)


# --- the operators: opaque to torch.compile, so that a model with attention() is one graph ---


@in_float32
def launch_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, offset: int, scale: float, softcap: float,
    deterministic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(o, L) for arguments that ``attention`` has checked; a ``softcap`` of 0 is none, ``deterministic`` is for the backward pass."""
    k, v = _seen(q, k, v, causal, offset)
    if decoding.pays(q, k):
        n_k = k.shape[2]
        seen = offset - n_k if causal else 0
        return decoding.launch_decode(q, k, v, None, None, causal and q.shape[2] > 1, seen, scale, softcap, 0, n_k)
    if _portable_because(q, k, v, causal, scale, softcap):
        return portable.launch_forward(q, k, v, causal, offset, scale, softcap)
    n_q, n_k, d = q.shape[2], k.shape[2], q.shape[3]
    o, L = decoding.empty_results(q)
    offset = max(-n_q, min(offset, n_k))  # beyond these nothing changes, and the kernels' sums do not overflow
    rung, tiling = hopper.best(d, causal, n_k)
    hopper.launch_specialised(q, k, v, o, L, causal, offset, scale, tiling, rung)
    return o, L


_forward = torch.library.custom_op("course::attention_forward", launch_forward, mutates_args=())


@_forward.register_fake
def _(q, k, v, causal, offset, scale, softcap, deterministic=False):  # type: ignore[no-untyped-def]
    return decoding.empty_results(q)


@in_float32
def launch_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor, do: torch.Tensor,
    dL: torch.Tensor | None, causal: bool, offset: int, scale: float, softcap: float, deterministic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(dq, dk, dv) for what ``launch_forward`` has taken and given, and the gradients of o and L; ``dL`` None: of o alone."""
    n_k, (k, v) = k.shape[2], _seen(q, k, v, causal, offset)
    dq, dk, dv = launch_gradients(q, k, v, o, L, do, dL, causal, offset, scale, softcap, deterministic)
    if unseen := n_k - k.shape[2]:
        dk, dv = (torch.nn.functional.pad(x, (0, 0, 0, unseen)) for x in (dk, dv))
    return dq, dk, dv


def launch_gradients(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor, do: torch.Tensor,
    dL: torch.Tensor | None, causal: bool, offset: int, scale: float, softcap: float, deterministic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """``launch_backward`` that reads all keys, those that no query sees too, and copies nothing."""
    deterministic = deterministic or torch.are_deterministic_algorithms_enabled()
    if hopper.backward_refusal(q, k, v, scale, softcap, deterministic):
        return portable.launch_backward(q, k, v, o, L, do, dL, causal, offset, scale, softcap)
    return hopper.launch_backward(q, k, v, o, L, do, dL, causal, offset, scale)


_backward = torch.library.custom_op("course::attention_backward", launch_backward, mutates_args=())


@_backward.register_fake
def _(q, k, v, o, L, do, dL, causal, offset, scale, softcap, deterministic=False):  # type: ignore[no-untyped-def]
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, *options = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.options = options


def _gradient(ctx: Any, do: torch.Tensor, dL: torch.Tensor) -> tuple[Any, ...]:
    return (*_backward(*ctx.saved_tensors, do, dL, *ctx.options), None, None, None, None, None)


_forward.register_autograd(_gradient, setup_context=_setup)


def _seen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, offset: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """k and v up to the last key that any query sees."""
    n = max(0, q.shape[2] + offset) if causal else k.shape[2]
    return (k[:, :, :n], v[:, :, :n]) if n < k.shape[2] else (k, v)


# --- in the place of torch's function ---


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """``attention`` with the signature of torch's function, for a model that calls that one: query [..., H, Nq, D] -> the same shape.

    key and value are [..., Hk, Nk, D], any strides, as many dimensions as query has, two at least; Hk is H, or with ``enable_gqa`` a
    divisor of it. ``is_causal`` aligns the first query with the first key, as torch does: for several new tokens over a cache that
    is the wrong mask; take ``attention`` with causal_offset = Nk - Nq. Not done, and refused with TypeError or ValueError: masks
    (``attn_mask``, as of padded batches), dropout, a head size of value other than that of key, or beyond 256, float64, and batches
    or heads that would have to be broadcast.
    """
    if attn_mask is not None:
        raise ValueError(
            f"attn_mask is {checks.shown(attn_mask)}; pass None, and is_causal=True for a causal mask; other masks, as of padded batches, "
            "take torch's function"
        )
    if checks.number("dropout_p", dropout_p, least=0):
        raise ValueError(
            f"dropout_p is {checks.shown(dropout_p)}; pass 0.0 (model.eval()): this attention has no dropout"
        )
    checks.truth("is_causal", is_causal)
    checks.truth("enable_gqa", enable_gqa)
    parts = []
    for name, x in (("query", query), ("key", key), ("value", value)):
        if checks.dense(name, x).dim() < 2 or x.dim() != query.dim():
            raise ValueError(
                f"{name} has shape {list(x.shape)}; pass query, key and value [..., heads, length, head size]"
            )
        x = x.flatten(0, -4) if x.dim() > 4 else x[(None,) * (4 - x.dim())]
        parts.append(x if x.stride(3) == 1 else x.contiguous())
    q, k, v = parts
    if q.shape[1] != k.shape[1] and not enable_gqa:
        raise ValueError(f"query has {q.shape[1]} heads but key has {k.shape[1]}; pass as many, or enable_gqa=True")
    return attention(q, k, v, causal=is_causal, scale=scale).view(query.shape)  # type: ignore[union-attr]


# --- which kernel, with which tiles ---


def kernel_choice(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> str:
    """Which forward kernel ``attention`` takes for these arguments, in a sentence; raises as ``attention`` does."""
    q, k, v = autocast(q, k, v)
    causal, offset, scale, softcap = attention_options(q, k, v, causal, scale, softcap, 0)
    k, v = _seen(q, k, v, causal, offset)
    if decoding.pays(q, k):
        tile, splits = decoding.tile_of(q, q.shape[1] // k.shape[1]), decoding.splits_for(q, k.shape[1], k.shape[2])
        return f"decoding (Triton): {q.shape[2]} queries of each head are few; {splits} splits of the keys, blocks of {tile.block_n}"
    why = _portable_because(q, k, v, causal, scale, softcap)
    if why:
        x = portable.blocks_of("forward", q, causal)
        tiles = f"{x.block_m}×{x.block_n} blocks, {x.num_warps} warps, {x.num_stages} stages"
        return f"portable (Triton): {tiles}; not Hopper's kernel: {why}"
    rung, tiling = hopper.best(q.shape[3], causal, k.shape[2])
    tiles = (
        f"{tiling.consumers} warpgroups with 64 queries each, {tiling.block_n} keys a block, {tiling.stages} buffers"
    )
    return f"{rung.name} (Gluon, Hopper): {tiles}"


def _portable_because(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, softcap: float
) -> str:
    """Why the portable kernel serves this call; '' if Hopper's does."""
    return hopper.call_refusal(q, k, v, scale, softcap) or hopper.too_small(q, causal, k.shape[2])
