"""A simulated ring of GPUs, from the rate of a kernel and of a link: who computes, who sends, who waits.

It follows ``course_lib.parallel.ring``, batch by batch: keys are on their way while the keys before them are multiplied, a message
begins when its sender and its receiver are both at that step, and a step begins when the step before is computed and its messages have
arrived. Every rank has a link of its own in each direction, as behind an NVSwitch.

What it leaves out: the kernel runs at one rate, whatever the size of a block; copies take neither multiprocessors nor memory
bandwidth from it; links between machines, which several GPUs share; clocks that fall under load; what a host needs to launch.
Merges and other work of a step beside attention are one constant, ``other``.
"""

import functools
from typing import NamedTuple

import torch

from course_lib.model.cost import element_bytes
from course_lib.model.parallel import hops, owned, step_pairs

BACKWARD = 2.5  # times the operations of the forward pass


class Span(NamedTuple):
    """Work of a rank, in seconds; lane is 'compute' or 'send'."""

    rank: int
    lane: str
    step: int
    start: float
    end: float


class Timeline(NamedTuple):
    """Begin and end of each rank's work at each step, [steps, P, 2] in seconds; equal where there is none."""

    compute: torch.Tensor
    send: torch.Tensor

    @property
    def seconds(self) -> float:
        """When the last rank is done."""
        return float(torch.maximum(self.compute, self.send).max())

    @property
    def busy(self) -> float:
        """The share of their time in which the ranks compute; times P, the speed-up over one GPU with the same rate and no ``other``."""
        return float((self.compute[..., 1] - self.compute[..., 0]).sum()) / (self.compute.shape[1] * self.seconds)

    def spans(self) -> list[Span]:
        """What takes time, by rank, lane and step: for drawing a few ranks."""
        return [
            Span(rank, lane, step, float(start), float(end))
            for rank in range(self.compute.shape[1])
            for lane in ("compute", "send")
            for step, (start, end) in enumerate(getattr(self, lane)[:, rank].tolist())
            if end > start
        ]


def simulate(
    order: str,
    ranks: int,
    length: int,
    heads: int,
    kv_heads: int,
    d: int,
    flops_per_s: float,
    link_bytes_per_s: float,
    dtype: str | torch.dtype = "bf16",
    causal: bool = False,
    backward: bool = False,
    latency: float = 0.0,
    other: float = 0.0,
) -> Timeline:
    """The timeline of one pass of ring attention over one sequence of ``length`` tokens on ``ranks`` GPUs.

    ``flops_per_s``: of the kernel of that pass, as measured, 4 D operations a head for each pair that the mask leaves (``backward``: 10
    D). ``link_bytes_per_s``: what a GPU sends while it receives. ``latency``: seconds of a message besides; ``other``: seconds of a
    step in which a rank computes, beside attention.
    """
    pair = 4 * heads * d * (BACKWARD if backward else 1) / flops_per_s
    pairs = _pairs(order, ranks, length, causal)
    work = pairs * pair + other * (pairs > 0)
    if backward:
        # A batch more than there are steps: the last sums go home, while half of the heads meet a rank's own keys.
        late = work[:1] / 2 if kv_heads > 1 and ranks > 1 else work.new_zeros(1, ranks)
        work = torch.cat([work[:1] - late, work[1:], late])
    spans, ready = [], work.new_zeros(ranks)
    messages = _messages(order, ranks, length, causal, 2 * kv_heads * d, element_bytes(dtype), backward)
    on_the_way = latency + torch.stack([message.size for message in messages]).sum(0) / link_bytes_per_s
    for step, duration in enumerate(work):
        done = ready + duration
        computed, first, last = done, ready, ready
        for size, to in messages:
            there, sends = to[step], size[step] > 0
            start = torch.maximum(ready, ready[there])
            end = torch.where(sends, start + on_the_way[step], ready)
            first, last = torch.where(sends, start, first), torch.maximum(last, end)
            done = torch.maximum(done, end).scatter_reduce(0, there, end, "amax")
        spans += [ready, computed, first, last]
        ready = done
    return Timeline(*torch.stack(spans).view(len(work), 2, 2, ranks).permute(1, 0, 3, 2))


@functools.lru_cache(maxsize=8)  # those of one picture, which differ in their links
def _pairs(order: str, ranks: int, length: int, causal: bool) -> torch.Tensor:
    """``step_pairs`` as float64 [P, P]."""
    return torch.tensor(step_pairs(order, ranks, length, causal), dtype=torch.float64)


class _Messages(NamedTuple):
    """Bytes that each rank sends at each step, and to whom: both [steps, P]."""

    size: torch.Tensor
    to: torch.Tensor


def _messages(
    order: str, ranks: int, length: int, causal: bool, numbers: int, size: int, backward: bool
) -> list[_Messages]:
    """The keys, which go to the next rank, and backward, a step behind them, the sums for dK and dV: to the next one, too, or home."""
    rank, step = torch.arange(ranks), torch.arange(ranks + backward)[:, None]
    far = torch.tensor([hops(order, ranks, source, length, causal) for source in range(ranks)])
    block = torch.tensor([owned(order, ranks, source, length) * numbers for source in range(ranks)])
    source, following = (rank - step) % ranks, ((rank + 1) % ranks).expand(ranks + backward, -1)
    found = [_Messages(block[source] * size * (far[source] > step), following)]
    if backward:
        source = (source + 1) % ranks
        sums = block[source] * 4 * (far[source] + 1 >= step) * (step >= 2)
        found.append(_Messages(sums, torch.where(far[source] >= step, following, source)))
    return found
