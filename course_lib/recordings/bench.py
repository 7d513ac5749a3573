"""``make bench``: attention() beside its peers on this GPU, as tables, as a record, and on the book's page on speed.

python -m course_lib.recordings.bench               # measure, print, record, and write the page's table
python -m course_lib.recordings.bench --out FOLDER  # measure, print, and record to FOLDER/<device>/ alone
python -m course_lib.recordings.bench --page        # only the page's table, from the records
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib import data, runtime
from course_lib.data import DATA
from course_lib.files import write_atomically
from course_lib.recordings import beside_peers, records
from course_lib.recordings.beside_peers import HOW, KINDS, OURS, Timed, geometric_mean, ratios

RECORD, LADDER = "attention_beside_peers", "forward_ladder"
SHOWN = ("nvidia-h200", "nvidia-h100")  # on the page, where they are recorded
PAGE = DATA.parent / "docs" / "speed.md"
BLOCK = re.compile(r"(?<=<!-- bench -->\n).*?(?=<!-- /bench -->)", re.S)
NAMES = {"cuDNN": "cuDNN", "FA2": "FlashAttention-2", "FA4": "FlashAttention-4", "FlexAttention": "FlexAttention"}
KIND = dict(zip(HOW, ("replayed CUDA graphs", "eager calls"), strict=True))


def rates(record: data.Measured) -> dict[tuple[str, int, bool, int], float]:
    """TFLOP/s by (algorithm, d, causal, N), of a record with one time for each."""
    return {(row["algorithm"], row["d"], row["causal"], row["n"]): row["tflops"] for row in record.rows}


def timed(record: data.Measured) -> list[Timed]:
    return [Timed(**row) for row in record.rows]


def page_table(runs: Sequence[data.Measured]) -> str:
    """The page's table in Markdown: what the cells of each run come to, and how the runs were made."""
    note = (
        f"How many times as fast as others `{OURS}` is: the geometric mean over twelve cells, and in parentheses the cell where it\n"
        "stands worst. The cells are bf16, sequences of 1,024, 4,096 and 16,384 tokens, 16,384 in all, 32 heads of 64 or 16 of 128,\n"
        "with and without a causal mask. *Replayed CUDA graphs* leave the host out; *eager calls* are a loop in Python with autograd\n"
        f"on, as a user makes them. cuDNN and FlashAttention-2 are those that PyTorch brings, and FlexAttention is compiled; `{OURS}`'s\n"
        "tiles were chosen by runs on an H200 and these shapes.\n"
    )
    lines = ["| | | " + " | ".join(NAMES.values()) + " |", "| --- | --- " + "| --- " * len(NAMES) + "|"]
    for run in runs:
        rows, device = timed(run), run.provenance["device"].split()[1]
        for direction, how in KINDS:
            found = (ratios(rows, name, direction, how) for name in NAMES)
            cells = [f"{geometric_mean(x):.2f} ({min(x):.2f})" if x else "" for x in found]
            lines.append(f"| {device} {direction} | {KIND[how]} | {' | '.join(cells)} |")
    return "\n".join([note, *lines, "", *map(_made, runs)]) + "\n" + _short()


def _made(run: data.Measured) -> str:
    """What was measured where, when and how."""
    made, rows, versions = run.provenance, timed(run), _versions(run)
    speeds = []
    for direction in ("forward", "backward"):
        ours = [row.tflops for row in rows if (row.algorithm, row.direction, row.how) == (OURS, direction, "graphs")]
        speeds.append(f"{min(ours):.0f} to {max(ours):.0f} TFLOP/s {direction}")
    return (
        f"{made['device']}: measured {made['date'][:10]} with {versions}\n"
        f"by `{made['command']}` at commit {made['commit']}, all in one run;\n`{OURS}` itself at {' and '.join(speeds)} in graphs."
    )


def _versions(run: data.Measured) -> str:
    keys = {"torch": "torch", "cuDNN": "cudnn", "triton": "triton", "FlashAttention-4": "flash-attn-4"}
    measured = {row["algorithm"] for row in run.rows}
    return ", ".join(
        f"{name} {run.version(key)}" for name, key in keys.items() if "FA4" in measured or key != "flash-attn-4"
    )


def _short() -> str:
    """What the twelve cells leave out."""
    found = []
    for device in SHOWN:
        run = data.measured(device, LADDER)
        rate = rates(run)
        short = [rate[key] / rate["cuDNN", *key[1:]] for key in rate if key[0] == OURS and key[3] == 512]
        found.append(f"{min(short):.2f} to {max(short):.2f} times cuDNN's on an {run.provenance['device'].split()[1]}")
    return f"At N = 512, in the runs of lecture 11, its speed forward is {' and '.join(found)}.\n"


def block() -> str:
    """The page's table and what is said of it, from the records that there are."""
    return page_table(shown())


def write_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    if not BLOCK.search(text):
        raise ValueError("docs/speed.md has no lines <!-- bench --> and <!-- /bench --> for the table to stand between")
    write_atomically(PAGE, BLOCK.sub(lambda _: block(), text))


def shown() -> list[data.Measured]:
    """The records that the page shows."""
    folders = [device for device in SHOWN if (DATA / "measured" / device / f"{RECORD}.json").is_file()]
    return [data.measured(device, RECORD) for device in folders]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.recordings.bench", description="attention() beside its peers."
    )
    parser.add_argument("--out", type=Path, help="write the record to this folder, and leave the page alone")
    parser.add_argument("--page", action="store_true", help="only write the page's table from the records")
    asked = parser.parse_args()
    if not asked.page:
        if runtime.mode() != "GPU" or runtime.architecture() < 80:
            print(
                "make bench needs a CUDA GPU that multiplies in bf16 (compute capability 8.0 or more); "
                f"this machine is in the mode: {runtime.mode()}",
                file=sys.stderr,
            )
            return 1
        rows = beside_peers.attention_beside_peers()
        for kind in KINDS:
            print(beside_peers.table([Timed(**row) for row in rows], *kind), end="\n\n")
        print(records.record(RECORD, rows, "make bench", asked.out))
    if asked.out is None:
        write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
