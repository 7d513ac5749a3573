"""The numbers with units in the lectures' prose: each comes from somewhere, and a changed digit is noticed.

tests/number_sources.txt lists what neither arithmetic nor an output explains: `lecture | words, as they stand | where from`.
"""

import csv
import functools
import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from prose_numbers import Hit, Page, clean, kind

from course_lib import data
from course_lib.figures import (
    backward,
    capstone,
    capstone_steps,
    climb,
    climb_records,
    decoding,
    formats,
    h100,
    loop_orders,
    low_precision,
    many_gpus,
    matmul_pictures,
    softmax_pictures,
    stack,
    two_gpus,
)
from course_lib.model import cost, pipeline, ring_timeline, roofline, training_step
from course_lib.model import parallel as count

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Source:
    """A line of the list. A hit is covered where it stands in the words."""

    lecture: str
    words: str
    kind: str
    where: str

    def covered(self, page: Page) -> list[Hit]:
        words = re.compile(r"\s+".join(map(re.escape, clean(self.words).split())))
        spans = {(i, *match.span()) for i, text in page.texts.items() for match in words.finditer(text)}
        return [hit for hit in page.hits if any(i == hit.cell and a <= hit.start < b for i, a, b in spans)]


def read_list(text: str) -> list[Source]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    parts = [[part.strip() for part in line.split("|", 2)] for line in lines]
    return [Source(lecture, words, *where.split(" ", 1)) for lecture, words, where in parts]


SOURCES = read_list(Path(__file__).with_name("number_sources.txt").read_text(encoding="utf-8"))


@functools.cache
def lectures() -> dict[str, Page]:
    files = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    pages = [Page(path.name[:2], json.loads(path.read_text(encoding="utf-8"))["cells"]) for path in files]
    return {page.name: page for page in pages}


def complaints(page: Page, sources: list[Source]) -> list[str]:
    """The numbers that nothing gives, and the lines of the list that give none."""
    listed = {hit for source in sources for hit in source.covered(page)}
    found = []
    for hit in (hit for hit in page.hits if hit not in listed and not page.explains(hit)):
        words = " ".join(page.texts[hit.cell][max(0, hit.start - 45) : hit.start + 35].split())
        found.append(
            f"lecture {page.name}, cell {page.cells[hit.cell]['id']}, “… {words} …”: nothing gives {hit.number} {hit.unit}. "
            "Print it in a code cell, write it as arithmetic, or add a line to tests/number_sources.txt"
        )
    stale = [source.words for source in sources if not source.covered(page)]
    return found + [
        f"lecture {page.name}: “{words}” is no number of the page; drop the line or mend it" for words in stale
    ]


@pytest.mark.parametrize("name", lectures())
def test_each_number_with_a_unit_comes_from_somewhere(name: str) -> None:
    found = complaints(lectures()[name], [source for source in SOURCES if source.lecture == name])
    assert not found, "\n".join(found)


def rows(name: str, device: str = "nvidia-h200", **where) -> list[SimpleNamespace]:
    """The rows of a record in which the fields have these values."""
    found = data.measured(device, name).rows
    return [SimpleNamespace(**row) for row in found if all(row[key] == x for key, x in where.items())]


def seconds(name: str, device: str = "nvidia-h200", **where) -> float:
    """The shortest time among them."""
    return min(row.seconds for row in rows(name, device, **where))


def idle(consumers: int = 2, buffers: int = 3, softmax: float = 1, mode: str = "specialised") -> float:
    """Percent of the time in which the tensor cores of lecture 10's pictures do nothing."""
    return 100 * pipeline.idle_fraction(pipeline.simulate(6, consumers, buffers, 2, 1, softmax, 1, mode))


SCOPE = {
    "math": math, "data": data, "cost": cost, "roofline": roofline, "pipeline": pipeline, "rows": rows, "seconds": seconds,
    "idle": idle, "backward": backward, "decoding": decoding, "h100": h100, "loops": loop_orders, "passes": softmax_pictures,
    "matmuls": matmul_pictures, "formats": formats, "eight": low_precision, "climb": climb_records, "tiles": climb.tiles,
    "stack": stack, "count": count, "many_gpus": many_gpus, "two_gpus": two_gpus, "ring_timeline": ring_timeline,
    "capstone": capstone, "gpt_steps": capstone_steps, "training_step": training_step,
}  # fmt: skip


