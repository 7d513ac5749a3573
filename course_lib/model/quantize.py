"""Eight-bit attention on paper: scales for a tensor, a block or a row; a rotation that spreads outliers; what both cost.

Sources: FlashAttention-3 (arXiv 2407.08608), section 3.3, block quantisation and incoherent processing; QuIP (arXiv 2307.13304) for
the latter; FP8 formats (arXiv 2209.05433).
"""

import math
from typing import Any, NamedTuple

import torch

from course_lib import checks
from course_lib.model import formats

SCALES = ("tensor", "block", "row")
FORMATS = ("e4m3", "e5m2", "int8")


def largest(format: str) -> float:
    """The largest number of an 8-bit format: 448, 57,344 or, for int8, 127."""
    return 127.0 if format == "int8" else formats.FORMATS[format].largest


def _rounded(x: torch.Tensor, format: str) -> torch.Tensor:
    """x as numbers of a format; what a scale leaves a little beyond the largest becomes the largest."""
    limit = largest(format)
    if format == "int8":
        return x.round().clamp(-limit, limit)
    if x.dtype == torch.float32:  # torch's own conversion gives the same numbers in a tenth of the time
        return x.clamp(-limit, limit).to(formats.FORMATS[format].dtype).to(x.dtype)
    return formats.rounded(x, format)


class Quantised(NamedTuple):
    """Numbers of a format and the scales that they were divided by; ``values`` [..., N, d] and ``scale`` in float32.

    ``scale`` has one number for the tensor, [..., blocks, 1, 1] or [..., N, 1]; ``restored`` is what a kernel computes with.
    """

    values: torch.Tensor
    scale: torch.Tensor
    restored: torch.Tensor


def quantise(x: torch.Tensor, format: str = "e4m3", per: str = "tensor", block: int = 64) -> Quantised:
    """x [..., N, d], float32 or float64, divided by ``max |x|`` / the format's largest number, and rounded to 'e4m3', 'e5m2' or 'int8'.

    ``per`` is what shares a scale: the 'tensor', a 'block' of rows (the last may be shorter), or a 'row'. Numbers that are
    all 0 have scale 1.
    """
    limit = largest(format)
    n = x.shape[-2]
    size = {"tensor": n, "block": min(block, n), "row": 1}[per]
    padded = torch.nn.functional.pad(x, (0, 0, 0, -n % size)).unflatten(-2, (-1, size))  # [..., blocks, size, d]
    top = padded.abs().amax(dim=(-2, -1), keepdim=True) if per != "tensor" else padded.abs().max()
    scale = torch.where(top > 0, top / limit, torch.ones_like(top))
    values = _rounded(padded / scale, format)
    restored = (values * scale).flatten(-3, -2)[..., :n, :]
    shown = scale.flatten(-3, -2)[..., :n, :] if per == "row" else scale
    return Quantised(values.flatten(-3, -2)[..., :n, :].float(), shown.float(), restored)


# --- incoherent processing ---


def signs(d: int, seed: int = 0) -> torch.Tensor:
    """d random signs, +1 or -1, float32, on the CPU: the diagonal of the rotation."""
    generator = torch.Generator().manual_seed(seed)
    return 1.0 - 2.0 * torch.randint(0, 2, (d,), generator=generator, device="cpu")


def butterflies(x: torch.Tensor) -> list[torch.Tensor]:
    """x [..., d], d a power of two, and what each of log2 d stages makes of it: of two numbers (a + b)/√2 and (a - b)/√2.

    The last is x times the Hadamard matrix over √d. Each has the same sum of squares.
    """
    d = x.shape[-1]
    stages, half = [x], 1
    while half < d:
        pairs = stages[-1].unflatten(-1, (-1, 2, half))
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        stages.append(torch.stack([first + second, first - second], dim=-2).flatten(-3) / math.sqrt(2))
        half *= 2
    return stages


