"""The claims ledger: each sentence from a source, and the verdict that a lecture has computed and saved."""

import re
from pathlib import Path
from typing import NamedTuple

import nbformat

from course_lib import data
from course_lib.publish import notebooks


class Entry(NamedTuple):
    """A verdict as it stands in a lecture: its text, its HTML, and the lecture."""

    id: str
    word: str
    text: str
    shown: str
    lecture: Path


def entries() -> list[Entry]:
    """All verdicts, in the order of the claims. Raises ValueError if a claim has none, or two."""
    found: dict[str, Entry] = {}
    for path in notebooks.lectures():
        for cell in nbformat.read(path, as_version=4).cells:
            for output in cell.get("outputs", []):
                shown = output.get("data", {})
                text = str(shown.get("text/plain", ""))
                named = re.match(r"(C\d+) \(", text)
                word = re.search(r"\n  verdict: (confirmed|refuted|true in part)$", text)
                if named and word:
                    if named[1] in found:
                        raise ValueError(
                            f"{named[1]} has a verdict in {found[named[1]].lecture.name} and in {path.name}"
                        )
                    found[named[1]] = Entry(named[1], word[1], text, shown["text/html"], path)
    missing = [claim for claim in data.claims() if claim not in found]
    if missing:
        raise ValueError(f"no lecture has a verdict on {', '.join(missing)}")
    return [found[claim] for claim in data.claims()]
