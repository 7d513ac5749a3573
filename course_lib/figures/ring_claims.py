"""Lecture 13, judged: what sources say of rings and of Ulysses, beside counts and a small computation."""

import torch

from course_lib import data
from course_lib.model import parallel
from course_lib.show.tables import Table

Finding = tuple[str, bool]
RANKS, TOKENS = 8, 8192  # GPUs and tokens of each in the table that ring-flash-attention reports


def orders_counted() -> Table:
    """The share of time in which 8 causal ranks work, by counting pairs, beside the share of 8 single GPUs' speed that is reported."""
    reported = {row["order"]: row["percent"] for row in data.reported("ring_efficiency")}
    rows = [
        [order, f"{parallel.efficiency(order, RANKS, RANKS * TOKENS):.1%}", f"{reported[order]}%"]
        for order in parallel.ORDERS
    ]
    return Table(["8 GPUs, 8,192 tokens each", "by counting pairs", "ring-flash-attention, 8 × H800"], rows)


def _busiest(order: str, ranks: int) -> float:
    """The pairs of the busiest rank over the mean, causal, in the limit of long sequences."""
    pairs = torch.tensor(parallel.step_pairs(order, ranks, ranks * TOKENS, True)).sum(0).double()
    return float(pairs.max() / pairs.mean())


def zigzag_is_balanced() -> list[Finding]:
    """The busiest of 8 ranks over the mean in both orders."""
    plain, zigzag = (_busiest(order, RANKS) for order in ("contiguous", "zigzag"))
    return [(f"busiest of 8 ranks ÷ mean: contiguous {plain:.2f}, zigzag {zigzag:.2f}", zigzag < plain)]


def blocks_hide() -> list[Finding]:
    """The block that hides its message on an A100 with NVLink, in three cases; the paper names 1.0k tokens for all."""
    gpu, link = data.gpu("A100-80"), data.link("NVLink 3")
    cases = {
        "no mask, bf16": ("bf16", "bf16", 1.0),
        "no mask, fp32, multiplied in TF32": ("fp32", "tf32", 1.0),
        "causal, zigzag, bf16": ("bf16", "bf16", 0.5),
    }
    found = {
        words: parallel.hiding_tokens(gpu.flops_per_s(rate), link, dtype=dtype, visible=visible)
        for words, (dtype, rate, visible) in cases.items()
    }
    return [(f"{words}: {tokens:,.0f} tokens", abs(tokens - 1000) < 100) for words, tokens in found.items()]


def striped_gain() -> list[Finding]:
    """What counting pairs allows striped order to gain over contiguous order in attention alone: less than 2 for few ranks, 2 for many?"""

    def gain(ranks: int) -> float:
        return parallel.efficiency("striped", ranks, 2**20) / parallel.efficiency("contiguous", ranks, 2**20)

    few, many = gain(8), gain(512)
    return [
        (f"8 ranks, a million tokens: pairs allow {few:.2f}×", few < many),
        (f"512 ranks, a million tokens: pairs allow {many:.2f}×", abs(many - 2) < 0.05),
    ]


def ulysses_volume() -> list[Finding]:
    """How the bytes of a GPU grow when tokens and GPUs double, with as many KV heads as heads and with fewer."""

    def growth(ranks: int, kv_heads: int) -> float:
        few, many = (sum(parallel.ulysses_bytes(p, 0, 64 * p, 64, kv_heads, 128)) for p in (ranks, 2 * ranks))
        return many / few

    cases = [(32, 64), (2, 64), (16, 8)]
    return [
        (f"{ranks} to {2 * ranks} GPUs, 64 heads, {kv} KV heads: {growth(ranks, kv):.2f}×", growth(ranks, kv) < 1.05)
        for ranks, kv in cases
    ]


def errors_by_ranks() -> list[Finding]:
    """How many times the error of 2 merged bf16 parts that of 64 is: with sums kept in fp32 and with sums rounded to bf16."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(n, 64, dtype=torch.float64) for n in (64, 4096, 4096))
    right, _ = _attend(q, k, v)
    found = []
    for words, kept in (("sums kept in fp32", torch.float32), ("sums rounded to bf16 at each merge", torch.bfloat16)):
        errors = []
        for ranks in (2, 64):
            parts = [_attend(q, *x) for x in zip(k.chunk(ranks), v.chunk(ranks), strict=True)]
            errors.append(float((_merged(parts, kept) - right).square().mean().sqrt()))
        found.append(
            (f"{words}: 64 ranks err {errors[1] / errors[0]:.1f} times as much as 2", errors[1] > 1.1 * errors[0])
        )
    return found


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    s = q @ k.T / 8
    return torch.softmax(s, 1) @ v, s.logsumexp(1)


def _merged(parts: list[tuple[torch.Tensor, torch.Tensor]], kept: torch.dtype) -> torch.Tensor:
    """Parts as bf16, merged one by one; o is rounded to ``kept`` each time, L stays in float64."""
    (o, L), *others = [(part.bfloat16().to(kept), L) for part, L in parts]
    for part, part_L in others:
        both = torch.logaddexp(L, part_L)
        weights = [(x - both).exp()[:, None] for x in (L, part_L)]
        o, L = (o.double() * weights[0] + part.double() * weights[1]).to(kept), both
    return o.double()
