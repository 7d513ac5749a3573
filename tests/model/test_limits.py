"""Nothing hangs: what is too much is computed in closed form, or refused at once with the limit."""

import math
import signal
from contextlib import contextmanager

import pytest
import torch
from matplotlib.figure import Figure

from course_lib import algorithms, data, plots, widgets
from course_lib.model import cost, formats, pipeline, quantize, registers, rounding
from course_lib.model.memory import Memory
from course_lib.show import style
from course_lib.widgets.butterfly import Butterfly
from course_lib.widgets.number import NumberLine
from course_lib.widgets.pages import PagePicture
from course_lib.widgets.stepper import SoftmaxStepper
from course_lib.widgets.tiles import TileExplorer
from course_lib.widgets.timeline import PipelineTimeline

HUGE = 10**9
GPU = data.gpu("H200")
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
    "simulate, blocks": lambda: pipeline.simulate(blocks=HUGE),
    "simulate, consumers": lambda: pipeline.simulate(consumers=HUGE),
    "loads, workers": lambda: pipeline.loads([1.0], HUGE, True),
    "loads, work": lambda: pipeline.loads(range(HUGE), 2, True),
    "timeline": lambda: PipelineTimeline(blocks=HUGE),
    "powers of two": lambda: widgets.powers_of_two(0, 10**6, 1),
    "steps": lambda: widgets.steps(range(HUGE), 1),
    "choice": lambda: widgets.choice(range(HUGE)),
    "slider": lambda: widgets.slider(0, 10**400, 1),
    "heatmap": lambda: plots.heatmap(ax(), torch.ones(2000, 2000), "all"),
    "picture, axes": lambda: style.picture(lambda axes: None, axes=(1000, 1000), alt="many"),
    "picture, size": lambda: style.picture(lambda axes: None, size=(1e6, 1e6), alt="large"),
    "grouped bars": lambda: plots.grouped_bars(ax(), range(HUGE), {"one": range(HUGE)}, "y", "model"),
    "curves": lambda: plots.curves(ax(), {"one": range(HUGE)}, "x", "y", "model"),
    "lines": lambda: plots.lines(ax(), range(1, HUGE), {"one": range(1, HUGE)}, "x", "y", "model"),
    "plots.timeline": lambda: plots.timeline(ax(), [pipeline.Span(1, "QK", 0, 0.0, 1.0)] * 10**5, 0.5),
    "online step": lambda: plots.online_step(ax(), range(10**5), 1),
    "row bars": lambda: plots.row_bars([ax(), ax()], torch.ones(10**6), torch.ones(10**6)),
    "trace": lambda: plots.trace(ax(), algorithms.linear_v2(*[torch.ones(256, 4)] * 3, block_m=4, block_n=4).memory),
    "explorer, events": lambda: explorer(algorithms.linear_v1, *[LONG] * 3, block_m=2, block_n=2),
    "explorer, matmul": lambda: explorer(algorithms.tiled_matmul, LONG, LONG.T, 2, 2, 2),
    "explorer, rows": lambda: explorer(algorithms.online_attention, *[LONG.repeat(2, 1)] * 3),
    "stepper": lambda: SoftmaxStepper(range(HUGE)),
    "butterfly": lambda: Butterfly(range(HUGE)),
    "pages": lambda: PagePicture("A" * 10**6),
    "number line": lambda: NumberLine(10**400),
    "memory": lambda: Memory().hbm_empty("S", (HUGE, HUGE)),
    "split": lambda: cost.flash_v1_traffic(HUGE, 4, 1, block_m=1, split=-1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_too_much_is_refused_at_once(name) -> None:
    with alarm(5), pytest.raises(ValueError, match=r"; .*pass"):
        REFUSED[name]()


COMPUTED = {
    "V1": lambda: cost.flash_v1_traffic(HUGE, 4, 1, block_m=1),
    "V1, causal and split": lambda: cost.flash_v1_traffic(HUGE, 4, 3, block_m=7, causal=True, split=11),
    "V2, causal": lambda: cost.flash_v2_traffic(HUGE, 4, 1, block_n=1, causal=True),
    "operations": lambda: cost.attention_operations("V1", HUGE, 4, 1, 1, causal=True),
    "backward": lambda: cost.backward_traffic("two passes", HUGE, 4, 1, 1, causal=True),
    "standard": lambda: cost.standard_attention_traffic(HUGE, 4, block_m=1),
    "registers": lambda: registers.tiles(HUGE, HUGE, 3, HUGE),
    "simulate": lambda: pipeline.simulate(blocks=142, buffers=HUGE, load=1e100, qk=1e-100),
    "loads": lambda: pipeline.loads([1.0] * 10**5, 10**5, True),
    "shapes": lambda: style.render(plots.matrix_shapes, HUGE, 1),
    "size of S": lambda: style.render(plots.score_size, HUGE, 4, GPU),
    "heatmap": lambda: style.render(plots.heatmap, torch.ones(32, 32), "all"),
    "steps of formats": lambda: style.render(plots.relative_steps, list(formats.FORMATS), 1e12),
    "neighbours": lambda: NumberLine(3e38, "fp32"),
    "curves": lambda: style.render(plots.curves, {"one": range(10**5)}, "x", "y", "model"),
    "rounded attention": lambda: rounding.rounded_attention(*[LONG[:512]] * 3, block=HUGE),
    "quantise": lambda: quantize.quantise(LONG, per="block", block=HUGE),
    "explorer": lambda: explorer(algorithms.linear_v1, *[torch.ones(44, 2)] * 3, block_m=2, block_n=2),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_large_and_allowed_is_there_at_once(name) -> None:
    with alarm(10):
        assert COMPUTED[name]() is not None


BAD = {
    "a text": (lambda: plots.curves(ax(), {"a": "12"}, "", "", ""), TypeError, r"series\['a'\] is '12'"),
    "one value too few": (
        lambda: plots.lines(ax(), [1, 2], {"a": [1.0]}, "", "", ""), ValueError, r"series\['a'\] has 1 entries"),
    "groups": (
        lambda: plots.grouped_bars(ax(), ["x"], {"a": [1, 2]}, "", ""), ValueError, r"series\['a'\] has 2 entries"),
    "spans": (lambda: plots.timeline(ax(), [], 0.0), ValueError, "spans has 0 entries"),
    "no traffic": (lambda: plots.traffic_bars(ax(), {"a": 3}), TypeError, r"traffics\['a'\] is 3 .int."),
    "intensity": (lambda: plots.roofline(ax(), GPU, "fp16", {"a": 0}), ValueError, r"points\[0\] is 0"),
    "no trace": (lambda: plots.trace(ax(), Memory()), ValueError, "memory has 0 loads and stores"),
    "a vector": (lambda: plots.heatmap(ax(), torch.ones(3), ""), ValueError, r"matrix has shape \[3\]"),
    "labels": (lambda: plots.heatmap(ax(), torch.ones(2, 2), "", cols=["a"]), ValueError, "cols has 1 labels; pass 2"),
    "mark": (lambda: plots.heatmap(ax(), torch.ones(2, 2), "", mark=2), ValueError, "mark is 2"),
    "one of two axes": (lambda: plots.warp_split(ax()), TypeError, "axes is Axes; pass 2 axes"),
    "block": (lambda: plots.key_blocks([ax()] * 4, torch.ones(4), torch.ones(4, 1), 0), ValueError, "block is 0"),
    "stage": (lambda: plots.stage_lines(ax(), [1], {"all": [1.0]}, ""), ValueError, "the stage is 'all'"),
    "magnitude": (lambda: plots.relative_steps(ax(), ["fp16"], math.inf), ValueError, "x is inf; pass a finite number"),
    "neighbours": (lambda: plots.neighbours([ax(), ax()], "3", "fp16"), TypeError, "x is '3'"),
    "stages": (lambda: plots.butterfly([ax()], [torch.ones(2)] * 2), TypeError, "axes is 1; pass 2 axes"),
    "errors": (lambda: plots.ways(ax(), {"a": 0.0}, 1.0, ""), ValueError, r"errors\[0\] is 0.0"),
    "what is kept": (lambda: plots.kept(ax(), {"a": {}}, ""), ValueError, r"shares\['a'\] has 0 entries"),
    "rungs": (lambda: plots.ladder_lines(ax(), {"a": ([1, 2], [1])}, "", ""), ValueError, "has 1 entries; pass 2"),
    "size": (lambda: style.picture(print, size=3, alt=""), TypeError, "size is 3; pass two numbers"),
    "width": (lambda: style.picture(print, size=(math.nan, 3), alt=""), ValueError, "size is nan"),
    "axes": (lambda: style.picture(print, axes=(1, 0), alt=""), ValueError, "axes is 0"),
    "alt": (lambda: style.picture(print, alt=None), TypeError, "alt is None"),
    "bytes": (lambda: style.bytes_text(math.nan), ValueError, "n is nan"),
    "no bar": (lambda: style.bar_places(1, 0), ValueError, "bars is 0"),
    "value beyond": (lambda: widgets.slider(0, 3, 4), ValueError, "value is 4; pass a whole number from 0 to 3"),
    "turned around": (lambda: widgets.slider(3, 0, 1), ValueError, "high is 0"),
    "no power": (lambda: widgets.powers_of_two(0, 3, 5), ValueError, "value is 5; choose one of 1, 2, 4, 8"),
    "unknown option": (lambda: widgets.choice(["a"], "b"), ValueError, "value is 'b'; choose one of 'a'"),
    "control": (lambda: widgets.explore(lambda ax, n: None, alt="", n=3), TypeError, "n is 3 .* pass a control"),
    "algorithm": (lambda: explorer(3), TypeError, r"algorithms\['one'\] is 3"),
    "duration": (lambda: pipeline.simulate(load="2"), TypeError, "load is '2'"),
    "durations": (lambda: pipeline.simulate(load=1e308), ValueError, r"are up to 1e\+308; pass durations whose sum is finite"),
    "idle": (lambda: plots.timeline(ax(), pipeline.simulate(2), 1.5), ValueError, "idle is 1.5"),
    "kind": (lambda: plots.lines(ax(), [1], {"a": [1.0]}, "", "", None), TypeError, "kind is None"),
    "queue": (lambda: pipeline.loads([1.0], 1, "yes"), TypeError, "queue is 'yes'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_drawn_is_refused_by_name(name) -> None:
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()
