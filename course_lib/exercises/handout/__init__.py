"""What is handed out: the exercises' cells in the lectures, and the copy of the course for students.

It imports what an exercise is, what it is checked by (``checker``), and ``publish``; only the command line imports it.
"""
