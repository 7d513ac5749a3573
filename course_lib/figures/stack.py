"""Lecture 15: what each level of the stack takes, as recorded on two machines, beside what a table among the sources reports."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from course_lib import data
from course_lib.figures.records import label, rows
from course_lib.instruments import measure
from course_lib.plots import ladder_lines
from course_lib.show import style
from course_lib.show.tables import Table

MACHINES = {"x86_64": "cpu-x86_64", "H200 and its CPU": "nvidia-h200"}  # as the page names them: folder of the record
COLUMNS = {
    "Python + autograd": "python_autograd_ms",
    "Python": "python_raw_ms",
    "C++ nodes": "cpp_ms",
    "PyTorch, GPU": "pytorch_gpu_ms",
    "Lite": "lite_ms",
}
COMPARED = ("Python + autograd", "Python", "C++ nodes", "C++ -O2")
REMOVED = {  # by the step to each rung
    "Python": "the graph: all numbers kept",
    "C++ nodes": "interpretation",
    "C++ -O2": "nodes, pointers, allocation",
    "PyTorch, CPU": "loops: one call for each matrix",
}
ON_GPU = ("PyTorch, GPU", "SDPA, GPU", "Lite", "Online", "attention()")
REMAINS = {  # to be solved, on each rung
    "Python + autograd": "an object for each number",
    "Python": "interpretation",
    "C++ nodes": "a node for each number",
    "C++ -O2": "one core",
    "PyTorch, CPU": "S and P in memory",
    "PyTorch, GPU": "S and P in memory; launches",
    "SDPA, GPU": "one head cannot fill the GPU",
    "Online": "launches; one head cannot fill the GPU",
    "attention()": "one head cannot fill the GPU",
}
Points = tuple[list[float], list[float]]


class Run(NamedTuple):
    """One rung at one length: ``rows`` queries against ``n`` keys of 16 numbers; no memory was counted for a single query."""

    rung: str
    n: int
    rows: int
    seconds: float
    peak_bytes: int


def runs(machine: str = "x86_64", one_query: bool = False) -> list[Run]:
    """What was recorded on a machine, for as many queries as keys or for one."""
    return [run for run in rows(Run, "full_stack", MACHINES[machine]) if (run.rows == run.n) != one_query]


def run(rung: str, n: int = 64, machine: str = "x86_64") -> Run:
    """One rung for n queries and n keys."""
    return next(run for run in runs(machine) if (run.rung, run.n) == (rung, n))


def times(machine: str = "x86_64", one_query: bool = False) -> dict[str, Points]:
    """By rung the lengths and the milliseconds."""
    found: dict[str, Points] = {}
    for each in runs(machine, one_query):
        lengths, milliseconds = found.setdefault(each.rung, ([], []))
        lengths.append(each.n)
        milliseconds.append(each.seconds * 1e3)
    return found


def memory(machine: str = "x86_64") -> dict[str, Points]:
    """By rung the lengths and the most bytes that it holds."""
    found: dict[str, Points] = {}
    for each in runs(machine):
        lengths, most = found.setdefault(each.rung, ([], []))
        lengths.append(each.n)
        most.append(each.peak_bytes)
    return found


def reported() -> dict[str, Points]:
    """By rung the lengths and milliseconds of the project's table."""
    table = data.reported("full_stack")
    return {name: ([row["n"] for row in table], [row[column] for row in table]) for name, column in COLUMNS.items()}


def over_reported(rung: str, one_query: bool) -> list[float]:
    """Our times on the x86_64 machine over the reported ones of the same rung, at each reported length."""
    found = times(one_query=one_query)[rung][1]
    return [ours / other for ours, other in zip(found, reported()[rung][1], strict=False)]


def call_and_score() -> tuple[float, float]:
    """Seconds of a call and of each score for C++ on flat arrays on the x86_64 machine: call + score · N² through N = 8 and 64."""
    first, last = (run("C++ -O2", n).seconds for n in (8, 64))
    score = (last - first) / (64**2 - 8**2)
    return first - 8**2 * score, score


