"""The grader: a folder of students' notebooks, each answer run in the sandbox and judged by the checker, and the tables of what came out.

It imports ``checker`` and ``sandbox``; only the command line imports it.
"""
