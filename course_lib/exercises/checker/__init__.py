"""The checker: judges what came out of an answer, says what fails in numbers, names the bug, and keeps what has been passed.

It knows what is right, from ``oracles`` or, in a student's copy, from data. It imports the rooms in which code is run (``sandbox``,
``processes``) and read (``page``), and never the grader.
"""
