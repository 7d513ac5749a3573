"""A GPT that predicts the next character, with whichever attention it is given; its parts are named as in nanoGPT.

Source: github.com/karpathy/nanoGPT, model.py; rotary positions: RoFormer (arXiv 2104.09864).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import nn

from course_lib import checks
from course_lib.attention import attention
from course_lib.instruments import peers

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]  # causal, [B, H, N, D] each
ATTENTIONS: dict[str, Attend] = {
    "attention": cast(Attend, partial(attention, causal=True)),
    "SDPA": partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True),
    "plain": partial(peers.plain_attention, causal=True),
}
POSITIONS = ("rotary", "learned")
BASE = 10_000.0  # of the rotary angles


class Cache(Protocol):
    """Keys and values of one layer: those of new characters come in, the attention of the last one goes out."""

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """Add new characters: k and v [B, H, n, D]."""

    def attend(self, q: torch.Tensor) -> torch.Tensor:
        """The attention of the last character over all that is here: [B, H, 1, D] -> the same shape."""


def angles(begin: int, n: int, d: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [n, d/2] of the angles by which positions begin … begin + n - 1 turn, in float32, or float64 if ``like`` is."""
    kind: Any = {"device": like.device, "dtype": torch.float64 if like.dtype == torch.float64 else torch.float32}
    turns = BASE ** (torch.arange(0, d, 2, **kind) / -d)
    at = torch.arange(begin, begin + n, **kind)[:, None] * turns
    return at.cos(), at.sin()


def rotated(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """x [B, H, n, D] with its numbers i and i + D/2 turned as a pair: q·k then depends on the distance of two positions alone."""
    (cos, sin), (a, b) = turn, x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1).to(x.dtype)


def inner(model: Any) -> "GPT":
    """The GPT that ``model`` is, or wraps without parameters of its own, as torch.compile and DataParallel do; else TypeError."""
    checks.instance("model", model, nn.Module, "GPT(ATTENTIONS['SDPA'], …)")
    found = next((x for x in model.modules() if isinstance(x, GPT)), None)
    if found is None or len(list(model.parameters())) > len(list(found.parameters())):
        raise TypeError(f"model is a {type(model).__name__}; pass a GPT, or a wrapper of one that adds no parameters")
    return found


def check_characters(name: str, numbers: torch.Tensor, model: nn.Module) -> None:
    """ValueError for a character that the GPT in ``model``, if there is one, lacks. Waits for a GPU: asked once for a whole text."""
    size = next((x.config["vocab_size"] for x in model.modules() if isinstance(x, GPT)), None)
    if size is None:
        return
    least, most = (int(x) for x in torch.aminmax(numbers))
    if least < 0 or most >= size:
        raise ValueError(
            f"{name} has characters numbered {least} to {most}, and the model has {size}; pass numbers from 0 to {size - 1}"
        )


