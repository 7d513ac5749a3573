"""The lectures as a student gets them, and her own copy: python -m course_lib.publish.working_copy work [--fresh 05]

A student's page leaves behind what would answer a prediction before she has made it: outputs, the instructor's notes, the folds with
answers. Her copy is made once and kept. Digests of what she was handed say later which pages she has changed: those stay as they are,
the others follow the course.
"""

import argparse
import itertools
import json
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from course_lib.files import write_atomically
from course_lib.publish import notebooks

HANDED_OUT = ".handed_out.json"  # in the student's folder: lecture -> digest of the page as it was handed out
IN_THE_ORIGINAL = "The answers are in the original of this page: `make lab DIR=notebooks` opens it."
WITH_THE_INSTRUCTOR = "Your instructor has the answers."
_ANSWERS = re.compile(r"<details>\s*<summary>Answers?</summary>.*?</details>", re.DOTALL)
# What the kernel says of itself: JupyterLab writes it into a page that has anything else, and so changes a page by opening it.
_KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        "version": platform.python_version(),
    },
}


def student_page(path: Path, answers: str = WITH_THE_INSTRUCTOR) -> str:
    """A lecture without outputs and answers, as the text of a notebook; ``answers`` stands where answers stood."""
    page = json.loads(path.read_text(encoding="utf-8"))
    for cell in page["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
            cell["metadata"].pop("course", None)
        else:
            cell["source"] = _ANSWERS.sub(f"*{answers}*", "".join(cell["source"])).splitlines(keepends=True)
    page["metadata"]["course"].pop("executed_from", None)
    page["metadata"] |= _KERNEL
    return json.dumps(page, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def bring(folder: Path) -> list[str]:
    """Make or renew a student's copy of all lectures in ``folder``, which need not exist.

    What she has changed or run is left as it is. Returns the numbers of those lectures among them that the course has changed since.
    Raises OSError where the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handed_out, behind = _handed_out(folder), []
    originals = {path.name: path for path in notebooks.lectures()}
    for name, original in originals.items():
        page, mine = student_page(original, IN_THE_ORIGINAL), folder / name
        if not mine.exists() or _digest(mine) in (handed_out.get(name), _digest_of(page)):
            _write(mine, page)
            handed_out[name] = _digest_of(page)
        elif handed_out.get(name) != _digest_of(page):
            behind.append(name[:2])
    for name in handed_out.keys() - originals.keys():  # a lecture that has another name or number now
        if _digest(folder / name) == handed_out.pop(name):
            (folder / name).unlink()
    for picture in notebooks.NOTEBOOKS.glob("*.svg"):
        shutil.copy(picture, folder)
    _write(folder / HANDED_OUT, json.dumps(handed_out, indent=1) + "\n")
    return behind


def put_beside(folder: Path, number: str) -> Path:
    """Write a lecture as the course has it now beside the student's, '05_….new.ipynb'; returns the path.

    Nothing is written over: where that name is taken by another page, '05_….new2.ipynb' is next.
    Raises ValueError for what is no lecture, OSError where the folder cannot be written.
    """
    original = notebooks.lecture(number)
    page = student_page(original, IN_THE_ORIGINAL)
    names = (f"{original.stem}.new{n if n > 1 else ''}.ipynb" for n in itertools.count(1))
    path = next(p for p in (folder / name for name in names) if not p.exists() or _digest(p) == _digest_of(page))
    if not path.exists():
        _write(path, page)
    _write(folder / HANDED_OUT, json.dumps(_handed_out(folder) | {original.name: _digest_of(page)}, indent=1) + "\n")
    return path


def _handed_out(folder: Path) -> dict[str, str]:
    """What is noted; nothing where there is no note, or none that can be read: then every page counts as changed."""
    try:
        found = json.loads((folder / HANDED_OUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: digest for name, digest in found.items() if digest} if isinstance(found, dict) else {}


def _digest(path: Path) -> str:
    """That of a page in the student's folder; '' for a file that is no notebook, which is hers whatever it is."""
    try:
        return _digest_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ""


def _digest_of(page: str) -> str:
    """Equal for pages with the same cells and outputs: what JupyterLab notes in metadata is nobody's work."""
    return notebooks.digest([json.dumps([_content(cell) for cell in json.loads(page)["cells"]])])


def _content(cell: dict[str, Any]) -> list[Any]:
    return [cell["cell_type"], "".join(cell["source"]), cell.get("outputs", []), cell.get("attachments", {})]


def _write(path: Path, text: str) -> None:
    """A file that has this text already is left alone."""
    if not path.is_file() or path.read_bytes() != text.encode():
        write_atomically(path, text)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.publish.working_copy",
        description="Make or renew a student's own copy of the lectures.",
    )
    parser.add_argument("folder", type=Path, help="where it lies")
    parser.add_argument(
        "--fresh", metavar="NN", help="put this lecture, as the course has it now, beside the student's"
    )
    options = parser.parse_args()
    try:
        behind = bring(options.folder)
        if options.fresh:
            print(f"the lecture as it is now: {put_beside(options.folder, options.fresh)}")
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for number in behind:
        if options.fresh is None or notebooks.lecture(options.fresh) != notebooks.lecture(number):
            print(
                f"lecture {number} has changed, and so has yours, which is kept: make lab FRESH={number} puts the new one beside it"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
