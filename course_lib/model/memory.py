"""A simulated two-level memory: large HBM, small SRAM, and every byte between them counted.

An algorithm allocates its matrices in HBM, loads tiles into SRAM, computes with plain torch on what it loaded, and
stores tiles back. The memory enforces the SRAM's capacity and records each event; byte counts, peaks, tables and
pictures are all read off that one trace. ::

    memory = Memory(sram_bytes=192 * 1024)
    A, C = memory.hbm("A", a), memory.hbm_empty("C", a.shape, a.dtype)
    with memory.scope("copy a block"):
        tile = memory.load(A[0:64])
        memory.store(C[0:64], tile)
    memory.traffic().reads["A"]

What counts against the SRAM: loaded tiles, and tiles made with ``tile`` (results of matmuls, accumulators). Element-wise
results that replace a tile of the same size, as they would in a kernel, need no tile of their own.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Literal

import torch

from course_lib import checks
from course_lib.model.cost import Flops, Operations, Traffic
from course_lib.show.tables import Table

Op = Literal["load", "store", "tile", "free", "compute"]
Kind = Literal["matmul", "softmax", "exp", "divide", "rescale"]


class SRAMOverflow(MemoryError):  # noqa: N818 - says what happens; the name that the pages use
    """A tile does not fit; the message names what is resident, with sizes, and how much is missing."""


@dataclass(frozen=True)
class Event:
    """One step of the trace.

    tensor: the HBM tensor's or the tile's name; rows, cols: half-open ranges within an HBM tensor (empty for tiles);
    bytes: moved (load, store) or occupied (tile, free); sram_bytes: resident after the event;
    flops and kind: work done in a 'compute' event; scope: the open scopes, outermost first; line: of the algorithm's
    source file, from which the event came.
    """

    step: int
    op: Op
    tensor: str
    rows: tuple[int, int] | tuple[()]
    cols: tuple[int, int] | tuple[()]
    bytes: int
    sram_bytes: int
    scope: tuple[str, ...]
    flops: int = 0
    kind: str = ""
    line: int = 0


class View:
    """A rectangle of an HBM tensor: an address, nothing is moved by making one. ``str`` gives 'Q[0:64, 0:16]'."""

    def __init__(self, tensor: "HBMTensor", rows: tuple[int, int], cols: tuple[int, int]):
        self.tensor, self.rows, self.cols = tensor, rows, cols

    @property
    def data(self) -> torch.Tensor:
        """The part itself, [rows, columns] or [rows] of a vector; writing to it writes to HBM, and is not counted."""
        rows, cols = slice(*self.rows), slice(*self.cols)
        return self.tensor.data[rows] if self.tensor.data.dim() == 1 else self.tensor.data[rows, cols]

    def __str__(self) -> str:
        cols = "" if self.tensor.data.dim() == 1 else f", {self.cols[0]}:{self.cols[1]}"
        return f"{self.tensor.name}[{self.rows[0]}:{self.rows[1]}{cols}]"


class HBMTensor:
    """A vector or matrix in HBM. Index it with slices or whole numbers to address a part: ``Q[0:64]``, ``S[0:64, 64:128]``."""

    def __init__(self, memory: "Memory", name: str, data: torch.Tensor):
        self.memory, self.name, self.data = memory, name, data

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> View:
        parts = index if isinstance(index, tuple) else (index,)
        shape = self.data.shape
        rows = self._range(parts[0], shape[0], "rows")
        cols = (0, 1) if self.data.dim() == 1 else self._range((*parts, slice(None))[1], shape[1], "columns")
        return View(self, rows, cols)

    def _range(self, part: int | slice, length: int, what: str) -> tuple[int, int]:
        if isinstance(part, int):
            part = slice(part, part + 1)
        start, stop = part.start or 0, length if part.stop is None else min(part.stop, length)
        if part.step not in (None, 1) or not 0 <= start < stop:
            raise IndexError(
                f"{self.name} has {length} {what}; pass a contiguous, non-empty range inside it, not {part}"
            )
        return start, stop


class Memory:
    """HBM without a limit, and an SRAM of ``sram_bytes`` (None: no limit)."""

    def __init__(self, sram_bytes: int | None = None):
        self.sram_bytes = sram_bytes
        self.tensors: dict[str, HBMTensor] = {}
        self.trace: list[Event] = []
        self._resident: dict[str, int] = {}
        self._scopes: list[tuple[str, list[str]]] = []

    # --- HBM ---

    def hbm(self, name: str, data: torch.Tensor) -> HBMTensor:
        """Place ``data`` ([n] or [n, d], floating point, on the CPU) in HBM under ``name``; this costs no traffic."""
        return self._place(name, data.detach().clone())

    def hbm_empty(self, name: str, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> HBMTensor:
        """Allocate an output in HBM. It holds NaN until stored to, so that a part left unwritten shows."""
        return self._place(name, torch.full(tuple(shape), torch.nan, dtype=dtype))

    def _place(self, name: str, data: torch.Tensor) -> HBMTensor:
        if name in self.tensors:
            raise ValueError(f"HBM already holds a tensor named {name!r}; give each tensor its own name")
        self.tensors[name] = HBMTensor(self, name, data)
        return self.tensors[name]

    # --- SRAM ---

    def load(self, view: View) -> torch.Tensor:
        """Copy a part of an HBM tensor to SRAM and return it; it stays resident until the scope ends or ``free``."""
        self._mine(view)
        tile = view.data.clone()
        self._reserve(str(view), _size(tile))
        self._record("load", view.tensor.name, view, _size(tile))
        return tile

    def store(self, view: View, tile: torch.Tensor) -> None:
        """Copy a tile back to HBM, converted to the tensor's dtype; the tile stays resident."""
        self._mine(view)
        target = view.data
        if target.shape != tile.shape:
            raise ValueError(
                f"the tile is {list(tile.shape)} but {view} is {list(target.shape)}; store a tile of its shape"
            )
        target.copy_(tile.detach())
        self._record("store", view.tensor.name, view, _size(target))

    def tile(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Give a computed tile (the result of a matmul, an accumulator) its place in SRAM and return it; a second call replaces it.

        Its size alone counts, so ``value`` may be on the meta device, where a tile takes no memory of this machine.
        """
        self._reserve(name, _size(value))
        self._record("tile", name, None, _size(value))
        return value

    def free(self, name: str) -> None:
        """Release a tile before its scope ends. Names are those given to ``tile``, or 'Q[0:64, 0:16]' for a loaded one."""
        if name not in self._resident:
            raise KeyError(f"no tile named {name!r} is in SRAM; resident: {self._residents()}")
        size = self._resident.pop(name)
        for _, names in self._scopes:
            if name in names:
                names.remove(name)
        self._record("free", name, None, size)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Everything that comes to SRAM inside ``with memory.scope(...)`` leaves it at the end."""
        self._scopes.append((name, []))
        try:
            yield
            for tile in reversed(list(self._scopes[-1][1])):
                self.free(tile)
        finally:
            for tile in self._scopes.pop()[1]:
                self._resident.pop(tile, None)

    # --- work ---

    def matmul(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a [m, k] @ b [k, n], counted as 2·m·n·k operations; 16-bit numbers are summed in fp32, as tensor cores do."""
        wide = torch.promote_types(a.dtype, torch.float32)
        self.work(2 * a.shape[0] * b.shape[1] * a.shape[1], "matmul")
        return a.to(wide) @ b.to(wide)

    def exp(self, x: torch.Tensor) -> torch.Tensor:
        """e to the power of x, each element counted as one exponential."""
        self.work(x.numel(), "exp")
        return torch.exp(x)

    def divide(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a / b, each element of the result counted as one division."""
        result = a / b
        self.work(result.numel(), "divide")
        return result

    def rescale(self, a: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """a · factor, where factor corrects or normalises what was computed before; each element of the result is counted."""
        result = a * factor
        self.work(result.numel(), "rescale")
        return result

    def work(self, flops: int, kind: Kind) -> None:
        """Count floating-point operations of the given kind."""
        self._record("compute", "", None, 0, flops=flops, kind=kind)

    # --- what happened, all of it read off the trace ---

    def traffic(self) -> Traffic:
        """Bytes loaded and stored so far, per HBM tensor; comparable with the closed forms of ``course_lib.model.cost``."""
        return Traffic(reads=self._sum("load"), writes=self._sum("store"))

    def flops(self) -> Flops:
        """Floating-point operations of the matmuls, and of a softmax that was counted as a whole, so far."""
        return Flops(matmul=self._count("matmul"), softmax=self._count("softmax"))

    def operations(self) -> Operations:
        """Exponentials, divisions and rescalings so far, where the algorithm counts them one by one."""
        return Operations(exp=self._count("exp"), divide=self._count("divide"), rescale=self._count("rescale"))

    @property
    def resident_bytes(self) -> int:
        """What is in SRAM now."""
        return sum(self._resident.values())

    @property
    def peak_bytes(self) -> int:
        """The fullest that SRAM has been."""
        return max((event.sram_bytes for event in self.trace), default=0)

    def table(self) -> Table:
        """Per HBM tensor: shape, elements and bytes read and written, and how often the whole of it crossed."""
        headers = ["tensor", "shape", "elements read", "bytes read", "times"]
        headers += ["elements written", "bytes written", "times"]
        traffic = self.traffic()
        rows: list[list[str | int]] = []
        for name, tensor in self.tensors.items():
            row: list[str | int] = [name, "×".join(map(str, tensor.data.shape))]
            for moved in (traffic.reads.get(name, 0), traffic.writes.get(name, 0)):
                row += [moved // tensor.data.element_size(), moved, f"{moved / _size(tensor.data):g}×"]
            rows.append(row)
        elements = [sum(int(row[column]) for row in rows) for column in (2, 5)]
        rows.append(["total", "", elements[0], traffic.read_bytes, "", elements[1], traffic.write_bytes, ""])
        return Table(headers, rows)

    # --- inside ---

    def _mine(self, view: View) -> None:
        checks.instance("view", view, View, "Q[0:64] or Q[:]")
        if view.tensor.memory is not self:
            raise ValueError(f"{view} belongs to another Memory")

    def _residents(self) -> str:
        return ", ".join(f"{name} {size:,} B" for name, size in self._resident.items()) or "nothing"

    def _reserve(self, name: str, size: int) -> None:
        needed = self.resident_bytes - self._resident.get(name, 0) + size
        if self.sram_bytes is not None and needed > self.sram_bytes:
            raise SRAMOverflow(
                f"{name} needs {size:,} B, but SRAM has {self.sram_bytes:,} B and holds {self._residents()}: "
                f"{needed - self.sram_bytes:,} B too many"
            )
        if name not in self._resident and self._scopes:
            self._scopes[-1][1].append(name)
        self._resident[name] = size

    def _record(self, op: Op, tensor: str, view: View | None, size: int, flops: int = 0, kind: str = "") -> None:
        rows, cols = ((), ()) if view is None else (view.rows, view.cols)
        scope = tuple(name for name, _ in self._scopes)
        step, resident = len(self.trace), self.resident_bytes
        self.trace.append(Event(step, op, tensor, rows, cols, size, resident, scope, flops, kind, _algorithm_line()))

    def _count(self, kind: Kind) -> int:
        return sum(event.flops for event in self.trace if event.kind == kind)

    def _sum(self, op: Op) -> dict[str, int]:
        totals: dict[str, int] = {}
        for event in self.trace:
            if event.op == op:
                totals[event.tensor] = totals.get(event.tensor, 0) + event.bytes
        return totals


def _algorithm_line() -> int:
    """The line that the algorithm is at: of the outermost caller in the first file that is neither this nor the library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in (__file__, contextlib.__file__):
        frame = frame.f_back
    line, file = 0, frame.f_code.co_filename if frame else ""
    while frame is not None and frame.f_code.co_filename == file:
        line, frame = frame.f_lineno, frame.f_back
    return line


def _size(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()
