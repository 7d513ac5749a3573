"""Ranks of a process group as generators: what they yield is a request for a message, and who waits for ever is named."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercises.turns import Turns, Waits


class Ranks(Turns):
    """Generators that take turns. ``seen`` is what each has asked for so far, 'post', 'wait', 'exchange', and what others note there.

    ("post", *tensors): begins to send them to the next rank and to receive as many from the one before; gives tensors that hold NaN
    until they have arrived. ("wait",): until the oldest post has arrived. ("exchange", tensors): one tensor to each rank, one from
    each; ``sent`` counts their numbers. ``trouble`` says in words what went wrong, '' if nothing did.
    """

    def __init__(self, make: Callable[[int], Any], ranks: int):
        self.ranks = ranks
        self.seen: list[list[str]] = [[] for _ in range(ranks)]
        self._coming: list[deque[tuple[torch.Tensor, ...]]] = [deque() for _ in range(ranks)]  # messages to each rank
        self._empty: list[deque[tuple[torch.Tensor, ...]]] = [deque() for _ in range(ranks)]  # where these are to go
        self._given: list[list[torch.Tensor] | None] = [None] * ranks  # what each has put into an exchange
        self._taken: list[bool] = [False] * ranks
        self.sent = [0] * ranks  # numbers that each has put into exchanges, its own share included
        self._make = make

    def results(self) -> list[Any]:
        """What the generators return, None of those that do not come so far; all take turns until all are done or all wait."""
        return self.run([self._make(rank) for rank in range(self.ranks)])

    def name(self, who: int) -> str:
        """What a rank is called in ``trouble``."""
        return f"rank {who}"

    def left_behind(self, who: int) -> str:
        """What is wrong if this rank ends now; '' if nothing is."""
        return f"rank {who} ends before a message that it has begun has arrived" if self._empty[who] else ""

    def stuck(self, waiting: Sequence[tuple[int, Any]]) -> str:
        """In words that nobody can go on."""
        return f"rank {waiting[0][0]} waits for a message that nobody sends"

    def answer(self, who: int, request: Any) -> Any:
        """What the rank gets for its request. Raises Waits if it has to wait; sets ``trouble`` for a request that there is not."""
        kind = request[0] if isinstance(request, tuple) and request else None
        if kind == "post" and len(request) > 1 and all(isinstance(x, torch.Tensor) for x in request[1:]):
            self.seen[who].append("post")
            self._coming[(who + 1) % self.ranks].append(tuple(x.clone() for x in request[1:]))
            empty = tuple(torch.full_like(x, torch.nan) for x in request[1:])
            self._empty[who].append(empty)
            return empty if len(empty) > 1 else empty[0]
        if kind == "wait" and self._empty[who]:
            if not self._coming[who]:
                raise Waits
            self.seen[who].append("wait")
            self._fill(who, self._empty[who].popleft(), self._coming[who].popleft())
            return None
        if kind == "exchange" and len(request) == 2 and self._are_shares(request[1]):
            return self._exchange(who, list(request[1]))
        self.trouble = f"rank {who} {self._mistake(kind, request)}"
        raise Waits

    def _mistake(self, kind: Any, request: Any) -> str:
        """What is wrong with a request that there is not."""
        if kind == "wait":
            return "waits, but has begun no message"
        shares = request[1] if kind == "exchange" and len(request) == 2 else None
        if isinstance(shares, list | tuple) and len(shares) != self.ranks:
            return f"has a list of {len(shares)} for the exchange; it takes {self.ranks} tensors, one for each rank"
        return "yields what is no request"

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
            self.sent[rank] += sum(x.numel() for x in shares)
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
