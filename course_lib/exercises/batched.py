"""The kernel that launch_it launches: attention for a batch of heads, at any strides. It checks nothing: its launcher has to."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.kernels import tl, triton

OPTIONS = ("num_warps", "num_stages")  # for the compiler


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, heads, group, n_q, n_k, d, scale,
    q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head, o_batch, o_row, o_head,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M rows of O for head tl.program_id(1) % heads of sequence tl.program_id(1) // heads; D: d rounded up to a power of two.

    Strides are in numbers; those of a row lie one after another. Under CAUSAL a query sees the keys up to its own row.
    """
    batch, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    first = tl.program_id(0) * BLOCK_M
    rows, dims = first + tl.arange(0, BLOCK_M), tl.arange(0, D)[None, :]
    here = (rows[:, None] < n_q) & (dims < d)
    q = tl.load(q_ptr + batch * q_batch + head * q_head + rows[:, None] * q_row + dims, mask=here, other=0.0)
    k_ptr += batch * k_batch + head // group * k_head
    v_ptr += batch * v_batch + head // group * v_head
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, tl.minimum(n_k, first + BLOCK_M) if CAUSAL else n_k, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        there = (keys[:, None] < n_k) & (dims < d)
        k = tl.load(k_ptr + keys[:, None] * k_row + dims, mask=there, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * v_row + dims, mask=there, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = keys[None, :] < n_k
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        s = tl.where(seen, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        correction = tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + batch * o_batch + head * o_head + rows[:, None] * o_row + dims, acc / l[:, None], mask=here)


class Watched:
    """A kernel that notes its launches as plain data: the grid, the arguments by name, and the options for the compiler.

    A tensor is noted as (the number of the one of ``given`` that it is a part of, or all numbers that it is a part of; strides, offset).
    """

    def __init__(self, kernel: Any, given: Sequence[torch.Tensor]):
        self._kernel, self._given = kernel, given
        self.launches: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> None:
            options: dict[str, Any] = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
            named = inspect.signature(self._kernel.fn).bind(*args, **kwargs).arguments
            asked = grid(dict(named)) if callable(grid) else grid
            self.launches.append((asked, {name: self._told(x) for name, x in named.items()}, options))
            self._kernel[asked](*args, **kwargs)

        return launch

    def _told(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        place = x.untyped_storage().data_ptr()
        known = (i for i, other in enumerate(self._given) if other.untyped_storage().data_ptr() == place)
        return next(known, _whole(x)), list(x.stride()), x.storage_offset()


class Launch:
    """One of the launches that were noted, as it is judged: with ``given`` as the case has them."""

    def __init__(self, noted: Any, given: Sequence[torch.Tensor]):
        grid, self._named, options = noted
        three = isinstance(grid, tuple | list) and len(grid) == 3 and grid[2] == 1
        self.grid = grid[:2] if three else grid
        self._given = given
        self.stages = options.get("num_stages")
        self.tiles = tuple(self._named.get(name) for name in ("D", "BLOCK_M", "BLOCK_N"))

    @property
    def copies(self) -> int:
        """How many of Q, K and V are not those that were given."""
        places = (self._named[f"{name}_ptr"] for name in "qkv")
        return sum(
            self._whole(x).data_ptr() != _whole(y).data_ptr() or x[2] != y.storage_offset()
            for x, y in zip(places, self._given)
        )

    def makes(self, o: torch.Tensor, causal: bool) -> bool:
        """Whether its arguments say where each number of Q, K and V lies, that the kernel writes ``o``, and what it is to compute."""
        (_, n_q, heads, d), (_, n_k, kv_heads, _) = (x.shape for x in self._given[:2])
        sizes = {"heads": heads, "group": heads // kv_heads, "n_q": n_q, "n_k": n_k, "d": d, "CAUSAL": causal}
        if any(self._named[name] != size for name, size in sizes.items()):
            return False
        there = all(torch.equal(self._view(name, x.shape), x) for name, x in zip("qkvo", (*self._given, o)))
        return there and math.isclose(self._named["scale"], d**-0.5, rel_tol=1e-6)

    def _view(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        place = self._named[f"{name}_ptr"]
        return self._whole(place).as_strided(
            shape, (*(self._named[f"{name}_{of}"] for of in ("batch", "row", "head")), 1), place[2]
        )

    def _whole(self, place: tuple[Any, ...]) -> torch.Tensor:
        return place[0] if isinstance(place[0], torch.Tensor) else _whole(self._given[place[0]])


def _whole(x: torch.Tensor) -> torch.Tensor:
    """All numbers that a tensor is a part of; if they change, so do these."""
    return x.detach().as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