def flat_over_reported() -> list[float]:
    """C++ on flat arrays without ``call_and_score``'s call over what is reported for C++, at each reported length."""
    call = call_and_score()[0] * 1e3
    ours = zip(times()["C++ -O2"][1], reported()["C++ nodes"][1], strict=False)
    return [(ms - call) / other for ms, other in ours]


def _named(machine: str) -> str:
    return label("full_stack", MACHINES[machine]).replace("H200", "H200 and its CPU")


# --- the mistake ---


def reported_table() -> Table:
    """The three reported columns that ran on a CPU, in milliseconds."""
    found = {name: reported()[name] for name in COMPARED[:3]}
    lengths = found["Python"][0]
    cells = [[name, *(f"{ms:.3f}" for ms in column)] for name, (_, column) in found.items()]
    return Table(["reported, ms", *(f"N = {n}" for n in lengths)], cells)


@style.drawn(
    size=(13, 4.6),
    axes=(1, 2),
    alt="milliseconds over N, left for all queries, right for one query; hollow marks for the reported times",
)
def all_and_one(axes: Sequence[Axes]) -> None:
    """Our times and the reported ones over N: left for N queries, right for one."""
    titles = ("N queries: two are too flat", "one query: two fit, C++ does not")
    for ax, one_query, title in zip(axes, (False, True), titles, strict=True):
        found = times(one_query=one_query)
        shown = {name: (found[name][0][:4], found[name][1][:4]) for name in COMPARED}
        ladder_lines(ax, shown, "milliseconds", "recorded", {name: reported()[name] for name in COMPARED[:3]}, True)
        ax.set_xlabel("N, keys" if one_query else "N, queries and keys")
        ax.set_title(title, loc="left", fontsize=13, weight="bold")
    axes[0].get_legend().remove()  # type: ignore[union-attr]
    axes[1].set_ylim(axes[0].get_ylim())
    axes[0].text(17, 2.6e-3, "reported as C++ nodes", color=style.GREEN, fontsize=11.5, va="center")
    style.source_note(axes[0], _named("x86_64"))


# --- the ladder ---


def steps() -> Table:
    """What each step down the ladder removes and brings, at N = 64 on the x86_64 machine."""
    found, above = [], run("Python + autograd")
    for name, words in REMOVED.items():
        here = run(name)
        faster, smaller = above.seconds / here.seconds, above.peak_bytes / here.peak_bytes
        speed = f"{_factor(faster)} × faster" if faster > 1 else f"{_factor(1 / faster)} × slower"
        less = f"{_factor(smaller)} × less" if smaller > 1 else f"{_factor(1 / smaller)} × more"
        found.append([f"{above.rung} → {name}", words, speed, style.seconds_text(here.seconds), less])
        above = here
    return Table(["step", "removes", "speed", "then takes", "memory"], found)


def _factor(x: float) -> str:
    return f"{x:,.0f}" if x >= 10 else f"{x:.1f}"


def languages() -> Table:
    """A graph and none, in Python and in C++, at N = 64 on the x86_64 machine: what the language brings, and what the graph costs."""
    programs = {"a node per number": ("Python + autograd", "C++ nodes"), "loops over numbers": ("Python", "C++ -O2")}
    seconds = [[run(name).seconds for name in pair] for pair in programs.values()]
    cells = [
        [words, *map(style.seconds_text, pair), f"{_factor(pair[0] / pair[1])} × faster"]
        for words, pair in zip(programs, seconds, strict=True)
    ]
    gains = (f"{_factor(graph / none)} × faster" for graph, none in zip(*seconds, strict=True))
    return Table(["at N = 64", "Python", "C++", "C++ is"], [*cells, ["without the graph", *gains, ""]])


def over_n(ax: Axes, show: str, machine: str) -> None:
    """Draw 'time, all queries', 'time, one query' or 'memory, all queries' over N for one machine or 'both', and what is reported."""
    what, one_query = show.split(",")[0], show.endswith("one query")
    found: dict[str, Points] = {}
    for place in MACHINES if machine == "both" else [machine]:
        for name, points in (times(place, one_query) if what == "time" else memory(place)).items():
            if machine == "both" and name in COMPARED:
                found[f"{name} ({place})"] = points
            elif machine != "both" and "interpreted" not in name and name != "C++ -O3":
                found[name] = points
    theirs = {name: x for name, x in reported().items() if what == "time" and any(s.startswith(name) for s in found)}
    named = "; ".join(map(_named, MACHINES)) if machine == "both" else _named(machine)
    ladder_lines(ax, found, "milliseconds" if what == "time" else "bytes at most", named, theirs)
    ax.set_xlabel("N, keys for one query" if one_query else "N, queries and keys")


