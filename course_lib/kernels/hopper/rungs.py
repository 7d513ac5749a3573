"""The rungs of the ladder, from the Online kernel to the top of an H200, and which of them suits a problem."""

from typing import NamedTuple

import torch

from course_lib import runtime


class Rung(NamedTuple):
    """One step of the ladder: what is new, and how it is launched. Blocks are those for D <= 64 and for D <= 128."""

    name: str
    new: str
    blocks: tuple[tuple[int, int], tuple[int, int]] = ((64, 64), (64, 64))
    num_warps: tuple[int, int] = (4, 4)
    num_stages: tuple[int, int] = (3, 3)
    exp2: bool = True
    skip_blocks: bool = True
    descriptors: bool = False
    persistent: bool = False
    programs_per_sm: tuple[int, int] = (1, 1)
    specialised: bool = False
    in_flight: int = 1
    ping_pong: bool = False
    late_wait: bool = False


_PLAIN = Rung("Online", "the kernel of lecture 05, for many heads", exp2=False, skip_blocks=False)
_EXP2 = _PLAIN._replace(name="exp2", new="powers of two, log2 e folded into the scale", exp2=True)
# From tuned to TMA: the best blocks, warps and stages of 36 (recording forward_blocks), with and without a mask; at D = 128
# TMA takes the second best, by 1 %, as the best spills once it is persistent.
_TUNED = _EXP2._replace(name="tuned", new="blocks, warps and stages by measurement")
_SKIPPING = _TUNED._replace(
    name="causal block skipping", new="full blocks without a mask, hidden blocks not visited", skip_blocks=True,
    blocks=((64, 64), (128, 64)), num_warps=(4, 8),
)  # fmt: skip
_TMA = _SKIPPING._replace(
    name="TMA", new="tiles by descriptors", descriptors=True,
    blocks=((64, 128), (64, 64)), num_warps=(4, 4), num_stages=(2, 3),
)  # fmt: skip
_PERSISTENT = _TMA._replace(
    name="persistent", new="as many programs as the SMs hold, tiles from a queue, in an order that keeps K and V in L2",
    persistent=True, programs_per_sm=(3, 2),
)  # fmt: skip
_SPECIALISED = Rung("specialised", "one warp copies, warpgroups compute", descriptors=True, specialised=True)
_OVERLAP = _SPECIALISED._replace(name="overlap", new="S of the next block issued before P V of this one", in_flight=2)
_PING_PONG = _OVERLAP._replace(name="ping-pong", new="warpgroups issue their matmuls in turn", ping_pong=True)
_LATE_WAIT = _OVERLAP._replace(
    name="late wait", new="a barrier keeps the wait for P V behind the maximum of the next block", late_wait=True
)
_LADDER = (_PLAIN, _EXP2, _TUNED, _SKIPPING, _TMA, _PERSISTENT, _SPECIALISED, _OVERLAP, _PING_PONG, _LATE_WAIT)
RUNGS = {rung.name: rung for rung in _LADDER}
THREE_MATMULS = _OVERLAP._replace(
    name="three matmuls", new="S of the block after the next is under way, too", in_flight=3
)


class Tiling(NamedTuple):
    """Tiles of the specialised kernel: warpgroups that compute, 64 rows of q each; keys a block; buffers of the ring."""

    consumers: int
    block_n: int
    stages: int


TILINGS = {64: Tiling(3, 128, 3), 128: Tiling(2, 128, 2)}  # of the last four rungs, for D <= 64 and D <= 128


def best(d: int, causal: bool, n_k: int) -> tuple[Rung, Tiling]:
    """The rung and its tiles: the fastest in short runs on an H200 or H100, bf16, N = 512 … 16k, or within 3 % of it."""
    if d > 64:
        return _SPECIALISED if causal and n_k < 1024 else _LATE_WAIT, TILINGS[128]
    if causal and n_k < 4096:  # rows are short: fewer of them in a tile
        return _LATE_WAIT, Tiling(2, 128, 4)
    return _PING_PONG, TILINGS[64]


def too_small(q: torch.Tensor, causal: bool, n_k: int) -> str:
    """Why the portable kernel, whose tiles are smaller, is faster for this q [B, H, Nq, D]; '' if it is not.

    The limits are from short runs on an H200: tiles for each SM that repay the specialised kernel's start.
    """
    b, h, n_q, d = q.shape
    shortest, waves = (512, 4.0) if d <= 64 else (128, 1.5 if causal else 0.0)
    rows = 64 * best(d, causal, n_k)[1].consumers
    tiles, sms = -(-n_q // rows) * b * h, runtime.multiprocessors(q.device)
    if n_q < shortest:
        return f"{n_q} queries are few for its tiles of {rows}"
    return f"{tiles} tiles of {rows} queries are few for {sms} SMs" if tiles < waves * sms else ""
