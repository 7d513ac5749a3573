"""python -m course_lib.exercises write"""

import argparse

from course_lib.exercises import cells


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.exercises", description="The exercises of the lectures."
    )
    parser.add_subparsers(required=True).add_parser("write", help="put the exercises' cells into all lectures")
    parser.parse_args()
    for path in cells.write_all():
        print(path.name)


if __name__ == "__main__":
    main()
