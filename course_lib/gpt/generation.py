"""Let a GPT go on with a text, with the keys and values kept or without."""

from collections.abc import Callable, Iterator
from functools import partial

import torch

from course_lib import checks
from course_lib.gpt.model import GPT, Cache, check_characters, inner
from course_lib.instruments import measure
from course_lib.kernels.arguments import autocast_dtype
from course_lib.kernels.kv_cache import KVCache

MakeCache = Callable[[int, int, int, int, torch.dtype, torch.device], Cache]  # batch, heads, D, room, dtype, device


class PlainCache:
    """Keys and values as tensors that grow, and torch's softmax, in any dtype: float64 too, which no kernel takes.

    With ``window`` the oldest are dropped and the others stay as they are.
    """

    def __init__(
        self, batch: int, heads: int, d: int, room: int, dtype: torch.dtype, device: torch.device, window: int | None = None
    ) -> None:  # fmt: skip
        self.k, self.v = (torch.empty(batch, heads, 0, d, dtype=dtype, device=device) for _ in "kv")
        self.window = window

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        begin = 0 if self.window is None else -self.window
        self.k, self.v = (torch.cat(x, dim=2)[:, :, begin:] for x in ((self.k, k), (self.v, v)))

    def attend(self, q: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ self.k.mT * q.shape[-1] ** -0.5, dim=-1) @ self.v


def stream(
    model: GPT,
    idx: torch.Tensor,
    *,
    cache: str | MakeCache | None = None,
    room: int | None = None,
    window: int | None = None,
    temperature: float = 0.0,
    seed: int = 0,
) -> Iterator[torch.Tensor]:
    """The characters that follow ``idx`` [B, N], one [B, 1] after the other, without end, or ``room`` of them with KVCache.

    The arguments are those of ``generate``.
    """
    inside = inner(model)
    if checks.readable("idx", idx).dim() != 2 or idx.is_floating_point():
        raise ValueError(f"idx has shape {list(idx.shape)} and dtype {idx.dtype}; pass numbers of characters, [B, N]")
    check_characters("idx", idx, model)
    checks.number("temperature", temperature, least=0)
    checks.whole("seed", seed, 0, most=2**31)
    sizes, chance = inside.config, torch.Generator().manual_seed(seed)
    if window is not None:
        checks.positive_int("window", window)
    if sizes["positions"] == "learned":
        window = min(window or sizes["block_size"], sizes["block_size"])
        if cache == "KVCache" and room is not None and idx.shape[1] + room - 1 <= window:
            window = None  # all fit
    caches = None if cache is None else _caches(cache, inside, idx, room, window)
    fed, begin, seen = idx if window is None else idx[:, -window:], 0, idx
    while True:
        with torch.no_grad():
            scores = model(fed) if caches is None else model(fed, caches, begin)
            new = _chosen(scores[:, -1], temperature, chance)
        yield new
        if caches is None:
            seen = torch.cat((seen, new), dim=1)
            fed = seen if window is None else seen[:, -window:]
        else:
            fed, begin = new, begin + fed.shape[1]


def generate(
    model: GPT,
    idx: torch.Tensor,
    new: int,
    *,
    cache: str | MakeCache | None = None,
    window: int | None = None,
    temperature: float = 0.0,
    seed: int = 0,
    progress: bool = False,
) -> torch.Tensor:
    """``idx`` [B, N] and ``new`` characters more, [B, N + new].

    ``cache``: None computes all that is seen anew for each character; 'KVCache' keeps keys and values in ours and takes ``decode``
    (float32, float16, bfloat16); 'plain' keeps them in a ``PlainCache``; a function (batch, heads, D, room, dtype, device) makes another
    one for each layer. ``window``: only the last so many characters are seen; without a cache they are fed anew, as positions
    0 … window - 1. Learned positions have block_size places, which is then their window: all positions move with each character, and what
    a cache holds is no longer right. ``temperature`` 0 takes the likeliest character, another one divides the scores before one is drawn.
    Raises TypeError or ValueError for other arguments.
    """
    checks.positive_int("new", new)
    checks.truth("progress", progress)
    following = stream(model, idx, cache=cache, room=new, window=window, temperature=temperature, seed=seed)
    steps = measure.progress(range(new), "characters") if progress else range(new)
    return torch.cat((idx, *(next(following) for _ in steps)), dim=1)


def _caches(cache: str | MakeCache, model: GPT, idx: torch.Tensor, room: int | None, window: int | None) -> list[Cache]:
    """One for each layer."""
    sizes, weight = model.config, model.lm_head.weight
    if cache == "plain":
        make: MakeCache = partial(PlainCache, window=window)
    elif callable(cache) or cache == "KVCache":
        if window is not None:
            raise ValueError(f"window is {window}, and this cache keeps all characters; pass cache='plain' or None")
        make = cache if callable(cache) else library_cache
    else:
        raise ValueError(f"cache is {checks.shown(cache)}; pass None, 'KVCache', 'plain' or a function that makes one")
    if room is None and cache != "plain":
        raise ValueError("room is None; pass how many characters are to come")
    heads = sizes["n_head"]
    shape = len(idx), heads, sizes["n_embd"] // heads, idx.shape[1] + (room or 0)
    dtype = autocast_dtype(weight) or weight.dtype
    return [make(*shape, dtype, weight.device) for _ in range(sizes["n_layer"])]


def library_cache(batch: int, heads: int, d: int, room: int, dtype: torch.dtype, device: torch.device | str) -> KVCache:
    """A layer's ``KVCache``, as ``stream`` asks for it."""
    return KVCache(batch, heads, d, room, dtype=dtype, device=device)


def _chosen(scores: torch.Tensor, temperature: float, chance: torch.Generator) -> torch.Tensor:
    """[B, vocab_size] -> [B, 1]; what is drawn comes from the CPU's generator: the same on each device."""
    if temperature == 0:
        return scores.argmax(dim=-1, keepdim=True)
    sums = torch.softmax(scores.double() / temperature, dim=-1).cumsum(dim=-1)
    drawn = torch.rand(len(scores), 1, generator=chance, dtype=torch.float64, device="cpu").to(scores.device)
    return (sums < drawn * sums[:, -1:]).sum(dim=-1, keepdim=True).clamp(max=scores.shape[-1] - 1)
