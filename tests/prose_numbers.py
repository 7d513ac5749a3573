"""Prints the numbers with units in the lectures' prose that no longer follow: python tests/prose_numbers.py [05 …]

A number follows, rounded as the prose prints it, from arithmetic on its line (1,024 · 64 / 2 = 32,768 bytes), from a text output of
the page, or from a line of tests/number_sources.txt, which is evaluated where it says ``expr``.
"""

import importlib
import json
import math
import pkgutil
import re
import sys
from types import SimpleNamespace

from course_lib import data, figures, model
from course_lib.files import ROOT

NUM = r"(?<![\w.^_{/−-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-−+]?\d+)?(?![\w^]*\d)"
UNIT = (
    r"[KMGT]i?B(?:/s)?\b|B(?:/s)?\b|bytes?\b|[TGMP]?FLOPs?/[sB]\b|million\b|billion\b|operations?\b|(?:ns|µs|ms|s|seconds?)\b|"
    r"%|×(?!\s*\d)|times\b|-?fold\b|[MG]Hz\b|cycles?\b|registers?\b|nats?\b"
)
HIT = re.compile(rf"(?P<nums>{NUM}(?:(?:\s*(?:,|;|and|to|or|against|of|÷|→)\s*)+{NUM})*)\s*(?P<unit>{UNIT})")
SHOWN = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
PREFIX = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
SIZES = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "million": 1e6, "billion": 1e9}
LATEX = {"{,}": ",", r"\times": "×", r"\cdot": "·", r"\approx": "≈", r"\%": "%", r"\,": " ", "\u202f": " ", "\xa0": " "}
SIGNS = {",": "", "²": "**2", "×": "*", "·": "*", "÷": "/", "−": "-", "^": "**", "{": "(", "}": ")"}
SHORT = {"loops": "loop_orders", "passes": "softmax_pictures", "matmuls": "matmul_pictures", "eight": "low_precision"}
SHORT |= {"climb": "climb_records", "gpt_steps": "capstone_steps", "count": "parallel"}


def clean(text: str) -> str:
    """Markdown to plain words: no code, no links, no formula signs."""
    text = re.sub(r"`[^`]*`", " ", re.sub(r"```.*?```", " ", text, flags=re.S))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for old, new in LATEX.items():
        text = text.replace(old, new)
    return text.replace("$", "")


def sizes(unit: str) -> list[float]:
    """What a number may be divided by before it is printed with this unit."""
    prefix = PREFIX.get(unit[0], 1.0) if re.match(r"[KMGTP]i?(B|FLOP|Hz)", unit) else SIZES.get(unit, 1.0)
    return [1.0, 0.01] if unit == "%" else [1.0, prefix, 1024.0 ** round(math.log(prefix, 1000)), 1e-6 * prefix]


def gives(found: float, hit: tuple[str, str]) -> bool:
    """To half of the last digit; a trailing 0 of a whole number counts as none, but 5 % is the most."""
    number, unit = hit
    mantissa, _, power = number.replace(",", "").replace("−", "-").partition("e")
    zeros = 0 if "." in mantissa else len(mantissa) - len(mantissa.rstrip("0"))
    half = 10.0 ** (int(power or 0) + zeros - len(mantissa.partition(".")[2])) / 2
    value = float(f"{mantissa}e{power or 0}")
    most = 1.0001 * (min(half, 0.05 * value) if zeros else half)
    return any(abs(found / size - value) <= most for size in sizes(unit))


def arithmetic(before: str) -> list[float]:
    """Results of the expressions that end in '=', '≈', ':' or '→', at most two of these before the number."""
    results = []
    for part in re.split(r"[=≈:→]", before)[-3:-1]:
        part = re.sub(rf"(?<=\d)\s*(?:{UNIT}|numbers\b|nodes\b)", "", part)
        for old, new in SIGNS.items():
            part = part.replace(old, new)
        tail = next(iter(re.findall(r"[\d.()\s+*/-]*$", part)))
        for start in re.finditer(r"(?<![\d.])[\d(]", tail):
            terms = tail[start.start() :].strip()
            if re.search(r"\d\D*[-+*/]\D*\d", terms) and not re.search(r"\*\*[( ]*\d{3}|\*\*.*\*\*", terms):
                try:
                    results.append(float(eval(terms, {"__builtins__": {}})))  # digits, brackets and + - * / alone
                except (SyntaxError, TypeError, ZeroDivisionError, OverflowError):
                    continue
    return results


def rows(name: str, device: str = "nvidia-h200", **where) -> list[SimpleNamespace]:
    found = data.measured(device, name).rows
    return [SimpleNamespace(**row) for row in found if all(row[key] == x for key, x in where.items())]


rooms = [(room.__name__, found.name) for room in (model, figures) for found in pkgutil.iter_modules(room.__path__)]
scope = {name: importlib.import_module(f"{room}.{name}") for room, name in rooms}
scope |= {short: scope[name] for short, name in SHORT.items()} | {"math": math, "data": data, "rows": rows}
scope["tiles"], scope["seconds"] = (
    figures.climb.tiles,
    lambda *name, **where: min(r.seconds for r in rows(*name, **where)),
)
listed = [
    line.split(" | ", 2) for line in (ROOT / "tests/number_sources.txt").read_text().splitlines() if " | " in line
]
for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
    if sys.argv[1:] and path.name[:2] not in sys.argv[1:]:
        continue
    cells = [c for c in json.loads(path.read_text())["cells"] if "exercise" not in c["metadata"].get("tags", [])]
    text = "\n\f".join(clean("".join(cell["source"])) for cell in cells if cell["cell_type"] == "markdown")
    outputs = [o for cell in cells for o in cell.get("outputs", []) if "text/markdown" not in o.get("data", {})]
    words = "\n".join("".join(o.get("text", "") or o.get("data", {}).get("text/plain", "")) for o in outputs)
    typed = re.compile(r"\[(interactive )?figure.*|\[clickable.*|^C\d+ \(\w+\): “.*?”$", re.M)
    shown = [float(x.replace(",", "")) for x in SHOWN.findall(typed.sub("", words))]
    hits = {}  # place -> number, unit
    for match in HIT.finditer(text):
        for number in re.finditer(NUM, match["nums"]):
            if not text[: match.start() + number.start()].endswith("= ") or number.end() == len(match["nums"]):
                hits[match.start() + number.start()] = number[0], match["unit"]
    for _, quote, source in (line for line in listed if line[0] == path.name[:2]):
        spans = [m.span() for m in re.finditer(r"\s+".join(map(re.escape, clean(quote).split())), text)]
        covered = [hits.pop(place) for place in sorted(hits) if any(a <= place < b for a, b in spans)]
        values = eval(source.removeprefix("expr "), dict(scope)) if source.startswith("expr ") else None
        values = values if isinstance(values, list) or values is None else [values]
        if not covered or (values and [gives(*pair) for pair in zip(values, covered)] != [True] * len(covered)):
            print(f"{path.name[:2]} number_sources.txt, “{quote}”: the page has {covered}, the source gives {values}")
    for place, hit in hits.items():
        before = text[text.rfind("\n", 0, place) + 1 : place]
        if not any(gives(x, hit) for x in arithmetic(before) + shown):
            print(
                f"{path.name[:2]} “… {' '.join(text[max(0, place - 45) : place + 35].split())} …”: nothing gives {hit}"
            )