def hadamard(x: torch.Tensor) -> torch.Tensor:
    """x [..., d] times the Hadamard matrix over √d, in d log2 d additions for each row, in x's dtype.

    The matrix holds ±1/√d; it is symmetric and its own inverse. If d is not a power of two, its largest power of two is
    rotated and then the rest: 96 as 64 and 32. Also that is orthogonal.
    """
    d = x.shape[-1]
    power = 1 << (d.bit_length() - 1)
    if power < d:
        return torch.cat([hadamard(x[..., :power]), hadamard(x[..., power:])], dim=-1)
    return butterflies(x)[-1]


def check_sign(sign: torch.Tensor, x: torch.Tensor | None = None) -> None:
    """Raise unless ``sign`` holds +1 and -1, one for each column of x, if given.

    The values are not read while a CUDA graph is captured, and where x, too, is on the meta device.
    """
    checks.float_tensor("sign", sign, ndim=1, look_inside=False)
    if x is not None and sign.shape != x.shape[-1:]:
        d = x.shape[-1]
        raise ValueError(f"sign has shape {list(sign.shape)}; pass [{d}], for example quantize.signs({d})")
    if x is not None and x.is_meta:
        return
    checks.readable("sign", sign)
    capturing = sign.is_cuda and torch.cuda.is_current_stream_capturing()
    if not capturing and bool((sign.abs() != 1).any()):
        raise ValueError(
            f"sign holds other numbers than +1 and -1; pass signs, for example quantize.signs({len(sign)})"
        )


def rotate(x: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """x [..., d] times M = diag(sign) · Hadamard / √d. M Mᵀ = 1, so rotated q and k have the same products."""
    return hadamard(x * sign.to(x))


def folded(weight: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """The weight [heads · d, in] of a linear map whose outputs, head by head, are rotated: the rotation costs nothing then.

    Only where nothing stands between the map and the product of q and k: a rotary embedding does not commute with it.
    """
    return rotate(weight.unflatten(0, (-1, len(sign))).mT, sign).mT.flatten(0, 1)


def outliers(n: int, d: int, rate: float = 0.001, size: float = 10.0, seed: int = 0) -> list[torch.Tensor]:
    """q, k, v [n, d] in float64, on the CPU: N(0, 1), and of ``rate`` of all entries N(0, size²) on top, as in the paper's table 3."""
    generator = torch.Generator().manual_seed(seed)

    how: dict[str, Any] = {"generator": generator, "dtype": torch.float64, "device": "cpu"}

    def normal() -> torch.Tensor:
        return torch.randn(n, d, **how)

    return [normal() + size * normal() * (torch.rand(n, d, **how) < rate) for _ in range(3)]


def eight_bit_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    per: str = "block",
    sign: torch.Tensor | None = None,
    format: str = "e4m3",
    block: int = 64,
) -> torch.Tensor:
    """The online softmax with Q, K, V and P in 8 bits, sums in x's dtype; q [Nq, d], k and v [Nk, d] -> [Nq, d].

    Q, K and V have scales ``per`` tensor, block or row; with ``sign`` Q and K are rotated first. P is at most 1 and needs
    no scale of its own but the format's: it is multiplied by 2^8 for e4m3 (2^15, 127) before it is rounded, as small weights matter.
    """
    n_k, d = k.shape
    if sign is not None:
        q, k = rotate(q, sign), rotate(k, sign)
    q, k, v = (quantise(x, format, per, block).restored for x in (q, k, v))
    m = q.new_full((len(q), 1), -math.inf)
    l, acc = q.new_zeros(len(q), 1), q.new_zeros(len(q), v.shape[1])
    top = largest(format) if format == "int8" else 2.0 ** math.floor(math.log2(largest(format)))
    for start in range(0, n_k, block):
        s = q @ k[start : start + block].mT / math.sqrt(d)
        m_new = torch.maximum(m, s.amax(dim=1, keepdim=True))
        p, correction = torch.exp(s - m_new), torch.exp(m - m_new)
        l = l * correction + p.sum(dim=1, keepdim=True)
        acc = acc * correction + _rounded(p * top, format) / top @ v[start : start + block]
        m = m_new
    return acc / l
