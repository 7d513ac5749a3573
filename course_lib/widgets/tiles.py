"""The tile explorer: any algorithm's trace, replayed on a drawing of its matrices, with counters that are the trace's."""

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import torch

from course_lib import plots
from course_lib.algorithms import Run
from course_lib.model.memory import Event, HBMTensor, Memory, View
from course_lib.show import style
from course_lib.widgets.clickable import Clickable

_OPS = ("load", "store", "tile", "free", "compute")
_MOST_EVENTS = 5_000  # of all algorithms together; more take too long to draw
_WORK = {
    "matmul": "a matmul of two tiles",
    "softmax": "softmax of a tile",
    "exp": "exponentials",
    "divide": "1 / l",
    "rescale": "correct what was summed before",
}
Cuts = dict[str, tuple[list[int], list[int]]]  # for each tensor the first rows and first columns of its tiles


class TileExplorer(Clickable):
    """Step through algorithms of ``course_lib.algorithms``: click a tile to see what it needs, switch, compare.

        TileExplorer({"V1": algorithms.linear_v1, "V2": algorithms.linear_v2}, q, k, v, block_m=2, block_n=2)

    Each algorithm is called with the same tensors and options. Matmuls (A, B, C) and attention (Q, K, V,
    O) are drawn as they are multiplied.
    Raises ValueError for a trace that is too long to step through.
    """

    file = "tiles.js"

    def __init__(self, algorithms: Mapping[str, Callable[..., Run]], *tensors: torch.Tensor, **options: Any):
        self.runs: dict[str, Run] = {}
        for name, algorithm in algorithms.items():
            self.runs[name] = run = algorithm(*tensors, **options)
            if len(run.memory.trace) > _MOST_EVENTS // len(algorithms):
                raise ValueError(
                    f"{name} takes {len(run.memory.trace):,} steps; pass smaller matrices or larger blocks"
                )
        described = [_describe(name, algorithms[name], run) for name, run in self.runs.items()]
        shape, size = (len(self.runs), 1), (11, 4.4 if len(self.runs) == 1 else 3.5 * len(self.runs))
        super().__init__(
            {"runs": described, "colors": style.TENSOR},
            still=style.render(_still, self.runs, size=size, axes=shape)[0],
            alt=f"tiles of {' and '.join(self.runs)}: what is on the chip at each step, and what has been moved",
        )


def _still(axes: Any, runs: Mapping[str, Run]) -> None:
    """The traces of all runs, one below the other, to one scale."""
    several = axes if isinstance(axes, list) else [axes]
    for ax, (name, run) in zip(several, runs.items(), strict=True):
        plots.trace(ax, run.memory)
        if len(runs) > 1:
            ax.set_ylabel(f"{name}\n{ax.get_ylabel()}")
    end, top = (max(getattr(ax, limits)()[1] for ax in several) for limits in ("get_xlim", "get_ylim"))
    for ax in several:
        ax.set(xlim=(-0.6, end), ylim=(-top, top))


def _describe(name: str, algorithm: Callable[..., Run], run: Run) -> dict[str, Any]:
    """All that the page needs of one run, as JSON."""
    memory, trace = run.memory, run.memory.trace
    kind = "matmul" if "C" in memory.tensors else "attention"
    cuts = {tensor.name: _cuts(tensor, trace) for tensor in memory.tensors.values()}
    tensors = [
        {
            "name": n,
            "rows": cuts[n][0],
            "cols": cuts[n][1],
            "hbm": True,
            "transposed": n == "K",
            "bytes": _bytes(memory, n),
        }
        for n in sorted(cuts, key="ABCQKVSPOmlL".index)
    ]
    if kind == "attention" and "S" not in cuts:
        tensors.append({"name": "S", "rows": cuts["Q"][0], "cols": cuts["K"][0], "hbm": False, "transposed": False})
    groups, group_of = _groups(trace)
    pairs = _pairs(trace, cuts) if kind == "attention" else {}
    query = _queries(trace, cuts)
    lines, first_line = _code(algorithm)
    description = {
        "name": name,
        "kind": kind,
        "sram": memory.sram_bytes,
        "tensors": tensors,
        "code": lines,
        "first_line": first_line,
        "events": [
            [
                _OPS.index(e.op),
                _tile(e, memory.tensors),
                *(e.rows or (0, 0)),
                *(e.cols or (0, 0)),
                e.bytes,
                e.sram_bytes,
                e.line,
                group_of[e.step],
                query[e.step],
                _WORK.get(e.kind, ""),
            ]
            for e in trace
        ],
        "places": {
            _tile(e, memory.tensors): _keys(e.tensor, e.rows, e.cols, cuts)  # type: ignore[arg-type]
            for e in trace
            if e.op in ("load", "store")
        },
        "scaled": any(e.kind in ("softmax", "exp") for e in trace),
        "pairs": {step + 1: pair for step, pair in pairs.items()},
        "groups": groups,
        "details": _scores(memory.tensors, trace, cuts, pairs) if kind == "attention" else {},
    }
    if kind == "matmul":
        for group in groups:
            _matmul_terms(group, memory.tensors, cuts, trace)
    description["targets"] = _targets(trace, cuts, groups, group_of, pairs, kind)
    return description


