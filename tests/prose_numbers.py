"""Numbers with units in the prose of the lectures, and where each comes from. Reads files only: it runs no lecture.

A number is explained by the first of these that gives it, rounded as the prose prints it:

    arithmetic   the line works it out: 1,024 · 64 / 2 = 32,768 bytes
    output       a text output of the page; 3 digits or more anywhere on it, 2 in this section or beside it, 1 in this one
    GPU          a field of data/gpus.csv, of a GPU that the cell names
    record       a field of data/measured or data/reported that the page reads, by its unit; 3 digits or more
    code         a parameter in a code cell, as near as an output; not for times and ratios
    lecture      a text output of a lecture that the line names; 3 digits or more
    list         a line of tests/number_sources.txt, which test_prose_numbers.py reads
    repeat       the same number and unit are explained elsewhere on the page

Notes are as near as the section that their line names. A figure's words and a claim's sentence were typed: no evidence.
"""

import csv
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUM = r"(?<![\w.^_{/−-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-−+]?\d+)?(?![\w^]*\d)"
UNIT = (
    r"[KMGT]i?B(?:/s)?\b|B(?:/s)?\b|bytes?\b|[TGMP]?FLOPs?/[sB]\b|million\b|billion\b|operations?\b|(?:ns|µs|ms|s|seconds?)\b|"
    r"%|×(?!\s*\d)|times\b|-?fold\b|[MG]Hz\b|cycles?\b|registers?\b|nats?\b"
)
JOIN = r"(?:\s*(?:,|;|and|to|or|against|of|÷|→)\s*)+"
HIT = re.compile(rf"(?P<nums>{NUM}(?:{JOIN}{NUM})*)\s*(?P<unit>{UNIT})")
SHOWN = re.compile(rf"(?<![\w.])(\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s?({UNIT})?")
LITERAL = r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e-?\d+)?"
RATIO = {"%", "×", "times", "fold", "-fold"}
COUNTED = {"B", "byte", "bytes", "operations", "cycles", "registers"}  # whole numbers, not rounded
SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "second": 1.0, "seconds": 1.0}
PREFIX = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
COLUMNS = {
    "seconds$": "s", "_ms$": "ms", "bytes$": "B", "_mi?b$": "MB", "_gb$": "GB", "_gb_per_s$": "GB/s", "_kib_": "KiB",
    "_mhz$": "MHz", "tflops$": "TFLOP/s",
}  # fmt: skip
LATEX = {
    "{,}": ",", r"\times": "×", r"\cdot": "·", r"\approx": "≈", r"\%": "%", r"\,": " ", "\u202f": " ", "\u00a0": " ",
}  # fmt: skip
SIGNS = {",": "", "²": "**2", "×": "*", "·": "*", "÷": "/", "−": "-", "^": "**", "{": "(", "}": ")"}


@dataclass(frozen=True)
class Hit:
    """A number with a unit at ``start`` of a cell's text; ``line`` is the line around it, ``at`` its place there."""

    cell: int
    number: str
    unit: str
    start: int
    line: str
    at: int

    @cached_property
    def value(self) -> float:
        return float(self.number.replace(",", "").replace("−", "-"))

    @cached_property
    def digits(self) -> int:
        """Significant digits: 2,097,152 has 7, 0.002 has 1, and so has 40."""
        mantissa = self.number.replace(",", "").split("e")[0]
        return max(1, len(mantissa.replace(".", "").lstrip("0") if "." in mantissa else mantissa.strip("0")))

    @cached_property
    def tolerance(self) -> float:
        """Half of the last digit; a trailing 0 of a whole number counts as none, but 5 % is the most."""
        mantissa, _, power = self.number.replace(",", "").partition("e")
        zeros = 0 if "." in mantissa else len(mantissa) - len(mantissa.rstrip("0"))
        half = 10.0 ** (int(power.replace("−", "-") or 0) + zeros - len(mantissa.partition(".")[2])) / 2
        return 1.0001 * (min(half, 0.05 * self.value) if zeros else half)

    def is_given_by(self, found: float) -> bool:
        return abs(found - self.value) <= self.tolerance


