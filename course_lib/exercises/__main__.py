"""python -m course_lib.exercises write | grade FOLDER | student FOLDER"""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from course_lib.exercises.grader import grade_tables, grading
from course_lib.exercises.handout import bundle, cells
from course_lib.exercises.processes import isolation
from course_lib.exercises.sandbox import client

GRADE = """Students' code is run where it sees no oracle, no solution and no other notebook: with bubblewrap in namespaces of its own,
without a network. Where these are not to be had, root gives each notebook an account of its own; any other user limits what it takes, and
the tables begin with what is weaker then. As root neither is optional."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.exercises", description="The exercises of the lectures."
    )
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("write", help="put the exercises' cells into all lectures")
    for name, words in (
        ("grade", "check a folder of students' notebooks"),
        ("student", "copy the course for students into FOLDER"),
    ):
        command = commands.add_parser(name, help=words, description=GRADE if name == "grade" else words)
        command.add_argument("folder", type=Path, metavar="FOLDER")
        if name == "grade":
            command.add_argument("--way", choices=client.WAYS, help="one way alone; else the first that works")
            command.add_argument("--seconds", type=float, default=grading.SECONDS, help="for a notebook (%(default)g)")
            command.add_argument(
                "--die-with-parent", action="store_true", help="end when the process that started this ends"
            )
    options = parser.parse_args()
    try:
        return {"write": _write, "grade": _grade, "student": _student}[options.command](options)
    except (ValueError, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _write(options: argparse.Namespace) -> int:
    for path in cells.write_all():
        print(path.name)
    return 0


def _grade(options: argparse.Namespace) -> int:
    if options.die_with_parent:
        isolation.prctl(isolation.DIE_WITH_PARENT, signal.SIGTERM)
    os.environ["TRITON_INTERPRET"] = "1"  # known-wrong kernels are run here, too
    signal.signal(signal.SIGTERM, _interrupt)
    isolation.prctl(isolation.ADOPT, 1)  # what kills all that looks after it in the sandbox falls to this process
    try:
        graded = grading.grade(options.folder, options.seconds, options.way)
    finally:
        isolation.end_descendants()
    for signal_ in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_, signal.SIG_IGN)  # the rest takes a moment
    if graded.how:
        print(f"{graded.how}\n")
    print(f"{grade_tables.overview(graded.grades)}\n\n{grade_tables.totals(graded.grades)}", flush=True)
    paths = grade_tables.write(options.folder, graded.grades)
    print(f"\neach exercise of each notebook: {paths[0]}; each student: {paths[1]}")
    if not graded.whole:
        print("interrupted: what was not graded has to be graded again", file=sys.stderr)
    return 0 if graded.whole else 130


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _student(options: argparse.Namespace) -> int:
    print(f"{bundle.write_bundle(options.folder)} files -> {options.folder}")
    if changed := bundle.uncommitted():
        print(f"not as they were committed: {', '.join(changed)}; look whether they hold answers of yours")
    return 0


if __name__ == "__main__":
    sys.exit(main())
