"""Processes for code that is not trusted: with limits, an end in time, data for an answer, and what Linux takes away on request.

It imports ``page``, ``harness`` and plain data (``values``), and knows no exercise.
"""
