"""Figures and tables that pages make from records, one function each, in one line: ``figures.loop_walk()``.

A subject is a module. It reads its records as typed rows (``records.rows``) and draws with ``plots`` or by itself. Its alternative text
stands with the figure; it names axes and marks, without digits and without what comes out: a screen reader meets it before the answer.
"""

from course_lib.figures.capstone import laptop_curve, loss_curves, written
from course_lib.figures.capstone_steps import (
    amdahl,
    characters_per_second,
    eight_widths,
    nine_percent,
    over_context,
    step_bars,
)
from course_lib.figures.first_pictures import programs_on_sms, sharpen, warehouse
from course_lib.figures.formats import (
    by_format,
    draws,
    error_is_0_002,
    error_over_time,
    errors_by_length,
    fp16_or_bf16,
    number_lines,
    registers_and_shared_memory,
    registers_are_faster,
    stage_errors,
)
from course_lib.figures.h100 import roofline_travels, second_gpu, tiles_on_both
from course_lib.figures.lab_notes import clocks, host_times, launches, pipelining, self_noise, standard_kernels
from course_lib.figures.loop_orders import four_counts, largest_steps, pair_cycles, seat_gains, splitting_pays
from course_lib.figures.loop_pictures import bytes_by_level, bytes_moved, gains_by_heads, loop_walk, seats
from course_lib.figures.many_gpus import busy_gpus, hiding, ring_clock, ring_or_ulysses, ring_timelines
from course_lib.figures.matmul_pictures import load_widths, matmul_speed, program_order, tile_homes, tile_on_roofline
from course_lib.figures.memory_pictures import attention_roofline, score_size, tiles_of_a_step, two_memories
from course_lib.figures.one_head import (
    blocks_that_fit,
    caught,
    heads_time,
    idle_sms,
    lite_and_online,
    one_head_speed,
    query_blocks,
    query_blocks_compiled,
    running_state,
)
from course_lib.figures.ring_claims import (
    blocks_hide,
    errors_by_ranks,
    orders_counted,
    striped_gain,
    ulysses_volume,
    zigzag_is_balanced,
)
from course_lib.figures.softmax_pictures import first_grid, moving_ruler, saved_pass, scores_in_order, softmax_passes
from course_lib.figures.two_gpus import ring_recorded
from course_lib.figures.wrong_kernel import growth, lite_errors, stacked_weights, usual_test

__all__ = [
    "amdahl",
    "attention_roofline",
    "blocks_hide",
    "blocks_that_fit",
    "busy_gpus",
    "by_format",
    "bytes_by_level",
    "bytes_moved",
    "caught",
    "characters_per_second",
    "clocks",
    "draws",
    "eight_widths",
    "error_is_0_002",
    "error_over_time",
    "errors_by_length",
    "errors_by_ranks",
    "first_grid",
    "four_counts",
    "fp16_or_bf16",
    "gains_by_heads",
    "growth",
    "heads_time",
    "hiding",
    "host_times",
    "idle_sms",
    "laptop_curve",
    "largest_steps",
    "launches",
    "lite_and_online",
    "lite_errors",
    "load_widths",
    "loop_walk",
    "loss_curves",
    "matmul_speed",
    "moving_ruler",
    "nine_percent",
    "number_lines",
    "one_head_speed",
    "orders_counted",
    "over_context",
    "pair_cycles",
    "pipelining",
    "program_order",
    "programs_on_sms",
    "query_blocks",
    "query_blocks_compiled",
    "registers_and_shared_memory",
    "registers_are_faster",
    "ring_clock",
    "ring_or_ulysses",
    "ring_recorded",
    "ring_timelines",
    "roofline_travels",
    "running_state",
    "saved_pass",
    "score_size",
    "scores_in_order",
    "seat_gains",
    "seats",
    "second_gpu",
    "self_noise",
    "sharpen",
    "softmax_passes",
    "splitting_pays",
    "stacked_weights",
    "stage_errors",
    "standard_kernels",
    "step_bars",
    "striped_gain",
    "tile_homes",
    "tile_on_roofline",
    "tiles_of_a_step",
    "tiles_on_both",
    "two_memories",
    "ulysses_volume",
    "usual_test",
    "warehouse",
    "written",
    "zigzag_is_balanced",
]
