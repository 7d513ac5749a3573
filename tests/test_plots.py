"""Pictures of traces: what is hatched, what the legend says, that names do not run into each other. Lines: what is dashed."""

import torch
from matplotlib.figure import Figure

from course_lib import algorithms, plots
from course_lib.show import style
from course_lib.widgets.tiles import TileExplorer

Q = torch.ones(8, 4)


def drawn(memory):
    ax = Figure(figsize=(11, 4.4)).subplots()
    plots.trace(ax, memory)
    return ax


def test_hatched_is_what_was_loaded_before_and_the_legend_says_so() -> None:
    ax = drawn(algorithms.standard_attention(Q, Q, Q, block_m=4).memory)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["Q", "K", "S", "P", "V", "O", "loaded\nbefore"]
    hatched = [bar for bar in ax.patches if bar.get_hatch() and bar.get_height()]
    # K and V a second time; not S and P, which were stored before
    assert [bar.get_height() for bar in hatched] == [-8 * 4 * 4] * 2
    once = drawn(algorithms.standard_attention(Q, Q, Q).memory)
    assert "loaded\nbefore" not in [text.get_text() for text in once.get_legend().get_texts()]
    assert "counted" in [text.get_text() for text in ax.texts]


def test_a_name_that_would_run_into_the_one_before_it_stands_higher() -> None:
    ax = drawn(algorithms.standard_attention(Q, Q, Q, block_m=2, block_n=2).memory)
    heights = {text.get_text()[:6]: text.get_position()[1] for text in ax.texts if text.get_text().startswith("pass")}
    assert heights["pass 1"] == heights["pass 2"] < heights["pass 3"]


def test_the_still_of_two_algorithms_is_taller_than_that_of_one() -> None:
    both = {"standard": algorithms.standard_attention, "flash": algorithms.online_attention}
    one = TileExplorer({"flash": algorithms.online_attention}, Q, Q, Q, block_m=2, block_n=2)
    two = TileExplorer(both, Q, Q, Q, block_m=2, block_n=2)
    tall = [int.from_bytes(picture._still[20:24], "big") for picture in (one, two)]
    assert tall[1] > 1.5 * tall[0]


def test_dashed_is_a_model_and_measured_variants_have_hollow_markers() -> None:
    ax = Figure().subplots()
    series = {"tiled": [1, 2], "tiled, model": [2, 3], "lite, largest error": [3, 4]}
    plots.lines(ax, [1, 2], series, "x", "y", "model")
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--", "-"]
    assert [line.get_markerfacecolor() == "white" for line in ax.lines] == [False, True, False]


def test_attention_has_one_colour_and_cudnn_another() -> None:
    assert style.colour("attention()") == style.colour("attention") != style.colour("cuDNN")


def test_an_error_that_overflows_is_a_gap() -> None:
    ax = Figure().subplots()
    plots.lines(ax, [1, 2, 4], {"naive": [1.0, float("inf"), 2.0]}, "x", "error", "model")
    assert ax.get_ylim()[1] < 10
