"""Figures and tables that pages make from records, one function each, in one line: ``figures.loop_walk()``.

A subject is a module. It reads its records as typed rows (``records.rows``) and draws with ``plots`` or by itself. Its alternative text
stands with the figure; it names axes and marks, without digits and without what comes out: a screen reader meets it before the answer.
"""

from course_lib.figures.first_pictures import programs_on_sms, sharpen, warehouse
from course_lib.figures.lab_notes import clocks, launches, pipelining, self_noise, standard_kernels
from course_lib.figures.loop_orders import four_counts, largest_steps, pair_cycles, seat_gains, splitting_pays
from course_lib.figures.loop_pictures import bytes_by_level, bytes_moved, gains_by_heads, loop_walk, seats
from course_lib.figures.memory_pictures import attention_roofline, score_size, tiles_of_a_step, two_memories

__all__ = [
    "attention_roofline",
    "bytes_by_level",
    "bytes_moved",
    "clocks",
    "four_counts",
    "gains_by_heads",
    "largest_steps",
    "launches",
    "loop_walk",
    "pair_cycles",
    "pipelining",
    "programs_on_sms",
    "score_size",
    "seat_gains",
    "seats",
    "self_noise",
    "sharpen",
    "splitting_pays",
    "standard_kernels",
    "tiles_of_a_step",
    "two_memories",
    "warehouse",
]
