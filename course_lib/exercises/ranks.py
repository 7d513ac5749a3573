"""Ranks of a process group as generators: what they yield is a request for a message, and who waits for ever is named."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch

MOST = 10_000  # requests of all ranks


class Waits(Exception):  # noqa: N818 - a state, not an error
    """The rank cannot go on now."""


class Ranks:
    """Generators that take turns. ``seen`` is what each has asked for so far, 'post', 'wait', 'exchange', and what others note there.

    ("post", *tensors): begins to send them to the next rank and to receive as many from the one before; gives tensors that hold NaN
    until they have arrived. ("wait",): until the oldest post has arrived. ("exchange", tensors): one tensor to each rank, one from
    each. ``trouble`` says in words what went wrong, '' if nothing did.
    """

    def __init__(self, make: Callable[[int], Any], ranks: int):
        self.ranks, self.trouble = ranks, ""
        self.seen: list[list[str]] = [[] for _ in range(ranks)]
        self._coming: list[deque[tuple[torch.Tensor, ...]]] = [deque() for _ in range(ranks)]  # messages to each rank
        self._empty: list[deque[tuple[torch.Tensor, ...]]] = [deque() for _ in range(ranks)]  # where these are to go
        self._given: list[list[torch.Tensor] | None] = [None] * ranks  # what each has put into an exchange
        self._taken: list[bool] = [False] * ranks
        self._make = make

    def results(self) -> list[Any]:
        """What the generators return, None of those that do not come so far; all take turns until all are done or all wait."""
        running: list[Any] = [self._make(rank) for rank in range(self.ranks)]
        for rank, rank_code in enumerate(running):
            if not isinstance(rank_code, Generator):
                self.trouble = f"rank {rank} returns at once: without a yield it is no generator"
                return [None] * self.ranks
        found: list[Any] = [None] * self.ranks
        asks: list[Any] = [next] * self.ranks  # a rank's open request; next: it has not begun
        left, count = list(range(self.ranks)), 0
        while left and not self.trouble:
            before = count
            for rank in list(left):
                while not self.trouble:
                    try:
                        answer = None if asks[rank] is next else self._answer(rank, asks[rank])
                        asks[rank] = running[rank].send(answer)
                    except Waits:
                        break
                    except StopIteration as end:
                        found[rank] = end.value
                        left.remove(rank)
                        count += 1
                        if self._empty[rank]:
                            self.trouble = f"rank {rank} ends before a message that it has begun has arrived"
                        break
                    count += 1
                    if count > MOST:
                        self.trouble = f"rank {rank} asks for ever more messages"
            if left and count == before:
                self.trouble = f"rank {left[0]} waits for a message that nobody sends"
        return found

    def _answer(self, rank: int, request: Any) -> Any:
        """What the rank gets for its request. Raises Waits if it has to wait; sets ``trouble`` for a request that there is not."""
        kind = request[0] if isinstance(request, tuple) and request else None
        if kind == "post" and len(request) > 1 and all(isinstance(x, torch.Tensor) for x in request[1:]):
            self.seen[rank].append("post")
            self._coming[(rank + 1) % self.ranks].append(tuple(x.clone() for x in request[1:]))
            empty = tuple(torch.full_like(x, torch.nan) for x in request[1:])
            self._empty[rank].append(empty)
            return empty if len(empty) > 1 else empty[0]
        if kind == "wait" and self._empty[rank]:
            if not self._coming[rank]:
                raise Waits
            self.seen[rank].append("wait")
            self._fill(rank, self._empty[rank].popleft(), self._coming[rank].popleft())
            return None
        if kind == "exchange" and len(request) == 2 and self._are_shares(request[1]):
            return self._exchange(rank, list(request[1]))
        self.trouble = (
            f"rank {rank} waits, but has begun no message"
            if kind == "wait"
            else f"rank {rank} yields what is no request"
        )
        raise Waits

    def _fill(self, rank: int, empty: Sequence[torch.Tensor], message: Sequence[torch.Tensor]) -> None:
        if [x.shape for x in empty] != [x.shape for x in message]:
            self.trouble = f"rank {rank} receives tensors of other shapes than it sends"
            return
        for x, y in zip(empty, message, strict=True):
            x.copy_(y)

    def _are_shares(self, shares: Any) -> bool:
        return (
            isinstance(shares, list | tuple)
            and len(shares) == self.ranks
            and all(isinstance(x, torch.Tensor) for x in shares)
        )

    def _exchange(self, rank: int, shares: list[torch.Tensor]) -> list[torch.Tensor]:
        if self._given[rank] is None:
            self._given[rank] = [x.clone() for x in shares]
            self.seen[rank].append("exchange")
        given = [x for x in self._given if x is not None]
        if len(given) < self.ranks or self._taken[rank]:
            raise Waits
        self._taken[rank] = True
        mine = [x[rank] for x in given]
        if all(self._taken):
            self._given, self._taken = [None] * self.ranks, [False] * self.ranks
        return mine


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """o and L of q [H, n, d] over k and v [Hk, m, d]; consecutive heads of q share one of k and v."""
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], dim=0) for x in (k, v))
    s = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return s.softmax(-1) @ v, s.logsumexp(-1)
