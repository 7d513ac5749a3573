"""Two partial results of attention over different keys become one, in place: ``course_lib.model.softmax.merge`` as a kernel.

Divided by their sums, o and L = m + log l are a state, too: L = log(e^La + e^Lb), o = e^(La - L) oa + e^(Lb - L) ob. One pass
reads o and the new part and writes o, 10 bytes an element where o is fp32 and the part 16 bits; torch's operators take about 38.
"""

import torch

from course_lib import checks
from course_lib.kernels import fast_launch, tl, triton
from course_lib.kernels.launching import LARGEST_D, check_launch, check_length, launch

BLOCK = 64  # rows of a program


@triton.jit(do_not_specialize=["n"])
def merge_kernel(
    o_ptr, L_ptr, part_ptr, part_L_ptr, o_b, o_h, o_n, L_b, L_h, part_b, part_h, part_n, part_L_b, part_L_h, heads, n,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program: BLOCK rows of one head."""
    blocks = tl.cdiv(n, BLOCK)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    b, h = head // heads, head % heads
    rows, cols = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    inside = rows < n
    L_at, part_L_at = L_ptr + b * L_b + h * L_h + rows, part_L_ptr + b * part_L_b + h * part_L_h + rows
    L = tl.load(L_at, mask=inside, other=0.0)
    part_L = tl.load(part_L_at, mask=inside, other=0.0)
    tl.debug_barrier()  # warps share a row: one stores its new L below, when all have loaded the old one
    m = tl.maximum(L, part_L)
    m = tl.where(m == -float("inf"), 0.0, m)  # a row that has seen no key in either
    weight, part_weight = tl.exp(L - m), tl.exp(part_L - m)
    l = weight + part_weight
    blind = l == 0.0
    tl.store(L_at, tl.where(blind, -float("inf"), m + tl.log(tl.where(blind, 1.0, l))), mask=inside)
    l = tl.where(blind, 1.0, l)
    elements = inside[:, None] & (cols < D)[None, :]
    o_at = o_ptr + b * o_b + h * o_h + rows.to(tl.int64)[:, None] * o_n + cols[None, :]
    part_at = part_ptr + b * part_b + h * part_h + rows.to(tl.int64)[:, None] * part_n + cols[None, :]
    o = tl.load(o_at, mask=elements, other=0.0).to(tl.float32)
    part = tl.load(part_at, mask=elements, other=0.0).to(tl.float32)
    o = o * (weight / l)[:, None] + part * (part_weight / l)[:, None]
    tl.store(o_at, o.to(o_ptr.dtype.element_ty), mask=elements)


def merge(o: torch.Tensor, L: torch.Tensor, part: torch.Tensor, part_L: torch.Tensor) -> None:
    """Add to o and L what attention over other keys, ``part`` and ``part_L``, has found for the same queries; in place.

    o and part [B, H, N, D], each in float32 or float16 (bfloat16 on a GPU), L and part_L [B, H, N] in float32; any strides with a
    contiguous last dimension, so that o may be some rows of a larger tensor. Computed in float32. A row that saw no key has 0 and
    -inf. There are no gradients. Raises TypeError or ValueError before any launch.
    """
    kind = fast_launch.kinds(o, L, part, part_L)
    if kind not in _launch_merge.met or torch.is_grad_enabled():
        _check(o, L, part, part_L)
    _launch_merge(kind, (o, L, part, part_L))


def _check(o: torch.Tensor, L: torch.Tensor, part: torch.Tensor, part_L: torch.Tensor) -> None:
    """Raise for what ``merge`` refuses; but for gradients, all of it depends on what ``fast_launch.kinds`` tells apart."""
    for name, x, like in (("o", o, 4), ("part", part, 4), ("L", L, 3), ("part_L", part_L, 3)):
        checks.float_tensor(name, x, ndim=like, look_inside=False)
    checks.same_shape(o=o, part=part)
    checks.same_shape(**{"L": L, "part_L": part_L, "o without its last dimension": o[..., 0]})
    for name, x in (("L", L), ("part_L", part_L)):
        if x.dtype != torch.float32:
            raise TypeError(f"{name} is {x.dtype}; pass float32, as attention(…, return_lse=True) returns it")
    checks.same_device(o=o, part=part, L=L, part_L=part_L)
    check_length("o", o.shape[2])
    check_launch(o=o, part=part, L=L, part_L=part_L)
    d = o.shape[3]
    if d > LARGEST_D:
        raise ValueError(f"o has head size {d}; pass at most {LARGEST_D}")
    for name, x in (("o", o), ("L", L)):
        if 0 in x.stride() and any(step == 0 and size > 1 for step, size in zip(x.stride(), x.shape, strict=True)):
            raise ValueError(
                f"{name} has shape {list(x.shape)} and strides {list(x.stride())}: rows that share memory cannot be written; "
                f"pass {name}.contiguous()"
            )
    if torch.is_grad_enabled():
        for name, x in (("o", o), ("L", L), ("part", part), ("part_L", part_L)):
            if x.requires_grad:
                raise ValueError(f"{name} requires gradients, and merge has none; call it inside torch.no_grad()")


def _merge(o: torch.Tensor, L: torch.Tensor, part: torch.Tensor, part_L: torch.Tensor) -> tuple[()]:
    (b, h, n, d) = o.shape
    launch(
        merge_kernel, (-(-n // BLOCK) * b * h,), o, L, part, part_L, *o.stride()[:3], *L.stride()[:2], *part.stride()[:3],
        *part_L.stride()[:2], h, n, D=d, BLOCK_D=triton.next_power_of_2(d), BLOCK=BLOCK, num_warps=8 if d > 64 else 4,
    )  # fmt: skip
    return ()


_launch_merge = fast_launch.Replayed(_merge, ())
