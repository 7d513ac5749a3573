"""The rule by which an attention kernel is checked, and inputs that wrong kernels do not survive.

Error against float64 <= 2 x the error of plain torch in the same format + a floor: FlashAttention's own tests do the same.
"""

import importlib.util
import math
from importlib.metadata import version

import pytest
import torch

from course_lib import runtime
from course_lib.instruments import measure

DEVICE = runtime.device()
FLOOR = {"ieee": {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}, "tf32": {torch.float32: 1e-3}}
# Marks a test that counts in Triton's interpreter; where there is no Triton, conftest skips the tests of kernels.
COUNTS = pytest.mark.skipif(
    importlib.util.find_spec("triton") is not None and version("triton").startswith("3.6"),
    reason="the interpreter of Triton 3.6 fails on loops with a runtime bound",
)
INPUTS = ["normal", "times ten", "far below zero", "late spike", "equal rows"]
ROOM = {
    torch.float32: 4e-6,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
}  # the floor of kernels that multiply on tensor cores
EPS = torch.finfo(torch.float32).eps


def inputs(name: str, n: int, d: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One head, q, k, v [n, d]."""
    q, k, v = (torch.randn(n, d, device=DEVICE) for _ in range(3))
    if name == "times ten":
        q, k, v = 10 * q, k, 10 * v
    elif name == "far below zero":
        q, k = 3 * q.abs() + 9, -k.abs() - 3
    elif name == "late spike":
        k[-1] = 4 * q[0]
    elif name == "equal rows":
        q, k = q[:1].expand(n, d).contiguous(), k[:1].expand(n, d).contiguous()
    return q.to(dtype), k.to(dtype), v.to(dtype)


def heads(b: int, h: int, h_k: int, n_q: int, n_k: int, d: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Random q [b, h, n_q, d] and k, v [b, h_k, n_k, d]."""
    shapes = ((b, h, n_q, d), (b, h_k, n_k, d), (b, h_k, n_k, d))
    return [torch.randn(shape, device=DEVICE).to(dtype) for shape in shapes]


def hard(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """The same kinds of inputs of q [B, H, N, D] and k, v [B, Hk, N, D]."""
    late = torch.cat([k[:, :, :-1], 4 * q[:, :: q.shape[1] // k.shape[1], :1]], dim=2)
    same = [x[:, :, :1].expand_as(x).contiguous() for x in (q, k)]
    return [(10 * q, k, 10 * v), (3 * q.abs() + 9, -k.abs() - 3, v), (q, late, v), (*same, v)]


def held(
    found: torch.Tensor, usual: torch.Tensor, exact: torch.Tensor, room: float | None = None, what: object = ""
) -> None:
    """Fails where the error is beyond the rule; ``room`` in place of the dtype's own."""
    room = ROOM[found.dtype] if room is None else room
    bound = 2 * measure.max_error(usual, exact) + room * max(1.0, float(exact.abs().max()))
    assert measure.max_error(found, exact) <= bound, what


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    s = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)
    return torch.softmax(s, dim=-1) @ v


def definition(q, k, v, causal=False, scale=None, softcap=None, offset=0):
    """[B, H, N, D]: (o, L) in the inputs' own dtype. Rows that see no key give 0 and -inf."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    s = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    if causal:
        row, col = torch.arange(q.shape[2], device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)
        s = s.masked_fill(col > row + offset, -torch.inf)
    blind = torch.isneginf(s).all(-1, keepdim=True)
    p = torch.softmax(s.masked_fill(blind, 0), dim=-1).masked_fill(blind, 0)
    return p @ v, torch.logsumexp(s, dim=-1)


def allowed(q, k, v, oracle: torch.Tensor, precision: str, causal: bool = False) -> float:
    """The largest error that the rule lets pass."""
    form = torch.float16 if precision == "tf32" else q.dtype  # tf32 and fp16 both keep 10 bits
    error = measure.max_error(plain(q.to(form), k.to(form), v.to(form), causal), oracle)
    largest_v = max(1.0, float(v.float().abs().max()))
    # Scores are sums in fp32 in some order. Moving each by one rounding moves the output by up to eps · max|S| · max|V|.
    largest_score = float((q.double() @ k.double().T).abs().max()) / math.sqrt(q.shape[1])
    order_of_sums = torch.finfo(torch.float32).eps * largest_score
    return 2 * (error if math.isfinite(error) else 0.0) + largest_v * (FLOOR[precision][q.dtype] + order_of_sums)