class CausalSelfAttention(nn.Module):
    """[B, N, n_embd] -> the same shape: q, k and v of each head, the attention, and a projection of all heads together."""

    def __init__(self, attend: Attend, n_embd: int, n_head: int) -> None:
        super().__init__()
        self.attend, self.n_head = attend, n_head
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd, bias=False), nn.Linear(n_embd, n_embd, bias=False)

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor] | None, cache: Cache | None
    ) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.c_attn(x).view(b, n, 3, self.n_head, c // self.n_head).permute(2, 0, 3, 1, 4)
        if turn is not None:
            q, k = rotated(q, turn), rotated(k, turn)
        if cache is not None:
            cache.append(k, v)
        o = self.attend(q, k, v) if cache is None or n > 1 else cache.attend(q)
        return self.c_proj(o.transpose(1, 2).reshape(b, n, c))


class MLP(nn.Module):
    """[B, N, n_embd] -> the same shape, through four times the width."""

    def __init__(self, n_embd: int) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(n_embd, 4 * n_embd, bias=False), nn.Linear(4 * n_embd, n_embd, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(nn.functional.gelu(self.c_fc(x)))


class Block(nn.Module):
    """x + attention, then x + MLP, each behind a layer norm."""

    def __init__(self, attend: Attend, n_embd: int, n_head: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(n_embd, bias=False), CausalSelfAttention(attend, n_embd, n_head)
        self.ln_2, self.mlp = nn.LayerNorm(n_embd, bias=False), MLP(n_embd)

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor] | None, cache: Cache | None
    ) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x), turn, cache)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """[B, N] characters as numbers -> [B, N, vocab_size] scores of the next one. ``attend`` must be causal.

    ``positions``: 'rotary' turns q and k by their position, at any length; 'learned' adds a vector of its own to each of block_size
    places. ``tied``: the scores are products with the embedding. Raises TypeError or ValueError for sizes that do not fit.
    """

    def __init__(
        self,
        attend: Attend,
        *,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        positions: str = "rotary",
        tied: bool = True,
    ) -> None:
        super().__init__()
        sizes = {"vocab_size": vocab_size, "block_size": block_size}
        sizes |= {"n_layer": n_layer, "n_head": n_head, "n_embd": n_embd}
        for name, value in sizes.items():
            checks.whole(name, value, 1, most=2**16)
        checks.one_of("positions", positions, POSITIONS)
        checks.truth("tied", tied)
        if n_embd % n_head:
            raise ValueError(f"n_embd is {n_embd} and n_head is {n_head}; pass an n_embd that is a multiple of n_head")
        if positions == "rotary" and n_embd // n_head % 2:
            raise ValueError(
                f"the head size n_embd / n_head is {n_embd // n_head}; rotary positions turn pairs: pass an even one"
            )
        self.config: dict[str, Any] = sizes | {"positions": positions, "tied": tied}
        self.transformer = nn.ModuleDict({"wte": nn.Embedding(vocab_size, n_embd)})
        if positions == "learned":
            self.transformer["wpe"] = nn.Embedding(block_size, n_embd)
        self.transformer["h"] = nn.ModuleList(Block(attend, n_embd, n_head) for _ in range(n_layer))
        self.transformer["ln_f"] = nn.LayerNorm(n_embd, bias=False)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        for name, x in self.named_parameters():
            if x.dim() == 2:
                nn.init.normal_(x, std=0.02 / math.sqrt(2 * n_layer) if name.endswith("c_proj.weight") else 0.02)
        if tied:
            self.lm_head.weight = cast(nn.Embedding, self.transformer["wte"]).weight
        self.use(attend)

    @property
    def blocks(self) -> "list[Block]":
        """The layers, transformer.h."""
        return list(cast(nn.ModuleList, self.transformer["h"]))  # type: ignore[arg-type]

    @property
    def parameter_count(self) -> int:
        """Numbers that training changes, a tied one once."""
        return sum(x.numel() for x in self.parameters())

    def use(self, attend: Attend) -> "GPT":
        """Let all layers take this attention from now on; returns the model."""
        checks.function("attend", attend)
        for block in self.blocks:
            block.attn.attend = attend
        return self

    def forward(self, idx: torch.Tensor, caches: Sequence[Cache] | None = None, begin: int = 0) -> torch.Tensor:
        """Scores of what follows each of ``idx`` [B, N]; with ``caches``, one for each layer, that of N new characters from ``begin``.

        New characters are many only where the caches are empty. Raises TypeError for what is no integer, ValueError for more characters
        than there are learned positions, and for caches that are not one for each layer.
        """
        if checks.readable("idx", idx).dtype not in (torch.int64, torch.int32):
            raise TypeError(f"idx has dtype {idx.dtype}; pass numbers of characters, for example idx.long()")
        learned, most = self.config["positions"] == "learned", self.config["block_size"]
        if idx.dim() != 2 or (learned and idx.shape[1] > most):
            raise ValueError(f"idx has shape {list(idx.shape)}; pass [B, N]{f', N at most {most}' * learned}")
        if begin != 0 and checks.whole("begin", begin, 0) and idx.shape[1] > 1:
            raise ValueError(f"idx has {idx.shape[1]} new characters behind {begin}; pass them one by one")
        x, n, turn = self.transformer["wte"](idx), idx.shape[1], None
        if learned:  # behind a full window the last place is the new character's, as in a window that is cropped
            x = x + self.transformer["wpe"](torch.arange(begin, begin + n, device=idx.device).clamp(max=most - 1))
        else:
            turn = angles(begin, n, self.config["n_embd"] // self.config["n_head"], x)
        blocks = self.blocks
        each = [None] * len(blocks) if caches is None else checks.several("caches", caches, len(blocks))
        for block, cache in zip(blocks, each, strict=True):
            x = block(x, turn, cache)
        return self.lm_head(self.transformer["ln_f"](x))
