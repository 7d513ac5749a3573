"""Reads data/: GPUs, claims, reported figures, own measurements (data/measured)."""

import csv
import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from course_lib import checks

_INSTALLED = Path(__file__).resolve().with_name("_data")  # in a wheel: setup.py
DATA = _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parents[1] / "data"


Rows = tuple[Mapping[str, Any], ...]  # that nobody can change: they are read once, and all callers have the same ones


def _fixed(rows: list[dict[str, Any]]) -> Rows:
    return tuple(map(MappingProxyType, rows))


COUNTS = ("n", "d", "sms", "shared_bytes_per_cycle")  # columns of whole numbers


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file. A column that holds a number holds numbers alone, or None where it is blank; others hold text."""
    with path.open(encoding="utf-8", newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for name in [name for name in rows[0] if any(_number(row[name]) is not None for row in rows)]:
        kind = int if name in COUNTS else float
        for row in rows:
            row[name] = kind(row[name]) if row[name] else None
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

        Raises ValueError where this GPU's tensor cores do not have the format.
        """
        tflops = getattr(self, f"{dtype}_tflops")
        if tflops is None:
            has = [name for name in ("fp32", "tf32", "fp16", "bf16", "fp8") if getattr(self, f"{name}_tflops")]
            raise ValueError(f"the {self.name} has no {dtype} tensor-core rate; choose one of {', '.join(has)}")
        return tflops * 1e12

    def ridge(self, dtype: str) -> float:
        """The arithmetic intensity, FLOP per HBM byte, from which on compute and not memory is the limit."""
        return self.flops_per_s(dtype) / self.hbm_bytes_per_s


@functools.cache
def gpus() -> Mapping[str, Gpu]:
    """All GPUs of ``data/gpus.csv`` by name, in the file's order."""
    return MappingProxyType({row["name"]: Gpu(**row) for row in read_table(DATA / "gpus.csv")})


def gpu(name: str) -> Gpu:
    """One GPU by name; raises ValueError listing the names for one that is not in the table."""
    return gpus()[checks.one_of("gpu", name, list(gpus()))]


@functools.cache
def links() -> Mapping[str, float]:
    """Bytes a second that a GPU sends over a link, in one direction, by the link's name, in the order of ``data/links.csv``."""
    return MappingProxyType({row["name"]: row["gb_per_s"] * 1e9 for row in read_table(DATA / "links.csv")})


def link(name: str) -> float:
    """Bytes a second of one link, in one direction; raises ValueError listing the names for one that is not in the table."""
    return links()[checks.one_of("link", name, list(links()))]


@functools.cache
def reported(name: str) -> Rows:
    """The rows of ``data/reported/<name>.csv``: what a source reports, with the source's key in column ``source``."""
    return _fixed(read_table(DATA / "reported" / f"{name}.csv"))


@functools.cache
def claims() -> Mapping[str, Mapping[str, str]]:
    """The claims ledger by id: source, lecture, the claim, the experiment that tests it."""
    return MappingProxyType({row["id"]: row for row in _fixed(read_table(DATA / "claims.csv"))})


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
        text = str(self.provenance["versions"][package])
        if package == "cudnn":
            number = int(text)
            return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
        return text.split("+")[0]


SIGNED = ("kept",)  # the fields of a recording that may be below 0


def check_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``rows`` if they can be a recording's: dictionaries of the same fields, each text, True, False or a finite number.

    Numbers are of at least 0, but for those of ``SIGNED``. Raises ValueError naming row and field.
    """
    for number, row in enumerate(rows):
        if set(row) != set(rows[0]):
            raise ValueError(f"row {number} has fields {sorted(row)}; expected {sorted(rows[0])}")
        for field, value in row.items():
            if isinstance(value, str) or (math.isfinite(value) and (value >= 0 or field in SIGNED)):
                continue
            raise ValueError(
                f"row {number}, field {field!r} is {value}; expected text or a finite number of at least 0"
            )
    return rows


def measured(device: str, name: str) -> Measured:
    """``data/measured/<device>/<name>.json``; raises ValueError, with the names there are, for another one."""
    path = DATA / "measured" / device / f"{name}.json"
    if not path.is_file():
        have = sorted(f"{found.parent.name}/{found.stem}" for found in (DATA / "measured").glob("*/*.json"))
        raise ValueError(f"no recording {device}/{name}; choose one of {', '.join(have)} (data/measured)")
    return _recording(path.read_bytes())


@functools.lru_cache(maxsize=64)
def _recording(written: bytes) -> Measured:
    """A figure reads a recording for each of its marks, and is drawn anew while a slider moves."""
    content = json.loads(written)
    made = content["provenance"]
    return Measured(MappingProxyType(made | {"versions": MappingProxyType(made["versions"])}), _fixed(content["rows"]))
