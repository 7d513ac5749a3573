"""Figures, drawn by pure functions (ax, data) -> ax, one colour for each algorithm and tensor, units on every axis."""

from course_lib.plots.cost import (
    memory_levels,
    roofline,
    score_size,
    tile_budget,
    trace,
    traffic_bars,
)
from course_lib.plots.formats import neighbours, relative_steps, stage_lines
from course_lib.plots.ladder import ladder_lines
from course_lib.plots.low_precision import butterfly, error_ranges, kept, row_bars, share_bars, ways
from course_lib.plots.matrices import heatmap, matrix_shapes, warp_split
from course_lib.plots.pages import page_pool
from course_lib.plots.parallel import RANKS, ring_step
from course_lib.plots.softmax import key_blocks, online_step
from course_lib.plots.speed import curves, grouped_bars, lines, timeline

__all__ = [
    "RANKS",
    "butterfly",
    "curves",
    "error_ranges",
    "grouped_bars",
    "heatmap",
    "kept",
    "key_blocks",
    "ladder_lines",
    "lines",
    "matrix_shapes",
    "memory_levels",
    "neighbours",
    "online_step",
    "page_pool",
    "relative_steps",
    "ring_step",
    "roofline",
    "row_bars",
    "score_size",
    "share_bars",
    "stage_lines",
    "tile_budget",
    "timeline",
    "trace",
    "traffic_bars",
    "warp_split",
    "ways",
]
