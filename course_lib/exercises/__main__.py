"""python -m course_lib.exercises write | grade FOLDER | student FOLDER"""

import argparse
import sys
from pathlib import Path

from course_lib.exercises import bundle, cells, grading


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
        commands.add_parser(name, help=words).add_argument("folder", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    try:
        return {"write": _write, "grade": _grade, "student": _student}[options.command](options)
    except (ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1


def _write(options: argparse.Namespace) -> int:
    for path in cells.write_all():
        print(path.name)
    return 0


def _grade(options: argparse.Namespace) -> int:
    grades = grading.grade(options.folder)
    target = options.folder / "grades.csv"
    grading.write_csv(grades, target)
    print(grading.overview(grades))
    print(f"each exercise of each notebook: {target}")
    return 0


def _student(options: argparse.Namespace) -> int:
    print(f"{bundle.write_bundle(options.folder)} files -> {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