def slopes() -> Table:
    """The growth of each rung's time on the x86_64 machine: over the first lengths, and over the last."""
    cells = [
        [name, f"{measure.slope(ns[:4], ms[:4]):.1f}", f"{measure.slope(ns[-3:], ms[-3:]):.1f}"]
        for name, (ns, ms) in times().items()
    ]
    return Table(["rung", "slope from 8 to 64", "slope of the last three points"], cells)


def here(timings: Sequence[Mapping[str, Any]]) -> style.Picture:
    """The rows of ``ladder.timings`` of this machine, a line for each rung, the middle half of its runs as bars."""
    return style.picture(
        _here,
        timings,
        size=(11.5, 5.2),
        alt="milliseconds over N on this machine, a line for each rung from Python with autograd to Triton",
    )


def _here(ax: Axes, timings: Sequence[Mapping[str, Any]]) -> None:
    found: dict[str, Points] = {}
    for row in timings:
        lengths, milliseconds = found.setdefault(row["rung"], ([], []))
        lengths.append(row["n"])
        milliseconds.append(row["seconds"] * 1e3)
        ax.vlines(
            row["n"],
            row["quarter"] * 1e3,
            row["three_quarters"] * 1e3,
            color=style.colour(row["rung"]),
            lw=6,
            alpha=0.5,
        )
    ladder_lines(ax, found, "milliseconds", "this machine, now; bars: middle half of the runs")


# --- the GPU ---


def faster_from(rung: str, cpu: str) -> int:
    """The least recorded length from which a rung on the GPU is faster than one on the CPU beside it."""
    gpu, beside = times("H200 and its CPU")[rung], times("H200 and its CPU")[cpu]
    return int(min(n for n, a, b in zip(*gpu, beside[1], strict=False) if a < b))


def calls() -> Table:
    """What a call on the H200 takes while N is small, what is reported, and from which N on it is faster than the CPU beside it."""
    cells = []
    for name in ON_GPU:
        small = [ms * 1e3 for n, ms in zip(*times("H200 and its CPU")[name], strict=True) if n <= 256]
        theirs = [ms * 1e3 for ms in reported()[name][1]] if name in reported() else []
        spans = [f"{min(us):.0f} to {max(us):.0f} µs" if us else "" for us in (small, theirs)]
        cells.append([name, *spans, f"N = {faster_from(name, 'C++ -O2')}"])
    return Table(["rung", "a call, N = 8 to 256", "reported, N = 8 to 64", "faster than C++ -O2 from"], cells)


def closing() -> Table:
    """For each rung its longest recorded run on the H200 and its CPU, how its memory grows, and what remains to be solved."""
    held = memory() | memory("H200 and its CPU")  # bytes do not depend on the machine
    cells = []
    for name, remains in REMAINS.items():
        ns, ms = times("H200 and its CPU")[name]
        grows = measure.slope(held[name][0][-2:], held[name][1][-2:])
        most = style.bytes_text(held[name][1][-1])
        took = style.seconds_text(ms[-1] / 1e3)
        cells.append([name, f"{ns[-1]:,}", took, most, f"N^{grows:.1f}", remains])
    return Table(["rung", "N", "time", "memory", "memory grows as", "what remains"], cells)


def python_over_cpp() -> list[tuple[str, bool]]:
    """C13's findings: whether Python and C++ are less than a factor of two apart for all queries, and whether the column is such a time."""
    apart, grows = run("Python").seconds / run("C++ -O2").seconds, measure.slope(*reported()["Python"])
    return [
        (f"x86_64 machine, Python ÷ C++ on flat arrays, both for all queries: {apart:.0f}", apart < 2),
        (f"the reported Python column grows as N^{grows:.1f}, the work as N^2", grows > 1.5),
    ]
