"""Nothing hangs: what is too much is computed in closed form, or refused at once with the limit."""

import signal
from contextlib import contextmanager

import pytest
import torch
from matplotlib.figure import Figure

from course_lib import algorithms, plots, widgets
from course_lib.model import cost, pipeline, quantize, rounding
from course_lib.model.memory import Memory
from course_lib.show import style
from course_lib.widgets.butterfly import Butterfly
from course_lib.widgets.number import NumberLine
from course_lib.widgets.pages import PagePicture
from course_lib.widgets.stepper import SoftmaxStepper
from course_lib.widgets.tiles import TileExplorer
from course_lib.widgets.timeline import PipelineTimeline

HUGE = 10**9
LONG = torch.ones(4096, 4)


@contextmanager
def alarm(seconds: int):
    """RuntimeError in what computes for longer, however busy the machine is."""

    def ring(*_):
        raise RuntimeError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def ax():
    return Figure().subplots()


def explorer(algorithm, *tensors, **options):
    return TileExplorer({"one": algorithm}, *tensors, **options)


REFUSED = {
    "simulate": lambda: pipeline.simulate(blocks=HUGE),
    "loads": lambda: pipeline.loads(range(HUGE), 2, True),
    "timeline": lambda: PipelineTimeline(blocks=HUGE),
    "steps": lambda: widgets.steps(range(HUGE), 1),
    "choice": lambda: widgets.choice(range(HUGE)),
    "slider": lambda: widgets.slider(0, 10**400, 1),
    "heatmap": lambda: plots.heatmap(ax(), torch.ones(2000, 2000), "all"),
    "picture": lambda: style.picture(lambda axes: None, size=(1e6, 1e6), alt="large"),
    "curves": lambda: plots.curves(ax(), {"one": range(HUGE)}, "x", "y", "model"),
    "explorer, events": lambda: explorer(algorithms.linear_v1, *[LONG] * 3, block_m=2, block_n=2),
    "explorer, matmul": lambda: explorer(algorithms.tiled_matmul, LONG, LONG.T, 2, 2, 2),
    "stepper": lambda: SoftmaxStepper(range(HUGE)),
    "butterfly": lambda: Butterfly(range(HUGE)),
    "pages": lambda: PagePicture("A" * 10**6),
    "number line": lambda: NumberLine(10**400),
    "memory": lambda: Memory().hbm_empty("S", (HUGE, HUGE)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_too_much_is_refused_at_once(name) -> None:
    with alarm(5), pytest.raises(ValueError, match=r"; .*pass"):
        REFUSED[name]()


COMPUTED = {
    "V1, causal and split": lambda: cost.flash_v1_traffic(HUGE, 4, 3, block_m=7, causal=True, split=11),
    "backward": lambda: cost.backward_traffic("two passes", HUGE, 4, 1, 1, causal=True),
    "simulate": lambda: pipeline.simulate(blocks=142, buffers=HUGE, load=1e100, qk=1e-100),
    "loads": lambda: pipeline.loads([1.0] * 10**5, 10**5, True),
    "heatmap": lambda: style.render(plots.heatmap, torch.ones(32, 32), "all"),
    "curves": lambda: style.render(plots.curves, {"one": range(10**5)}, "x", "y", "model"),
    "rounded attention": lambda: rounding.rounded_attention(*[LONG[:512]] * 3, block=HUGE),
    "quantise": lambda: quantize.quantise(LONG, per="block", block=HUGE),
    "explorer": lambda: explorer(algorithms.linear_v1, *[torch.ones(44, 2)] * 3, block_m=2, block_n=2),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_large_and_allowed_is_there_at_once(name) -> None:
    with alarm(10):
        assert COMPUTED[name]() is not None