def recorded(name: str) -> list[float]:
    """All numbers of a record, on any device, or of a table of what others report."""
    files = (ROOT / "data").glob(f"measured/*/{name}.json")
    found = [x for file in files for row in data.measured(file.parent.name, name).rows for x in row.values()]
    for file in (ROOT / "data").glob(f"reported/{name}.csv"):
        found += [x for row in csv.reader(file.read_text(encoding="utf-8").splitlines()) for x in row]
    return [float(x) for x in found if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", str(x))]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.lecture} {source.words[:40]}")
def test_a_line_of_the_list_gives_its_numbers(source: Source) -> None:
    hits = source.covered(lectures()[source.lecture])
    if source.kind == "expr":
        result = eval(source.where, dict(SCOPE))
        values = result if isinstance(result, list) else [result]
        assert len(values) == len(hits), f"{values} for {[hit.number for hit in hits]}"
        assert all(hit.is_given_by(found) for hit, found in zip(hits, values)), f"{values}: {hits}"
    elif source.kind == "record":
        found = recorded(source.where.split()[0])
        sizes = {
            hit: (1.0, kind(hit.unit)[1], 1e-6 * kind(hit.unit)[1]) for hit in hits
        }  # as it is, in base units, in MB
        assert all(any(hit.is_given_by(x / size) for x in found for size in sizes[hit]) for hit in hits), hits
    else:
        assert source.kind in {"cite", "setting", "aim"}


def wrong(hit: Hit, shift: int) -> Hit:
    """The same hit with another last digit."""
    mantissa = hit.number.split("e")[0]
    last = max(i for i, c in enumerate(mantissa) if c.isdigit() and (c != "0" or "." in mantissa))
    number = hit.number[:last] + str((int(mantissa[last]) + shift) % 10) + hit.number[last + 1 :]
    return replace(hit, number=number, line=hit.line[: hit.at] + number + hit.line[hit.at + len(hit.number) :])


def test_a_changed_digit_is_noticed() -> None:
    found = [(page, h) for page in lectures().values() for h in page.hits if h.digits > 2 and page.explains(h)]
    passed = [page.explains(wrong(hit, shift)) for page, hit in found for shift in (1, 2, 3, 7)]
    assert len(passed) > 200
    assert sum(passed) <= 0.1 * len(passed), f"{sum(passed)} of {len(passed)} wrong numbers pass"


def page(prose: str, output: str = "", after: str = "") -> Page:
    def cell(kind: str, source: str, **more) -> dict:
        return {"id": kind, "cell_type": kind, "metadata": {}, "source": [source], **more}

    printed = cell("code", "", outputs=[{"output_type": "stream", "text": [output]}])
    texts = [cell("markdown", text) for text in ("# 00 · A page", "-", f"## First\n\n{prose}")]
    return Page("00", [*texts, printed, cell("markdown", f"## Later\n\n{after}")])


@pytest.mark.parametrize(
    ("made_up", "explained"),
    [
        (page("It takes 3.47 ms.", "time  3.47 ms"), True),
        (page("It takes 3.47 ms.", "time  3.48 ms"), False),
        (page("It takes 3.47 ms.", "size  3.47 MB"), False),
        (page("It takes 3.47 ms.", "0.00347 s"), True),
        (page("S has 2.1 MB.", "bytes of S  2,097,152"), True),
        (page("S has 2.2 MB.", "bytes of S  2,097,152"), False),
        (page("Busy for 83 %.", "share 0.832"), True),
        (page("Busy for 84 %.", "share 0.832"), False),
        (page(r"$1{,}024 \cdot 64 / 2 = 32{,}768$ bytes"), True),
        (page(r"$1{,}024 \cdot 64 / 2 = 32{,}769$ bytes"), False),
        (page("Loads of 4 bytes.", "ratio 3.6"), False),
        (page("It takes 4 times as long.", "4 times"), True),
        (page("", "4 times", "It takes 4 times as long."), False),
    ],
)
def test_a_number_is_explained_by_what_gives_it(made_up: Page, explained: bool) -> None:
    assert made_up.explains(made_up.hits[-1]) == explained


def test_the_list_explains_and_a_stale_line_is_named() -> None:
    made_up = page("It takes 3.47 ms\nor 12 MB. Call `wait(3 ms)` for 64 rows.")
    first, last = read_list("# comment\n\n00 | takes 3.47 ms or | cite a book\n00 | takes 3.48 ms | aim ours\n")
    missing, stale = complaints(made_up, [first, last])
    assert "nothing gives 12 MB" in missing
    assert last.words in stale
