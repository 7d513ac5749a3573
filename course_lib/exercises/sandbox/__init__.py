"""The sandbox, in which students' code is run for grading: who starts it, the server inside, what it sees, and how it answers.

It imports ``processes``, ``page`` and the tasks. What is right it cannot know: neither the checker nor oracles and solutions are imported.
"""