def _bytes(memory: Memory, name: str) -> int:
    data = memory.tensors[name].data
    return data.numel() * data.element_size()


def _tile(event: Event, tensors: dict[str, HBMTensor]) -> str:
    """The name under which a tile is on the chip: 'Q[0:2, 0:8]' for a loaded one, its own name for a computed one."""
    if event.op not in ("load", "store"):
        return event.tensor
    return str(View(tensors[event.tensor], event.rows, event.cols))  # type: ignore[arg-type]


def _cuts(tensor: HBMTensor, trace: list[Event]) -> tuple[list[int], list[int]]:
    """Where the trace cuts a tensor into tiles."""
    moves = [e for e in trace if e.tensor == tensor.name and e.op in ("load", "store")]
    rows, cols = ({start for start, _ in (getattr(e, axis) for e in moves)} or {0} for axis in ("rows", "cols"))
    return sorted(rows), sorted(cols)


def _keys(name: str, rows: tuple[int, int], cols: tuple[int, int], cuts: Cuts) -> list[str]:
    """The drawn tiles that a range of a tensor covers."""
    down = [i for i, start in enumerate(cuts[name][0]) if rows[0] <= start < rows[1]]
    across = [j for j, start in enumerate(cuts[name][1]) if cols[0] <= start < cols[1]]
    return [f"{name}:{i},{j}" for i in down for j in across]


def _groups(trace: list[Event]) -> tuple[list[dict[str, Any]], list[int]]:
    """The iterations of the outer loop: where each begins and ends in the trace, and the iteration of each event."""
    groups: list[dict[str, Any]] = []
    group_of = []
    closed = False  # the outermost scope ends with the release of what it held
    for e in trace:
        label = e.scope[0] if e.scope else ""
        if not groups or groups[-1]["label"] != label or (closed and e.op != "free"):
            groups.append({"label": label, "begin": e.step, "end": e.step})
        closed = e.op == "free" and len(e.scope) == 1
        groups[-1]["end"] = e.step + 1
        group_of.append(len(groups) - 1)
    return groups, group_of


def _queries(trace: list[Event], cuts: Cuts) -> list[int]:
    """For each event the block of queries that was loaded last; -1 before the first."""
    block, found = -1, []
    for e in trace:
        if e.op == "load" and e.tensor == "Q":
            block = cuts["Q"][0].index(e.rows[0])  # type: ignore[misc]
        found.append(block)
    return found


def _pairs(trace: list[Event], cuts: Cuts) -> dict[int, tuple[int, int]]:
    """For each event inside the work on one block of S: which (block of queries, block of keys) it is."""
    pairs: dict[int, tuple[int, int]] = {}
    query = key = None
    working = False
    for e in trace:
        if e.op == "load" and e.tensor in ("Q", "K"):
            block = cuts[e.tensor][0].index(e.rows[0])  # type: ignore[misc]
            query, key = (block, key) if e.tensor == "Q" else (query, block)
            working = False
        working = (working or e.tensor == "S_ij") and not (e.op == "free" and e.tensor == "S_ij")
        if working and query is not None and key is not None:
            pairs[e.step] = (query, key)
    return pairs


