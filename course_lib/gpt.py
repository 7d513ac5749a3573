"""A small decoder that predicts the next character, with whichever attention it is given, and the loop that trains it."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from course_lib import checks
from course_lib.instruments import measure

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]  # causal, [B, H, N, D] each


class Attention(nn.Module):
    """[B, N, width] -> the same shape: q, k and v of each head, ``attend``, and a projection of all heads together."""

    def __init__(self, width: int, heads: int, attend: Attend) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, width = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(self.attend(q, k, v).transpose(1, 2).reshape(b, n, width))


class Block(nn.Module):
    """x + attention, then x + a two-layer perceptron, each behind a layer norm."""

    def __init__(self, width: int, heads: int, attend: Attend) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads, attend)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class CharacterModel(nn.Module):
    """[batch, length] character numbers -> [batch, length, letters] scores of the next one. ``attend`` must be causal."""

    def __init__(self, letters: int, attend: Attend, *, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        checks.function("attend", attend)
        for name, value in (
            ("letters", letters),
            ("width", width),
            ("heads", heads),
            ("layers", layers),
            ("length", length),
        ):
            checks.whole(name, value, 1, most=2**16)
        if width % heads:
            raise ValueError(f"width is {width} and heads is {heads}; pass a width that is a multiple of the heads")
        self.tok_emb, self.pos_emb = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, attend) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, letters, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if checks.readable("x", x).dtype not in (torch.int64, torch.int32):
            raise TypeError(f"x has dtype {x.dtype}; pass numbers of characters, for example x.long()")
        if x.dim() != 2 or x.shape[1] > self.pos_emb.num_embeddings:
            raise ValueError(
                f"x has shape {list(x.shape)}; pass [batch, length], length at most {self.pos_emb.num_embeddings}"
            )
        positions = torch.arange(x.shape[1], device=x.device)
        return self.lm_head(self.ln_f(self.blocks(self.tok_emb(x) + self.pos_emb(positions))))


class Run(NamedTuple):
    """The loss of each step, in nats a character, and the seconds of each step."""

    losses: list[float]
    seconds: list[float]


def train(
    attend: Attend,
    text: str,
    *,
    steps: int,
    batch: int,
    length: int,
    width: int,
    heads: int,
    layers: int,
    lr: float,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    compiled: bool = False,
) -> Run:
    """Train a CharacterModel on ``text`` from a fixed start, on fixed batches: only ``attend`` differs from run to run.

    ``dtype`` other than float32 means autocast. ``compiled`` puts the model through torch.compile(fullgraph=True), which
    raises on a graph break. Raises ValueError for a text that is shorter than one row of a batch, TypeError
    or ValueError for other arguments out of their range.
    """
    checks.text("text", text)
    checks.positive_int("steps", steps)
    for name, value in (("batch", batch), ("length", length)):
        checks.whole(name, value, 1, most=2**16)
    checks.number("lr", lr, above=0)
    checks.one_of("dtype", dtype, (torch.float32, torch.float16, torch.bfloat16))
    checks.truth("compiled", compiled)
    if not isinstance(device, str | torch.device) or str(device).split(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f"device is {checks.shown(device)}; pass 'cpu' or 'cuda'")
    if len(text) < length + 2:
        raise ValueError(f"text has {len(text)} characters; pass at least {length + 2} (length + 2)")
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    tokens = torch.tensor([number[letter] for letter in text], device=device)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = CharacterModel(len(letters), attend, width=width, heads=heads, layers=layers, length=length).to(device)
    forward = torch.compile(model, fullgraph=True) if compiled else model
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr)
    order = torch.Generator().manual_seed(0)
    run = Run([], [])
    for _ in measure.progress(range(steps), "training"):
        begin = time.perf_counter()
        starts = torch.randint(len(text) - length - 1, (batch,), generator=order).tolist()
        rows = torch.stack([tokens[start : start + length + 1] for start in starts])
        with torch.autocast(torch.device(device).type, dtype, enabled=dtype != torch.float32):
            scores = forward(rows[:, :-1])
        loss = nn.functional.cross_entropy(scores.float().flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        run.losses.append(loss.item())
        run.seconds.append(time.perf_counter() - begin)
    return run
