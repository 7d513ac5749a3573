"""The numbers with units in the lectures' prose: each comes from somewhere, and a changed digit is noticed.

tests/number_sources.txt lists what no rule of prose_numbers.py explains: `lecture | words, as they stand | where from`.
"""

import functools
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import prose_numbers
import pytest
from prose_numbers import ROOT, Hit, Page, clean, explanations, fields, shown, table

from course_lib import data
from course_lib.model import cost, pipeline, roofline

KINDS = {"cite", "expr", "record", "setting", "aim"}


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
lectures = functools.cache(prose_numbers.lectures)


def of_kind(kind: str) -> list[Source]:
    return [source for source in SOURCES if source.kind == kind]


def lecture(source: Source) -> Page:
    return next(page for page in lectures() if page.name == source.lecture)


def complaints(page: Page, sources: list[Source]) -> list[str]:
    listed = {hit for source in sources if source.lecture == page.name for hit in source.covered(page)}
    found = []
    for hit in (hit for hit, why in explanations(page, listed) if not why):
        words = " ".join(page.texts[hit.cell][max(0, hit.start - 45) : hit.start + 35].split())
        found.append(
            f"lecture {page.name}, cell {page.cells[hit.cell]['id']}, “… {words} …”: nothing gives {hit.number} {hit.unit}. "
            "Print it in a code cell, write it as arithmetic, or add a line to tests/number_sources.txt"
        )
    return found


def stale(page: Page, source: Source) -> str:
    hits = source.covered(page)
    if any(not page.explain(hit) for hit in hits):
        return ""
    return f"“{source.words}” " + (
        "holds only numbers that are explained anyway" if hits else "is no number of the page"
    )


def test_each_number_with_a_unit_comes_from_somewhere() -> None:
    found = [line for page in lectures() for line in complaints(page, SOURCES)]
    assert not found, "\n".join(found)


def test_no_line_of_the_list_is_stale() -> None:
    assert {source.kind for source in SOURCES} <= KINDS
    found = [
        f"{source.lecture}: {why}; drop the line or mend it"
        for source in SOURCES
        if (why := stale(lecture(source), source))
    ]
    assert not found, "\n".join(found)


def rows(name: str, device: str = "nvidia-h200", **where) -> list[SimpleNamespace]:
    """The rows of a record in which the fields have these values."""
    found = data.measured(device, name).rows
    return [SimpleNamespace(**row) for row in found if all(row[key] == x for key, x in where.items())]


def seconds(name: str, device: str = "nvidia-h200", **where) -> float:
    """The shortest time among them."""
    return min(row.seconds for row in rows(name, device, **where))


def idle(consumers: int = 2, buffers: int = 3, mode: str = "none") -> float:
    """Percent of the time in which the tensor cores of lecture 10's pictures do nothing."""
    return 100 * pipeline.idle_fraction(pipeline.simulate(6, consumers, buffers, 2, 1, 1, 1, mode))


SCOPE = {"math": math, "data": data, "cost": cost, "roofline": roofline, "rows": rows, "seconds": seconds, "idle": idle}


@pytest.mark.parametrize("source", of_kind("expr"), ids=lambda source: f"{source.lecture} {source.words[:40]}")
def test_an_expression_of_the_list_comes_out(source: Source) -> None:
    result = eval(source.where, dict(SCOPE))
    values, hits = result if isinstance(result, list) else [result], source.covered(lecture(source))
    assert len(values) == len(hits), f"{values} for {[hit.number for hit in hits]}"
    assert all(hit.is_given_by(found) for hit, found in zip(hits, values)), f"{values}: {[hit.number for hit in hits]}"


@pytest.mark.parametrize("source", of_kind("record"), ids=lambda source: f"{source.lecture} {source.words[:40]}")
def test_a_record_of_the_list_has_the_numbers(source: Source) -> None:
    name, page = source.where.split()[0], lecture(source)
    paths = [*(ROOT / "data").glob(f"measured/*/{name}.json"), *(ROOT / "data").glob(f"reported/{name}.csv")]
    found = [field for path in paths for row in table(path) for field in fields(row)]
    missing = [
        hit.number for hit in source.covered(page) if not page.explain(hit) and not any(shown(hit, *x) for x in found)
    ]
    assert not missing, f"{name} has no {missing}"


def wrong(hit: Hit, shift: int) -> Hit:
    """The same hit with another last digit."""
    mantissa = hit.number.split("e")[0]
    last = max(i for i, c in enumerate(mantissa) if c.isdigit() and (c != "0" or "." in mantissa))
    number = hit.number[:last] + str((int(mantissa[last]) + shift) % 10) + hit.number[last + 1 :]
    return replace(hit, number=number, line=hit.line[: hit.at] + number + hit.line[hit.at + len(hit.number) :])


