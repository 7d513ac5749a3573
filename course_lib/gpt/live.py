"""The loss while it falls, drawn in a notebook."""

import math
import sys
import time
from typing import Any

EVERY = 1.0  # seconds between two drawings: each costs a tenth of one


class LiveCurve:
    """``with LiveCurve() as watch: fit(…, watch=watch)`` draws the loss of each step while it trains, once a second.

    The drawing is gone when the block ends, like a progress bar; outside a notebook nothing is drawn. ``letters``: a line at
    ln(letters), the loss of a model that knows nothing.
    """

    def __init__(self, letters: int | None = None) -> None:
        self.losses: list[float] = []
        self.letters = letters
        self._shown: Any = None
        self._next = 0.0

    def __enter__(self) -> "LiveCurve":
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if hasattr(shell, "kernel"):
            from IPython.display import display

            self._shown = display({"text/plain": ""}, raw=True, display_id=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown is not None:
            self._shown.update({}, raw=True)
            self._shown = None

    def __call__(self, step: int, loss: float) -> None:
        self.losses.append(loss)
        if self._shown is not None and time.monotonic() >= self._next:
            from course_lib.show import style  # here: a GPU server that trains may lack matplotlib

            alt = "the loss of each training step so far"
            self._shown.update(style.picture(self._draw, alt=alt, size=(7, 3)))
            self._next = time.monotonic() + EVERY

    def _draw(self, ax: Any) -> None:
        ax.plot(range(len(self.losses)), self.losses, color="#0072B2")
        ax.set(xlabel="step", ylabel="loss (nats per character)")
        if self.letters:
            ax.axhline(math.log(self.letters), color="#8A8A8A", linestyle="--")