def clean(text: str) -> str:
    """Markdown to plain words: no code, no links, no formula signs; `06` is the name of a lecture and stays."""
    text = re.sub(r"```.*?```", " ", text, flags=re.S)
    text = re.sub(r"`[^`]*`", " ", re.sub(r"`(\d\d)`", r"\1", text))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for old, new in LATEX.items():
        text = text.replace(old, new)
    return re.sub(r"(?<!\\)\$", "", text).replace("\\$", "$")


def hits_in(text: str, cell: int = 0) -> Iterator[Hit]:
    for match in HIT.finditer(text):
        begin, end = text.rfind("\n", 0, match.start()) + 1, (text + "\n").find("\n", match.end())
        for number in re.finditer(NUM, match["nums"]):
            start = match.start() + number.start()
            if text[:start].endswith("= ") and number.end() < len(match["nums"]):
                continue  # N = 1,024, 21 GB
            yield Hit(cell, number[0], match["unit"], start, text[begin:end], start - begin)


def kind(unit: str) -> tuple[str, float]:
    """What a unit measures, and its size in the base unit: ('byte', 1e6) for MB."""
    if unit in SECONDS:
        return "time", SECONDS[unit]
    if unit in RATIO:
        return "ratio", 1.0
    if match := re.fullmatch(r"([KMGTP]?)(i?)(B|bytes?|FLOPs?|Hz)(/[sB])?", unit):
        size = 1024.0 ** (1 + "KMGT".find(match[1])) if match[2] else PREFIX.get(match[1], 1.0)
        return match[3].lower().rstrip("s")[0] + (match[4] or ""), size
    return unit.rstrip("s"), {"million": 1e6, "billion": 1e9}.get(unit, 1.0)


def shown(hit: Hit, found: float, unit: str) -> bool:
    """Does ``found``, with ``unit`` or ('') with none, show the number? 0.83 shows 83 %, 2097152 shows 2 MB."""
    what, size = kind(hit.unit)
    if unit:
        other, theirs = kind(unit)
        return what == other and (hit.unit == "%") == (unit == "%") and hit.is_given_by(found * theirs / size)
    if hit.unit in COUNTED:
        return found == hit.value
    if hit.is_given_by(found) or (hit.unit == "%" and hit.is_given_by(100 * found)):
        return True
    if size == 1 or (hit.digits < 2 and found < 1e5):
        return False
    binary = 1024.0 ** (1 + "KMGT".find(hit.unit[0])) if what == "b" else size
    return hit.is_given_by(found / size) or hit.is_given_by(found / binary)


def arithmetic(hit: Hit) -> bool:
    """Does an expression that ends in '=', '≈', ':' or '→', at most two of these before the number, come out as it?"""
    for part in re.split(r"[=≈:→]", hit.line[: hit.at])[-3:-1]:
        part = re.sub(rf"(?<=\d)\s*(?:{UNIT}|numbers\b|nodes\b)", "", part)
        for old, new in SIGNS.items():
            part = part.replace(old, new)
        tail = re.search(r"[\d.()\s+*/-]*$", part)[0]
        for start in re.finditer(r"(?<![\d.])[\d(]", tail):
            terms = tail[start.start() :].strip()
            if re.search(r"\d\D*[-+*/]\D*\d", terms) and not re.search(r"\*\*[( ]*\d{3}|\*\*.*\*\*", terms):
                try:
                    result = float(eval(terms, {"__builtins__": {}}))  # digits, brackets and + - * / by the tests above
                except (SyntaxError, TypeError, ZeroDivisionError, OverflowError):
                    continue
                if hit.is_given_by(result) or hit.is_given_by(result / kind(hit.unit)[1]):
                    return True
    return False


def fields(row: dict) -> list[tuple[float, str]]:
    """The numbers of a table's row whose column names a unit, with it."""
    units = {name: [unit for column, unit in COLUMNS.items() if re.search(column, name)] for name in row}
    return [(float(x), units[name][0]) for name, x in row.items() if units[name] and x not in ("", None)]


def table(path: Path) -> list[dict]:
    text = path.read_text(encoding="utf-8")
    return json.loads(text)["rows"] if path.suffix == ".json" else list(csv.DictReader(text.splitlines()))


def output_text(output: dict) -> str:
    """What an output prints; "" for a listing, and for the words of a picture or a claim, which were typed."""
    data = output.get("data", {})
    text = "".join(output.get("text", "") or data.get("text/plain", ""))
    if "text/markdown" in data or re.match(r"\[(?:interactive )?figure|\[clickable", text):
        return ""
    return re.sub(r"^C\d+ \(\w+\): “.*?”$", "", text, flags=re.M)


