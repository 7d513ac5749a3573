"""Reads data/: GPUs, claims, reported figures, own measurements (data/measured). A broken row is an error naming file, line and field."""

import csv
import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from course_lib import checks

DATA = Path(__file__).resolve().parents[1] / "data"


class DataError(ValueError):
    """A table in ``data/`` is broken; the message names file, line and field."""


def as_text(s: str) -> str:
    """A field that must not be empty; as it is. Raises ValueError, as all converters do."""
    if not checks.text("s", s).strip():
        raise ValueError("is empty")
    return s


def as_positive(s: str) -> float:
    """A finite number above 0."""
    x = float(checks.text("s", s))
    if not 0 < x < float("inf"):
        raise ValueError("is not a positive number")
    return x


def as_count(s: str) -> int:
    """A whole number of at least 1."""
    x = int(checks.text("s", s))
    if x < 1:
        raise ValueError("is not a whole number of at least 1")
    return x


def as_rate(s: str) -> float | None:
    """A peak rate, or None where the hardware does not have the format."""
    return as_positive(s) if checks.text("s", s) else None


def read_table(path: Path, schema: Mapping[str, Callable[[str], Any]], key: str) -> list[dict[str, Any]]:
    """The rows of a CSV file, each field converted by its schema entry; ``key`` must differ from row to row.

    Raises DataError naming file, line and field; TypeError or ValueError for a path, schema or key that cannot be.
    """
    checks.instance("path", path, Path, "DATA / 'gpus.csv'")
    checks.instance("schema", schema, Mapping, "{'name': as_text}")
    for name, convert in schema.items():
        checks.function(f"schema[{name!r}]", convert)
    checks.one_of("key", key, list(schema))
    try:
        return _rows(path, schema, key)
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} is not UTF-8 ({error})") from None


def _rows(path: Path, schema: Mapping[str, Callable[[str], Any]], key: str) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if list(reader.fieldnames or []) != list(schema):
            raise DataError(f"{path.name}, line 1: the columns are {reader.fieldnames}; expected {list(schema)}")
        rows: list[dict[str, Any]] = []
        for raw in reader:
            where = f"{path.name}, line {reader.line_num}"
            if None in raw or None in raw.values():
                raise DataError(f"{where}: the row does not have {len(schema)} fields")
            row = {}
            for name, convert in schema.items():
                try:
                    row[name] = convert(raw[name])
                except ValueError as error:
                    raise DataError(f"{where}, field {name!r}: {raw[name]!r} ({error})") from None
            if any(row[key] == other[key] for other in rows):
                raise DataError(f"{where}, field {key!r}: {row[key]!r} stands in an earlier row, too")
            rows.append(row)
    if not rows:
        raise DataError(f"{path.name} has no rows")
    return rows


@dataclass(frozen=True)
class Gpu:
    """One row of ``data/gpus.csv``. Sizes and rates in the units of their names; rates are dense tensor-core peaks."""

    name: str
    architecture: str
    compute_capability: str
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


_CONVERT: dict[Any, Callable[[str], Any]] = {str: as_text, float: as_positive, int: as_count, float | None: as_rate}


@functools.cache
def gpus() -> dict[str, Gpu]:
    """All GPUs of ``data/gpus.csv`` by name, in the file's order."""
    schema = {f.name: _CONVERT[f.type] for f in fields(Gpu)}
    return {row["name"]: Gpu(**row) for row in read_table(DATA / "gpus.csv", schema, key="name")}


def gpu(name: str) -> Gpu:
    """One GPU by name; raises ValueError listing the names for one that is not in the table."""
    return gpus()[checks.one_of("gpu", name, list(gpus()))]


_REPORTED: dict[str, dict[str, Callable[[str], Any]]] = {
    "attention_gpu": {
        "n": as_count,
        "d": as_count,
        "pytorch_ms": as_positive,
        "flash_ms": as_positive,
        "pytorch_mb": as_positive,
        "flash_mb": as_positive,
        "source": as_text,
    },
    "attention_error": {"n": as_count, "lite": as_positive, "online": as_positive, "source": as_text},
    "eight_bit_error": {"way": as_text, "rms_error": as_positive, "source": as_text},
    "fa3_forward": {"d": as_count, "n": as_count, "tflops": as_positive, "source": as_text},
    "full_stack": {
        "n": as_count,
        "d": as_count,
        "python_autograd_ms": as_positive,
        "python_raw_ms": as_positive,
        "cpp_ms": as_positive,
        "pytorch_gpu_ms": as_positive,
        "lite_ms": as_positive,
        "source": as_text,
    },
    "intensity": {"n": as_count, "d": as_count, "standard": as_positive, "flash": as_positive, "source": as_text},
    "memory_prices": {"memory": as_text, "gb": as_positive, "usd": as_positive, "source": as_text},
    "sources": {"key": as_text, "title": as_text, "kind": as_text},
}


def reported(name: str) -> list[dict[str, Any]]:
    """The rows of ``data/reported/<name>.csv``: what a source reports, with the source's key in column ``source``."""
    return _reported(checks.one_of("name", name, list(_REPORTED)))


@functools.cache
def _reported(name: str) -> list[dict[str, Any]]:
    schema = _REPORTED[name]
    path = DATA / "reported" / f"{name}.csv"
    rows = read_table(path, schema, key=next(iter(schema)))
    if "source" in schema:
        known = {row["key"] for row in reported("sources")}
        for number, row in enumerate(rows, start=2):
            if row["source"] not in known:
                raise DataError(
                    f"{path.name}, line {number}, field 'source': {row['source']!r} is not in reported/sources.csv"
                )
    return rows


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """One column of rows as a list; raises ValueError listing the columns for one that is not there."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError(f"rows is {checks.shown(rows)}; pass a list of rows, for example reported('sources')")
    if not rows:
        raise ValueError("rows is empty; pass at least one row")
    for row in rows:
        checks.one_of("column", name, list(row))
    return [row[name] for row in rows]


@functools.cache
def claims() -> dict[str, dict[str, str]]:
    """The claims ledger by id: source, lecture, the claim, the experiment that tests it."""
    schema = dict.fromkeys(("id", "source", "lecture", "claim", "experiment"), as_text)
    return {row["id"]: row for row in read_table(DATA / "claims.csv", schema, key="id")}


class Measured(NamedTuple):
    """One of our own recordings: where and how it was made, and its rows."""

    provenance: dict[str, Any]
    rows: list[dict[str, Any]]

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
    where = f"measured/{device}/{name}.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
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
        return Measured(made, check_rows(content.get("rows")))
    except ValueError as error:
        raise DataError(f"{where}, {error}") from None
