"""Controls under figures, and clickable pictures. A plotting function under controls, drawn anew at each change.

    explore(draw, n=powers_of_two(7, 17, value=1024), gpu=choice(["A100-80", "H100"]))

calls ``draw(ax, n=…, gpu=…)``. What ``draw`` returns, if it is a text, is shown below the figure. A ValueError or
TypeError that it raises is shown as a message and the last good figure stays. A figure whose successor takes long dims meanwhile.
"""

import contextlib
import html
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ipywidgets as w

from course_lib.show import style

_WIDE = {"description_width": "initial"}
_PATIENCE = 0.2  # seconds that a new figure may take before the old one dims
_COMPUTING = """<style>
.course-explorer { position: relative }
.course-explorer:has(.course-computing) :is(img, [role="status"], [role="alert"]) { opacity: 0.35 }
.course-explorer:has(.course-computing)::after { content: "computing…"; position: absolute; top: 50%; left: 40%;
  padding: 0.3em 0.9em; border-radius: 4px; font-size: 1.3em; background: #333333; color: #FFFFFF }
</style><div role="status" class="course-computing" style="font-size: 0">computing</div>"""


def slider(low: int, high: int, value: int, label: str = "") -> w.IntSlider:
    """Whole numbers from low to high."""
    return w.IntSlider(
        min=low,
        max=high,
        value=value,
        description=label,
        style=_WIDE,
        layout=w.Layout(width="380px"),
    )


def powers_of_two(low: int, high: int, value: int, label: str = "") -> w.SelectionSlider:
    """2^low … 2^high."""
    return steps([2**p for p in range(low, high + 1)], value, label)


def steps(values: Sequence[Any], value: Any, label: str = "") -> w.SelectionSlider:
    """A slider over the given values."""
    options = [(f"{v:,}" if isinstance(v, int) else f"{v:g}" if isinstance(v, float) else str(v), v) for v in values]
    return w.SelectionSlider(
        options=options, value=value, description=label, style=_WIDE, layout=w.Layout(width="380px")
    )


def choice(options: Sequence[str], value: str | None = None, label: str = "") -> w.Dropdown:
    """One of a few names."""
    return w.Dropdown(
        options=list(options),
        value=value or options[0],
        description=label,
        style=_WIDE,
        layout=w.Layout(width="260px"),
    )


class Explorer(w.VBox):
    """Controls above a figure. Its saved output is the figure with the controls as first set, for readers without a kernel."""

    def __init__(
        self,
        draw: Callable[..., Any],
        controls: dict[str, w.DOMWidget],
        alt: str,
        size: tuple[float, float],
        axes: tuple[int, int],
    ):
        self._draw, self.controls, self._alt, self._size, self._axes = draw, controls, alt, size, axes
        for name, control in controls.items():
            control.description = control.description or name.replace("_", " ")
            control.layout.margin = "0 18px 4px 0"
            control.observe(self._redraw, names="value")
        self._moving = False
        self.image = w.Image(format="png", layout=w.Layout(max_width="100%", object_fit="contain"))
        self.caption = w.HTML()
        self.error = ""
        super().__init__(
            [w.Box(list(controls.values()), layout=w.Layout(flex_flow="row wrap")), self.image, self.caption]
        )
        self.add_class("course-explorer")
        self._redraw()
        if self.error:
            raise ValueError(f"the first picture cannot be drawn: {self.error}")

    def move(self, **values: Any) -> None:
        """Set controls by name, and draw once."""
        self._moving = True
        try:
            for name, value in values.items():
                self.controls[name].value = value
        finally:
            self._moving = False
        self._redraw()

    @contextlib.contextmanager
    def _patience(self) -> Iterator[None]:
        """Dim the figure and say so, if what is done meanwhile takes long: until the caption is set, or is as before where that fails."""
        before = self.caption.value
        timer = threading.Timer(_PATIENCE, setattr, (self.caption, "value", before + _COMPUTING))
        timer.start()
        try:
            try:
                yield
            finally:
                timer.cancel()
                timer.join()
        except BaseException:
            self.caption.value = before
            raise

    def _redraw(self, change: Any = None) -> None:
        if self._moving:
            return
        values = {name: control.value for name, control in self.controls.items()}
        try:
            with self._patience():
                png, words = style.render(self._draw, size=self._size, axes=self._axes, **values)
        except (ValueError, TypeError) as error:
            self.error = str(error)
            look = "color: #B00020; border-left: 4px solid #B00020; padding-left: 0.6em"
            self.caption.value = f'<div role="alert" style="{look}">{html.escape(self.error)}</div>'
            return
        self.error = ""
        self.image.value = png
        self.image.width = str(style.shown_width(png))
        self.caption.value = f'<div role="status">{html.escape(words)}</div>' if isinstance(words, str) else ""

    def __repr__(self) -> str:
        return f"[interactive figure: {', '.join(c.description for c in self.controls.values())}] {self._alt}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        still, metadata = style.Picture(self.image.value, repr(self))._repr_mimebundle_()
        return dict(super()._repr_mimebundle_(**kwargs)) | still | {"text/plain": repr(self)}, metadata


def explore(
    draw: Callable[..., Any],
    *,
    alt: str,
    size: tuple[float, float] = (8.5, 4.4),
    axes: tuple[int, int] = (1, 1),
    **controls: w.DOMWidget,
) -> Explorer:
    """Put ``draw(ax, **values)`` under controls named like its arguments; ``alt`` says what there is to see."""
    return Explorer(draw, controls, alt, size, axes)