class Page:
    """A lecture: the words of its markdown cells, and what explains their numbers."""

    def __init__(self, name: str, cells: list[dict]):
        self.name, self.cells = name, cells
        self.others: list[Page] = []
        self.texts: dict[int, str] = {}
        self.titles: dict[str, int] = {}
        self.sections: list[int] = []  # of each cell
        self.printed: list[tuple[int, float, str]] = []  # section, number, unit or ""
        self.literals: list[tuple[int, float]] = []  # section, number
        for i, cell in enumerate(cells):
            source, is_prose = "".join(cell["source"]), cell["cell_type"] == "markdown"
            title = re.search(r"^## (.+)$", source, flags=re.M) if is_prose else None
            section = (self.sections or [0])[-1] + bool(title)
            self.sections.append(section)
            if title:
                self.titles[clean(title[1]).strip()] = section
            if "exercise" in cell["metadata"].get("tags", []):
                continue
            if is_prose:
                self.texts[i] = clean(source)
                continue
            self.literals += [(section, float(x)) for x in re.findall(LITERAL, source)]
            for number, unit in SHOWN.findall("\n".join(map(output_text, cell["outputs"]))):
                self.printed.append((section, float(number.replace(",", "")), unit))
        self.hits = [hit for i, text in self.texts.items() for hit in hits_in(text, i)]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        files = [*(ROOT / "data").glob("measured/*/*.json"), *(ROOT / "data").glob("reported/*.csv")]
        read = [row for path in files if f'"{path.stem}"' in code for row in table(path)]
        self.records = [field for row in read for field in fields(row)]
        self.gpus: dict[str, list[tuple[float, str]]] = {}
        for row in table(ROOT / "data/gpus.csv"):
            sram = float(row["l1_kib_per_sm"]) * float(row["sms"])
            self.gpus.setdefault(row["name"].split("-")[0], []).extend([*fields(row), (sram, "KiB")])

    def near(self, hit: Hit) -> set[int]:
        """The sections near enough to be what the number comes from."""
        anywhere, beside = {0, *self.sections}, int(hit.digits > 1)
        if hit.cell == 1:  # the notes
            here = [section for title, section in self.titles.items() if title in hit.line]
            if beside and not here:
                return anywhere
        else:
            here = [self.sections[hit.cell]]
            if hit.digits > 2 or (beside and hit.cell == max(self.texts)):  # the recap
                return anywhere
        return {near for section in here for near in range(section - beside, section + beside + 1)}

    def explain(self, hit: Hit) -> str:
        """Where the number comes from, '' if from nowhere; the list and repeats apart."""
        near = self.near(hit)
        if arithmetic(hit):
            return "arithmetic"
        if any(section in near and shown(hit, found, unit) for section, found, unit in self.printed):
            return "output"
        names = [name for name in self.gpus if re.search(rf"\b{name}\b", self.texts[hit.cell])]
        if any(shown(hit, found, unit) for name in names for found, unit in self.gpus[name]):
            return "GPU"
        if hit.digits > 2 and any(shown(hit, found, unit) for found, unit in self.records):
            return "record"
        if kind(hit.unit)[0] not in ("ratio", "time") and any(s in near and x == hit.value for s, x in self.literals):
            return "code"
        named = [other for other in self.others if re.search(rf"(?:lectures?|and) {other.name}\b", hit.line)]
        if hit.digits > 2 and any(shown(hit, found, unit) for other in named for _, found, unit in other.printed):
            return "lecture"
        return ""


def lectures() -> list[Page]:
    files = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    pages = [Page(path.name[:2], json.loads(path.read_text(encoding="utf-8"))["cells"]) for path in files]
    for page in pages:
        page.others = [other for other in pages if other is not page]
    return pages


def explanations(page: Page, listed: Collection[Hit] = ()) -> list[tuple[Hit, str]]:
    """Each hit of a page with its explanation, '' where there is none."""
    found = [(hit, page.explain(hit) or "list" * (hit in listed)) for hit in page.hits]
    known = {(hit.number, hit.unit) for hit, why in found if why and hit.digits > 1}
    return [(hit, why or "repeat" * ((hit.number, hit.unit) in known)) for hit, why in found]
