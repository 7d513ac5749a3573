"""Reads data/: GPUs, claims, reported figures, own measurements (data/measured). A broken row is an error naming file, line and field."""

import csv
import functools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from course_lib import checks

_INSTALLED = Path(__file__).resolve().with_name("_data")  # in a wheel: setup.py
DATA = _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parents[1] / "data"


class DataError(ValueError):
    """A table in ``data/`` is broken; the message names file, line and field."""


Rows = tuple[Mapping[str, Any], ...]  # that nobody can change: they are read once, and all callers have the same ones


def _fixed(rows: list[dict[str, Any]]) -> Rows:
    return tuple(map(MappingProxyType, rows))


COUNTS = ("n", "d", "sms", "shared_bytes_per_cycle")  # columns of whole numbers


def read_table(path: Path, key: str) -> list[dict[str, Any]]:
    """The rows of a CSV file. A column that holds a number holds numbers above 0 alone, or None where it is blank; others hold text.

    ``key`` is a column that differs from row to row. Raises DataError naming file, line and field; TypeError or ValueError for a path or
    key that cannot be.
    """
    checks.instance("path", path, Path, "DATA / 'gpus.csv'")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            raw = [(reader.line_num, row) for row in reader]
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} is not UTF-8 ({error})") from None
    names = list(reader.fieldnames or [])
    checks.one_of("key", key, names)
    if not raw:
        raise DataError(f"{path.name} has no rows")
    for line, row in raw:
        if None in row or None in row.values():
            raise DataError(f"{path.name}, line {line}: the row does not have {len(names)} fields")
    numbers = {name for name in names if any(_number(row[name]) is not None for _, row in raw)}
    rows: list[dict[str, Any]] = []
    for line, row in raw:
        found: dict[str, Any] = dict(row)
        for name, text in row.items():
            where = f"{path.name}, line {line}, field {name!r}: {text!r}"
            if name not in numbers and not text.strip():
                raise DataError(f"{where} is empty")
            if name in numbers:
                found[name] = None if not text else int(text) if name in COUNTS and text.isdigit() else _number(text)
                if text and not 0 < (found[name] or 0.0) < math.inf:
                    raise DataError(f"{where} is not a positive number")
        if any(found[key] == other[key] for other in rows):
            raise DataError(f"{path.name}, line {line}, field {key!r}: {found[key]!r} stands in an earlier row, too")
        rows.append(found)
    return rows


def _number(text: str) -> float | None:
    """The number that a field holds, None if it holds none."""
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class Gpu:
    """One row of ``data/gpus.csv``. Sizes and rates in the units of their names; rates are dense tensor-core peaks."""

    name: str
    architecture: str
    compute_capability: float
    hbm_gb: float
    hbm_gb_per_s: float
    sms: int
    boost_mhz: float
    l1_kib_per_sm: float
    shared_kib_per_sm: float
    shared_kib_per_block: float
    shared_bytes_per_cycle: int
    l2_mib: float
    fp32_tflops: float
    tf32_tflops: float | None
    fp16_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    source: str

    @property
    def hbm_bytes_per_s(self) -> float:
        return self.hbm_gb_per_s * 1e9

    @property
    def sram_bytes(self) -> float:
        """L1 and shared memory of all SMs together, bytes (A100: 192 KiB × 108, the papers' 20 MB)."""
        return self.l1_kib_per_sm * 1024 * self.sms

    @property
    def sram_bytes_per_s(self) -> float:
        """Peak of all SMs' shared memory at the boost clock: 128 bytes a cycle (32 banks × 4), on Turing 64."""
        return self.sms * self.shared_bytes_per_cycle * self.boost_mhz * 1e6

    @property
    def shared_bytes_per_block(self) -> int:
        return int(self.shared_kib_per_block * 1024)

    def flops_per_s(self, dtype: str) -> float:
        """Peak rate for 'fp32', 'tf32', 'fp16', 'bf16' or 'fp8', in operations a second.

        Raises ValueError where the format is unknown or this GPU's tensor cores do not have it.
        """
        rates = {
            "fp32": self.fp32_tflops,
            "tf32": self.tf32_tflops,
            "fp16": self.fp16_tflops,
            "bf16": self.bf16_tflops,
            "fp8": self.fp8_tflops,
        }
        tflops = rates[checks.one_of("dtype", dtype, list(rates))]
        if tflops is None:
            has = ", ".join(repr(name) for name, value in rates.items() if value is not None)
            raise ValueError(f"the {self.name} has no {dtype} tensor-core rate; choose one of {has}")
        return tflops * 1e12

    def ridge(self, dtype: str) -> float:
        """The arithmetic intensity, FLOP per HBM byte, from which on compute and not memory is the limit."""
        return self.flops_per_s(dtype) / self.hbm_bytes_per_s


@functools.cache
def gpus() -> Mapping[str, Gpu]:
    """All GPUs of ``data/gpus.csv`` by name, in the file's order."""
    return MappingProxyType({row["name"]: Gpu(**row) for row in read_table(DATA / "gpus.csv", key="name")})


def gpu(name: str) -> Gpu:
    """One GPU by name; raises ValueError listing the names for one that is not in the table."""
    return gpus()[checks.one_of("gpu", name, list(gpus()))]


