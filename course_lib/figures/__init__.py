"""Figures and tables that pages make from records, one function each, in one line: ``figures.loop_walk()``.

A subject is a module. It reads its records as typed rows (``records.rows``) and draws with ``plots`` or by itself. Its alternative text
stands with the figure; it names axes and marks, without digits and without what comes out: a screen reader meets it before the answer.
"""

from course_lib.figures.loop_orders import loop_walk, seats

__all__ = ["loop_walk", "seats"]
