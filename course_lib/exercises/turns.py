"""Generators that take turns: what each yields is a request, and who waits for ever is found."""

from collections.abc import Generator, Sequence
from typing import Any


class Waits(Exception):  # noqa: N818 - a state, not an error
    """Whoever asks cannot go on now."""


class Turns:
    """``answer`` grants requests. ``trouble`` says in words what went wrong, '' if nothing did; it ends everything."""

    trouble = ""
    longest = 10_000  # requests of all, in one run

    def answer(self, who: int, request: Any) -> Any:
        """What the generator gets for its request. Raises Waits if it has to wait; sets ``trouble`` for a request that there is not."""
        raise NotImplementedError

    def name(self, who: int) -> str:
        """What a generator is called in ``trouble``."""
        raise NotImplementedError

    def left_behind(self, who: int) -> str:
        """What is wrong if this generator ends now; '' if nothing is."""
        return ""

    def stuck(self, waiting: Sequence[tuple[int, Any]]) -> str:
        """In words that nobody can go on, from who is left with which request."""
        raise NotImplementedError

    def run(
        self, running: Sequence[Any], order: Sequence[int] = (), eager: bool = False, helpers: int = 0
    ) -> list[Any]:
        """What the generators return, None of those that do not come so far.

        All take turns, in ``order``, until all are done or all wait: each goes on until it waits, or, if ``eager``, takes a single step
        when nobody who comes before it in the order can. The last ``helpers`` serve the others and need not end.
        """
        found: list[Any] = [None] * len(running)
        for who, code in enumerate(running):
            if not isinstance(code, Generator):
                self.trouble = f"{self.name(who)} returns at once: without a yield it is no generator"
                return found
        asks: list[Any] = [next] * len(running)  # an open request; next: it has not begun
        left, count = list(order or range(len(running))), 0
        own = len(running) - helpers
        while any(who < own for who in left) and not self.trouble:
            before = count
            for who in list(left):
                while not self.trouble:
                    try:
                        answer = None if asks[who] is next else self.answer(who, asks[who])
                        asks[who] = running[who].send(answer)
                    except Waits:
                        break
                    except StopIteration as end:
                        found[who] = end.value
                        left.remove(who)
                        count += 1
                        self.trouble = self.trouble or self.left_behind(who)
                        break
                    count += 1
                    if count > self.longest:
                        self.trouble = f"{self.name(who)} never stops asking"
                    if eager:
                        break
                if eager and count > before:
                    break
            if left and count == before and not self.trouble:
                self.trouble = self.stuck([(who, asks[who]) for who in left if who < own])
        return found
