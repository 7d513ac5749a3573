"""A student's kernels in a model: causal attention from ``window_kernel``, a KV cache from ``decode_kernel``; else the library's.

own = own_attention()
o = own.attend(q, k, v)  # [B, H, N, 16 or 32] each, float32
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from course_lib.attention import attention
from course_lib.exercises import passed
from course_lib.exercises.exercise import defined
from course_lib.gpt.generation import library_cache
from course_lib.instruments.peers import plain_attention
from course_lib.kernels import triton

BLOCK = 16  # queries and keys of a program
SIZES = (16, 32)  # numbers of a head that window_kernel is asked for
LESSON = {"window_kernel": "05", "decode_kernel": "08"}


class Own(NamedTuple):
    """Causal attention (q, k, v) -> o for a model, whether it is the student's own, and the same in words."""

    attend: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]
    yours: bool
    words: str


class OwnCache(NamedTuple):
    """A function that makes a layer's cache, whether the student's own kernel attends in it, and the same in words."""

    make: Callable[..., Any]
    yours: bool
    words: str


def own_attention() -> Own:
    """Causal attention (q, k, v) -> o, [B, H, N, 16 or 32] each in float32, by the student's ``window_kernel``; else ``attention()``.

    Its gradients are plain PyTorch's, by the formulas of lecture 07.
    """
    kernel = own_kernel("window_kernel")
    if kernel is None:
        return Own(lambda q, k, v: attention(q, k, v, causal=True), False, _instead("attention()", "window_kernel"))
    return Own(with_gradients(lambda q, k, v: causal(kernel, q, k, v)), True, _found("window_kernel"))


def own_cache() -> OwnCache:
    """A function (batch, heads, d, room, dtype, device) -> a cache with ``append(k, v)`` and ``attend(q)``, for one layer.

    It attends by the student's ``decode_kernel``; else it is the library's ``KVCache``.
    """
    kernel = own_kernel("decode_kernel")
    if kernel is None:
        return OwnCache(library_cache, False, _instead("KVCache", "decode_kernel"))
    return OwnCache(lambda *sizes: PagedCache(kernel, *sizes), True, _found("decode_kernel"))


def own_kernel(name: str) -> Any:
    """The student's kernel for an exercise, as it was when it last passed; None if it never did, or if its code no longer runs."""
    try:
        return defined(passed.code(name), name)
    except Exception:  # the student's code, and what it imports
        return None


def _found(name: str) -> str:
    return f"your {name}, as it passed its check"


def _instead(ours: str, name: str) -> str:
    noted = name in passed.names()
    when = "run its check again, as its code was not kept" if noted else "it comes in once it has passed its check"
    return f"{ours} of the course; your {name} is lecture {LESSON[name]}'s: {when}"


def causal(kernel: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention, [B, H, N, 16 or 32], by a kernel with a sliding window, here as long as the sequence: a launch for each head."""
    batch, heads, n, d = q.shape
    if d not in SIZES:
        raise ValueError(f"heads have {d} numbers; window_kernel is used with {' or '.join(map(str, SIZES))}")
    q, k, v = (x.contiguous() for x in (q, k, v))
    o = torch.empty_like(q)
    for b in range(batch):
        for h in range(heads):
            kernel[(triton.cdiv(n, BLOCK),)](
                q[b, h], k[b, h], v[b, h], o[b, h], n, d**-0.5, n, D=d, BLOCK_M=BLOCK, BLOCK_N=BLOCK
            )
    return o


def with_gradients(forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``forward`` with the gradients of plain causal attention at its inputs, which PyTorch computes beside it."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        plain = plain_attention(q, k, v, causal=True)
        return plain + (forward(q.detach(), k.detach(), v.detach()) - plain.detach())

    return attend


class PagedCache:
    """Keys and values of one layer in pages of 16, for sequences of one length; ``decode_kernel`` attends, one token at a time.

    Raises ValueError for what the kernel cannot: other numbers than float32, several tokens, more of them than there is room for.
    """

    def __init__(
        self, kernel: Any, batch: int, heads: int, d: int, room: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        if dtype != torch.float32:
            raise ValueError(f"dtype is {dtype}; decode_kernel takes torch.float32")
        self.kernel, self.length, self.slots = kernel, 0, triton.cdiv(room, BLOCK)
        pool = (batch * self.slots, heads, BLOCK, d)
        self.k, self.v = (torch.full(pool, torch.nan, device=device) for _ in "kv")
        self.table = torch.arange(pool[0], dtype=torch.int32, device=device).view(batch, self.slots)

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """Add the same number of tokens to each sequence: k and v [batch, heads, n, d]."""
        n = k.shape[2]
        if self.length + n > self.slots * BLOCK:
            raise ValueError(
                f"{n} tokens are to come and {self.length} are there; there is room for {self.slots * BLOCK}"
            )
        for i in range(n):
            slot, row = divmod(self.length + i, BLOCK)
            self.k[self.table[:, slot], :, row], self.v[self.table[:, slot], :, row] = k[:, :, i], v[:, :, i]
        self.length += n

    def attend(self, q: torch.Tensor) -> torch.Tensor:
        """The attention of the newest token, q [batch, heads, 1, d], over all that are there."""
        batch, heads, n, d = q.shape
        if n != 1:
            raise ValueError(f"q has {n} tokens; decode_kernel takes the newest alone")
        o, L = q.new_empty(1, batch, heads, d), q.new_empty(1, batch, heads)
        lengths = torch.full((batch,), self.length, dtype=torch.int32, device=q.device)
        self.kernel[(batch * heads, 1)](
            q[:, :, 0].contiguous(), self.k, self.v, lengths, self.table, o, L, batch, heads, self.slots, 1, d**-0.5,
            G=1, D=d, PAGE=BLOCK,
        )  # fmt: skip
        return o[0][:, :, None]
