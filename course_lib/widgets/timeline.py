"""The pipeline timeline: copies and consumer warpgroups over time, with sliders for each duration."""

from typing import Any

from course_lib import plots
from course_lib.model import pipeline
from course_lib.show import style
from course_lib.widgets.clickable import Clickable


class PipelineTimeline(Clickable):
    """The timeline of ``pipeline.simulate`` under sliders; ``start`` are its arguments at first, in any one unit of time."""

    file = "pipeline.js"

    def __init__(self, **start: Any):
        defaults: dict[str, Any] = {
            "blocks": 6, "consumers": 2, "buffers": 2, "load": 2.0, "qk": 2.0, "softmax": 2.0, "pv": 2.0, "mode": "specialised",
        }  # fmt: skip
        values = defaults | start
        spans = pipeline.simulate(**values)
        still, _ = style.render(plots.timeline, spans, pipeline.idle_fraction(spans), size=(10.5, 3.6))
        data = {"start": values, "modes": list(pipeline.MODES), "colors": style.WORK}
        super().__init__(
            data,
            still,
            f"copies, {values['consumers']} consumers and the tensor cores over time; overlap: {values['mode']}",
        )