def test_a_changed_digit_is_noticed() -> None:
    found = [(page, hit) for page in lectures() for hit in page.hits if hit.digits > 2 and page.explain(hit)]
    passed = [bool(page.explain(wrong(hit, shift))) for page, hit in found for shift in (1, 2, 3, 7)]
    assert len(passed) > 200
    assert sum(passed) <= 0.1 * len(passed), f"{sum(passed)} of {len(passed)} wrong numbers pass"


def page(prose: str, output: str = "", code: str = "", notes: str = "-") -> Page:
    def cell(kind: str, source: str, **more) -> dict:
        return {"id": f"{kind}-1", "cell_type": kind, "metadata": {}, "source": [source], **more}

    output_cell = cell("code", code, outputs=[{"output_type": "stream", "text": [output]}])
    texts = ("# 00 · A page", notes, f"## First\n\n{prose}")
    return Page(
        "00", [*(cell("markdown", text) for text in texts), output_cell, cell("markdown", "## Recap\n\nThe end.")]
    )


@pytest.mark.parametrize(
    ("made_up", "why"),
    [
        (page("It takes 3.47 ms.", "time  3.47 ms"), "output"),
        (page("It takes 3.47 ms.", "time  3.48 ms"), ""),
        (page("It takes 3.47 ms.", "size  3.47 MB"), ""),
        (page("It takes 3.47 ms.", "1e-3 0.00347 3471 µs"), "output"),
        (page("S has 2.1 MB.", "bytes of S  2,097,152"), "output"),
        (page("S has 2.2 MB.", "bytes of S  2,097,152"), ""),
        (page("Busy for 83 %.", "share 0.832"), "output"),
        (page("Busy for 84 %.", "share 0.832"), ""),
        (page(r"$1{,}024 \cdot 64 / 2 = 32{,}768$ bytes"), "arithmetic"),
        (page(r"$1{,}024 \cdot 64 / 2 = 32{,}769$ bytes"), ""),
        (page("64² · 8 bytes = 33 KB", "8 bytes"), "arithmetic"),
        (page("An A100 has 40 GB and 1.555 TB/s."), "GPU"),
        (page("An A100 has 41 GB and 1.556 TB/s."), ""),
        (page("It takes 205 µs.", code='data.measured("nvidia-h200", "ring")'), ""),
        (page("It takes 631 µs.", code='data.measured("nvidia-h200", "ring")'), "record"),
        (page("Tiles of 8,192 bytes.", code="tile = 8192"), "code"),
        (page("Loads of 4 bytes.", "ratio 3.6"), ""),
        (page("Gains 8.192 times.", code="gain = 8.192"), ""),
    ],
)
def test_a_number_is_explained_by_what_gives_it(made_up: Page, why: str) -> None:
    hit, *_ = [hit for hit in made_up.hits if hit.number not in ("8", "40")] or made_up.hits
    assert made_up.explain(hit) == why


def test_numbers_in_code_and_in_exercises_are_not_read() -> None:
    assert not page("Call `wait(3 ms)` for 64 rows of lecture 05.").hits
    made_up = page("It takes 3 ms.")
    made_up.cells[2]["metadata"]["tags"] = ["exercise"]
    assert not Page("00", made_up.cells).hits


def test_a_short_number_has_to_be_shown_near_by() -> None:
    shown_far = page("-", "4 times").cells
    shown_far[-1]["source"] = ["## Later\n\nIt takes 4 times as long."]
    assert Page("00", shown_far).explain(Page("00", shown_far).hits[0]) == ""
    assert page("It takes 4 times as long.", "4 times").explain(page("It takes 4 times as long.").hits[0]) == "output"
    note = page("-", "4 times", notes="*First*: 4 times. *Recap*: 7 times.")
    assert [note.explain(hit) for hit in note.hits] == ["output", ""]


def test_a_number_of_a_lecture_that_the_line_names_is_explained() -> None:
    made_up = page("Lecture 05 has 3.47 ms; see also `06`.")
    made_up.others = [page("-", "3.47 ms")]
    made_up.others[0].name = "06"
    assert made_up.explain(made_up.hits[0]) == ""
    made_up.others[0].name = "05"
    assert made_up.explain(replace(made_up.hits[0], line="In lecture 05 it has 3.47 ms", at=20)) == "lecture"


def test_the_list_explains_and_a_stale_line_is_named() -> None:
    made_up = page("It takes 3.47 ms\nor 12 MB, and again 3.47 ms. Then 5.1 s.", "5.1 s")
    first, last = read_list("# comment\n\n00 | takes 3.47 ms or | cite a book\n00 | Then 5.1 s | aim ours\n")
    assert [why for _, why in explanations(made_up, first.covered(made_up))] == ["list", "", "repeat", "output"]
    (line,) = complaints(made_up, [first, last])
    assert "lecture 00, cell markdown-1, “" in line
    assert "nothing gives 12 MB. Print it in a code cell, write it as arithmetic, or add a line" in line
    assert not stale(made_up, first)
    assert "explained anyway" in stale(made_up, last)
    assert "no number of the page" in stale(made_up, replace(first, words="takes 3.48 ms"))
