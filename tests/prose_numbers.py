"""Numbers with units in the prose of the lectures, and what explains each. Reads files only: it runs no lecture.

A number is explained, rounded as the prose prints it, by

    arithmetic   the line works it out: 1,024 · 64 / 2 = 32,768 bytes
    output       a text output of the page; one of a single digit in the same section
    list         a line of tests/number_sources.txt, which test_prose_numbers.py reads

A figure's words and a claim's sentence were typed: no evidence.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

NUM = r"(?<![\w.^_{/−-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-−+]?\d+)?(?![\w^]*\d)"
UNIT = (
    r"[KMGT]i?B(?:/s)?\b|B(?:/s)?\b|bytes?\b|[TGMP]?FLOPs?/[sB]\b|million\b|billion\b|operations?\b|(?:ns|µs|ms|s|seconds?)\b|"
    r"%|×(?!\s*\d)|times\b|-?fold\b|[MG]Hz\b|cycles?\b|registers?\b|nats?\b"
)
JOIN = r"(?:\s*(?:,|;|and|to|or|against|of|÷|→)\s*)+"
HIT = re.compile(rf"(?P<nums>{NUM}(?:{JOIN}{NUM})*)\s*(?P<unit>{UNIT})")
SHOWN = re.compile(rf"(?<![\w.])(\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s?({UNIT})?")
RATIO = {"%", "×", "times", "fold", "-fold"}
COUNTED = {"B", "byte", "bytes", "operations", "cycles", "registers"}  # whole numbers, not rounded
SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "second": 1.0, "seconds": 1.0}
PREFIX = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
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

    @property
    def value(self) -> float:
        return float(self.number.replace(",", "").replace("−", "-"))

    @property
    def digits(self) -> int:
        """Significant digits: 2,097,152 has 7, 0.002 has 1, and so has 40."""
        mantissa = self.number.replace(",", "").split("e")[0]
        return max(1, len(mantissa.replace(".", "").lstrip("0") if "." in mantissa else mantissa.strip("0")))

    def is_given_by(self, found: float) -> bool:
        """To half of the last digit; a trailing 0 of a whole number counts as none, but 5 % is the most."""
        mantissa, _, power = self.number.replace(",", "").partition("e")
        zeros = 0 if "." in mantissa else len(mantissa) - len(mantissa.rstrip("0"))
        half = 10.0 ** (int(power.replace("−", "-") or 0) + zeros - len(mantissa.partition(".")[2])) / 2
        return abs(found - self.value) <= 1.0001 * (min(half, 0.05 * self.value) if zeros else half)


def clean(text: str) -> str:
    """Markdown to plain words: no code, no links, no formula signs."""
    text = re.sub(r"`[^`]*`", " ", re.sub(r"```.*?```", " ", text, flags=re.S))
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


def output_text(output: dict) -> str:
    """What an output prints; "" for a listing, and for the words of a picture or a claim, which were typed."""
    printed = output.get("data", {})
    text = "".join(output.get("text", "") or printed.get("text/plain", ""))
    if "text/markdown" in printed or re.match(r"\[(?:interactive )?figure|\[clickable", text):
        return ""
    return re.sub(r"^C\d+ \(\w+\): “.*?”$", "", text, flags=re.M)


class Page:
    """A lecture: the words of its markdown cells without exercises, and the numbers that it prints, by section."""

    def __init__(self, name: str, cells: list[dict]):
        self.name, self.cells = name, cells
        self.texts: dict[int, str] = {}
        self.sections: list[int] = []  # of each cell
        self.printed: list[tuple[int, float, str]] = []  # section, number, unit or ""
        for i, cell in enumerate(cells):
            source, is_prose = "".join(cell["source"]), cell["cell_type"] == "markdown"
            self.sections.append((self.sections or [0])[-1] + (is_prose and bool(re.search("^## ", source, re.M))))
            if "exercise" in cell["metadata"].get("tags", []):
                continue
            if is_prose:
                self.texts[i] = clean(source)
            for number, unit in SHOWN.findall("\n".join(map(output_text, cell.get("outputs", [])))):
                self.printed.append((self.sections[i], float(number.replace(",", "")), unit))
        self.hits = [hit for i, text in self.texts.items() for hit in hits_in(text, i)]

    def explains(self, hit: Hit) -> bool:
        near = [(found, unit) for s, found, unit in self.printed if hit.digits > 1 or s == self.sections[hit.cell]]
        return arithmetic(hit) or any(shown(hit, found, unit) for found, unit in near)