def _scores(
    tensors: dict[str, HBMTensor], trace: list[Event], cuts: Cuts, pairs: dict[int, tuple[int, int]]
) -> dict[str, Any]:
    """The numbers of each block of S and, in an online softmax, m, l and the correction of its rows after it."""
    q, k = tensors["Q"].data.double(), tensors["K"].data.double()
    scaled = any(e.kind in ("softmax", "exp") for e in trace)
    online = any(e.tensor in ("m", "m_i") for e in trace)
    rows, cols = (torch.tensor_split(x, cuts[name][0][1:]) for x, name in ((q, "Q"), (k, "K")))
    if max(len(x) for x in (*rows, *cols)) > 8:
        return {}
    found: dict[str, Any] = {}
    visited = set(pairs.values())
    for i, q_i in enumerate(rows):
        m, l = torch.full((len(q_i),), -math.inf, dtype=q.dtype), torch.zeros(len(q_i), dtype=q.dtype)
        for j, k_j in enumerate(cols):
            if (i, j) not in visited:
                continue
            s = q_i @ k_j.T / (math.sqrt(q.shape[1]) if scaled else 1)
            found[f"{i},{j}"] = {"s": [[f"{x:.2f}" for x in row] for row in s.tolist()]}
            if online:
                m_new = torch.maximum(m, s.amax(1))
                factor = torch.exp(m - m_new)
                l, m = l * factor + torch.exp(s - m_new[:, None]).sum(1), m_new
                found[f"{i},{j}"] |= {
                    x: [f"{y:.3f}" for y in v.tolist()] for x, v in (("m", m), ("l", l), ("factor", factor))
                }
    return found


def _matmul_terms(group: dict[str, Any], tensors: dict[str, HBMTensor], cuts: Cuts, trace: list[Event]) -> None:
    """The tile of C that an iteration of the outer loop computes, with its terms as numbers if they are few."""
    events = trace[group["begin"] : group["end"]]
    stored = [e for e in events if e.op == "store"]
    if len(stored) != 1:
        return
    (rows, cols) = stored[0].rows, stored[0].cols
    group["tile"] = [cuts["C"][0].index(rows[0]), cuts["C"][1].index(cols[0])]  # type: ignore[misc]
    loads = {name: [e for e in events if e.op == "load" and e.tensor == name] for name in "AB"}
    products = [
        tensors["A"].data[slice(*a.rows), slice(*a.cols)] @ tensors["B"].data[slice(*b.rows), slice(*b.cols)]
        for a, b in zip(loads["A"], loads["B"], strict=True)
    ]
    if products and products[0].numel() <= 9:
        group["terms"] = [_matrix(x) for x in products]
        group["sum"] = _matrix(tensors["C"].data[slice(*rows), slice(*cols)])


def _matrix(x: torch.Tensor) -> str:
    return "[" + "; ".join(" ".join(f"{value:.4g}" for value in row) for row in x.tolist()) + "]"


def _targets(
    trace: list[Event],
    cuts: Cuts,
    groups: list[dict[str, Any]],
    group_of: list[int],
    pairs: dict[int, tuple[int, int]],
    kind: str,
) -> dict[str, dict[str, int]]:
    """Where a click on a tile leads: the step to show, and the step up to which to play."""
    targets: dict[str, dict[str, int]] = {}
    loads, stores = ([e for e in trace if e.op == op] for op in ("load", "store"))
    for e in [*loads, *stores]:
        group = groups[group_of[e.step]]
        begins = e.op == "load" and len(e.scope) <= 1  # held for a whole iteration of the outer loop
        whole = begins or (kind == "matmul" and e.tensor == "C")
        for key in _keys(e.tensor, e.rows, e.cols, cuts):  # type: ignore[arg-type]
            begin = e.step + 1 if e.op == "load" else group["begin"] + 1
            targets.setdefault(key, {"begin": begin, "end": group["end"] if whole else begin})
    for step, (i, j) in pairs.items():
        targets[f"S:{i},{j}"] = {"begin": step + 1, "end": step + 1}
    return targets


def _code(algorithm: Callable[..., Run]) -> tuple[list[str], int]:
    """The body of an algorithm without its docstring, and the line of its file on which that begins."""
    lines, start = inspect.getsourcelines(algorithm)
    text = "".join(lines)
    head = re.match(r'.*?\) -> Run:\n(\s*""".*?"""\n)?', text, re.DOTALL)
    skipped = text[: head.end()].count("\n") if head else 0
    return textwrap.dedent("".join(lines[skipped:])).rstrip().split("\n"), start + skipped
