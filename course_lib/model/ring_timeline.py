"""A simulated ring of GPUs, from the rate of a kernel and of a link: who computes, who sends, who waits.

It follows ``course_lib.parallel.ring``, batch by batch: keys are on their way while the keys before them are multiplied, a message
begins when its sender and its receiver are both at that step, and a step begins when the step before is computed and its messages have
arrived. Every rank has a link of its own in each direction, as behind an NVSwitch.

What it leaves out: the kernel runs at one rate, whatever the size of a block; copies take neither multiprocessors nor memory
bandwidth from it; links between machines, which several GPUs share; clocks that fall under load; what a host needs to launch.
Merges and other work of a step beside attention are one constant, ``other``.
"""

from typing import NamedTuple

import torch

from course_lib import checks
from course_lib.model.cost import element_bytes
from course_lib.model.parallel import hops, owned, step_pairs

MOST_RANKS = 1024
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
    step in which a rank computes, beside attention. Raises TypeError or ValueError for other arguments.
    """
    checks.whole("ranks", ranks, 1, MOST_RANKS)
    for name, value in (("heads", heads), ("kv_heads", kv_heads), ("d", d)):
        checks.positive_int(name, value)
    for name, rate in (("flops_per_s", flops_per_s), ("link_bytes_per_s", link_bytes_per_s)):
        checks.number(name, rate, above=0)
    for name, seconds in (("latency", latency), ("other", other)):
        checks.number(name, seconds, least=0)
    checks.truth("backward", backward)
    pair = 4 * heads * d * (BACKWARD if backward else 1) / flops_per_s
    pairs = torch.tensor(step_pairs(order, ranks, length, causal), dtype=torch.float64)
    work = pairs * pair + other * (pairs > 0)
    if backward:  # a batch more than there are steps: the last sums go home
        work = torch.cat([work, work.new_zeros(1, ranks)])
    compute, send = [], []
    ready, next_rank = work.new_zeros(ranks), (torch.arange(ranks) + 1) % ranks
    batches = _messages(order, ranks, length, causal, 2 * kv_heads * d, element_bytes(dtype), backward)
    for duration, (keys, sums, to) in zip(work, batches, strict=True):
        done = ready + duration
        compute.append(torch.stack([ready, done], -1))
        on_the_way = latency + (keys + sums) / link_bytes_per_s
        first, last = ready.clone(), ready.clone()
        for size, there in ((keys, next_rank), (sums, to)):
            start = torch.maximum(ready, ready[there])
            end = torch.where(size > 0, start + on_the_way, ready)
            first, last = torch.where(size > 0, start, first), torch.maximum(last, end)
            done = torch.maximum(done, end).scatter_reduce(0, there, end, "amax")
        send.append(torch.stack([first, last], -1))
        ready = done
    return Timeline(torch.stack(compute), torch.stack(send))


def _messages(
    order: str, ranks: int, length: int, causal: bool, numbers: int, size: int, backward: bool
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Of each batch the bytes that each rank sends, of keys to the next one and, a step behind them, of sums for dK and dV; and to whom
    these go: to the next one, too, or home. All [P]."""
    rank = torch.arange(ranks)
    far = torch.tensor([hops(order, ranks, source, length, causal) for source in range(ranks)])
    block = torch.tensor([owned(order, ranks, source, length) * numbers for source in range(ranks)])
    found = []
    for step in range(ranks + backward):
        source = (rank - step) % ranks
        keys = block[source] * size * (far[source] > step)
        source = (rank - step + 1) % ranks
        sums = block[source] * 4 * (far[source] + 1 >= step) * (backward and step >= 2)
        found.append((keys, sums, torch.where(far[source] >= step, (rank + 1) % ranks, source)))
    return found