@functools.cache
def links() -> Mapping[str, float]:
    """Bytes a second that a GPU sends over a link, in one direction, by the link's name, in the order of ``data/links.csv``."""
    rows = read_table(DATA / "links.csv", key="name")
    return MappingProxyType({row["name"]: row["gb_per_s"] * 1e9 for row in rows})


def link(name: str) -> float:
    """Bytes a second of one link, in one direction; raises ValueError listing the names for one that is not in the table."""
    return links()[checks.one_of("link", name, list(links()))]


def reported(name: str) -> Rows:
    """The rows of ``data/reported/<name>.csv``: what a source reports, with the source's key in column ``source``."""
    return _reported(checks.one_of("name", name, sorted(path.stem for path in (DATA / "reported").glob("*.csv"))))


@functools.cache
def _reported(name: str) -> Rows:
    path = DATA / "reported" / f"{name}.csv"
    rows = read_table(path, key=path.read_text(encoding="utf-8").split(",")[0])
    known = {row["key"] for row in rows} if name == "sources" else {row["key"] for row in _reported("sources")}
    for row in rows:
        if "source" in row and row["source"] not in known:
            raise DataError(f"{path.name}, field 'source': {row['source']!r} is not in reported/sources.csv")
    return _fixed(rows)


@functools.cache
def claims() -> Mapping[str, Mapping[str, str]]:
    """The claims ledger by id: source, lecture, the claim, the experiment that tests it."""
    return MappingProxyType({row["id"]: row for row in _fixed(read_table(DATA / "claims.csv", key="id"))})


class Measured(NamedTuple):
    """One of our own recordings: where and how it was made, and its rows."""

    provenance: Mapping[str, Any]
    rows: Rows

    @property
    def label(self) -> str:
        """What a figure made from this says of itself: 'recorded 2026-11-21, NVIDIA H200, triton 3.6.0'."""
        made = self.provenance
        return f"recorded {made['date'][:10]}, {made['device']}, triton {made['versions']['triton']}"

    def version(self, package: str) -> str:
        """Which 'python', 'torch', 'triton' or 'cudnn' it was made with, without the build; cuDNN's 91900 is '9.19.0'."""
        text = str(self.provenance["versions"][checks.one_of("package", package, list(self.provenance["versions"]))])
        if package == "cudnn":
            number = int(text)
            return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
        return text.split("+")[0]


SIGNED = ("kept",)  # the fields of a recording that may be below 0


def check_rows(rows: Any) -> list[dict[str, Any]]:
    """``rows`` if they can be a recording's: dictionaries of the same fields, each text, True, False or a finite number.

    Numbers are of at least 0, but for those of ``SIGNED``. Raises ValueError naming row and field.
    """
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"field 'rows': is {'empty' if rows == [] else 'missing or no list'}")
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or not row or not all(isinstance(field, str) for field in row):
            raise ValueError(f"row {number}: is {checks.shown(row)}; expected fields with values")
        if set(row) != set(rows[0]):
            raise ValueError(f"row {number}: has fields {sorted(row)}; expected {sorted(rows[0])}")
        for field, value in row.items():
            if not isinstance(value, str | bool | int | float):
                raise ValueError(f"row {number}, field {field!r}: {checks.shown(value)} is no text and no number")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"row {number}, field {field!r}: {value} is not a finite number")
            if not isinstance(value, str) and value < 0 and field not in SIGNED:
                raise ValueError(f"row {number}, field {field!r}: {value} is below 0")
    return rows


def measured(device: str, name: str) -> Measured:
    """``data/measured/<device>/<name>.json``; raises DataError naming the file and what is wrong with it."""
    for what, part in (("device", device), ("name", name)):
        checks.text(what, part)
    path = DATA / "measured" / device / f"{name}.json"
    if not all(re.fullmatch(r"\w[\w.-]*", part) for part in (device, name)) or not path.is_file():
        have = sorted(
            str(p.relative_to(DATA / "measured").with_suffix("")) for p in (DATA / "measured").glob("*/*.json")
        )
        raise ValueError(f"no recording {device}/{name}; choose one of {', '.join(have)} (data/measured)")
    return _recording(f"measured/{device}/{name}.json", path.read_bytes())


@functools.lru_cache(maxsize=64)
def _recording(where: str, written: bytes) -> Measured:
    """What is written, once it is checked: a figure reads a recording for each of its marks, and is drawn anew while a slider moves."""
    try:
        content = json.loads(written.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise DataError(f"{where}, line {error.lineno}: {error.msg}") from None
    except ValueError as error:  # not UTF-8, or a number of thousands of digits
        raise DataError(f"{where}: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("provenance", {}), dict):
        raise DataError(f"{where}: holds no provenance and rows")
    made = content.get("provenance", {})
    for field in ("date", "command", "commit", "device"):
        if not isinstance(made.get(field), str) or not made[field]:
            raise DataError(f"{where}, field 'provenance.{field}': is missing")
    versions = made.get("versions")
    if not isinstance(versions, dict) or not isinstance(versions.get("triton"), str):
        raise DataError(f"{where}, field 'provenance.versions': is missing, or lacks triton's")
    try:
        rows = _fixed(check_rows(content.get("rows")))
    except ValueError as error:
        raise DataError(f"{where}, {error}") from None
    fixed = {field: MappingProxyType(value) if isinstance(value, dict) else value for field, value in made.items()}
    return Measured(MappingProxyType(fixed), rows)
