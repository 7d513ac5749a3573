"""``make bench``: the ladder of forward kernels beside its peers on this GPU, as a table, as a record, and in the README.

python -m course_lib.recordings.bench            # measure, print, record, and write the README's table
python -m course_lib.recordings.bench --readme   # only the README's table, from the record
"""

import argparse
import math
import re
import sys
from collections.abc import Sequence

from course_lib import data, runtime
from course_lib.data import DATA
from course_lib.files import write_atomically
from course_lib.recordings import records
from course_lib.recordings.hopper import LENGTHS, forward_ladder
from course_lib.show.tables import Table

RECORD, SHOWN_DEVICE = "forward_ladder", "nvidia-h200"
CELLS = (1024, 4096, 16_384)  # the lengths of the README's twelve cells
README = DATA.parent / "README.md"
BLOCK = re.compile(r"(?<=<!-- bench -->\n).*?(?=<!-- /bench -->)", re.S)
SHOWN = ("attention()", "cuDNN", "FA2", "standard")
AGAIN = "eight_bit_speed"  # another run, with both of them in it


def rates(record: data.Measured) -> dict[tuple[str, int, bool, int], float]:
    """TFLOP/s by (algorithm, d, causal, N)."""
    return {(row["algorithm"], row["d"], row["causal"], row["n"]): row["tflops"] for row in record.rows}


def ratios(record: data.Measured, name: str, to: str, lengths: Sequence[int] = CELLS) -> list[float]:
    """How many times as fast ``name`` is as ``to``, over d, mask and ``lengths``."""
    rate = rates(record)
    return [rate[name, *cell] / rate[to, *cell] for cell in _cells(lengths)]


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _cells(lengths: Sequence[int]) -> list[tuple[int, bool, int]]:
    return [(d, causal, n) for d in (64, 128) for causal in (False, True) for n in lengths]


def table(record: data.Measured, lengths: Sequence[int] = LENGTHS) -> Table:
    """TFLOP/s of every algorithm in every cell, and the geometric mean of its ratios to cuDNN."""
    rate = rates(record)
    cells = _cells(lengths)
    names = list(dict.fromkeys(row["algorithm"] for row in record.rows))
    headers = ["TFLOP/s", *(f"{d}{' causal' if causal else ''} {n:,}" for d, causal, n in cells), "× cuDNN"]
    rows = [
        [
            name,
            *(round(rate[name, *cell]) for cell in cells),
            f"{geometric_mean(ratios(record, name, 'cuDNN', lengths)):.2f}",
        ]
        for name in names
    ]
    return Table(headers, rows)


def readme_table(record: data.Measured) -> str:
    """The README's table in Markdown: the twelve cells, and what they come to."""
    rate = rates(record)
    lines = ["| head size | mask | N | attention() | cuDNN | FlashAttention-2 | plain torch |", "| --- " * 7 + "|"]
    for d, causal, n in _cells(CELLS):
        cells = [f"{rate[name, d, causal, n]:,.0f}" for name in SHOWN]
        lines.append(f"| {d} | {'causal' if causal else 'none'} | {n:,} | {' | '.join(cells)} |")
    against = {name: ratios(record, "attention()", name) for name in ("cuDNN", "FA2")}
    cudnn, fa2 = (f"{geometric_mean(x):.2f} × ({min(x):.2f} to {max(x):.2f})" for x in against.values())
    made = record.provenance
    torch, cudnn_made, triton = map(record.version, ("torch", "cudnn", "triton"))
    note = (
        "`attention()`, forward, in TFLOP/s: bf16, sequences of N tokens, 16,384 in all, 32 heads of 64 or 16 of 128. In the\n"
        f"geometric mean {cudnn} as fast as cuDNN and {fa2} as FlashAttention-2, which PyTorch\n"
        f"brings. Measured {made['date'][:10]} on an {made['device']} with torch {torch}, cuDNN {cudnn_made} "
        f"and triton {triton} by `{made['command']}`, all in one run.\n" + _limits(record)
    )
    return "\n".join([note, "", *lines]) + "\n"


def _limits(record: data.Measured) -> str:
    """What the comparison with cuDNN leaves out."""
    short, again = ratios(record, "attention()", "cuDNN", LENGTHS[:1]), data.measured(SHOWN_DEVICE, AGAIN)
    other = ratios(again, "attention()", "cuDNN", LENGTHS[1:])
    return (
        "Its tiles were chosen by runs on this GPU and these shapes, cuDNN's were not; at N = 512, left out here, it is "
        f"{min(short):.2f} to {max(short):.2f} ×\nas fast as cuDNN; another run, that of lecture 12, gives {geometric_mean(other):.2f} × "
        f"({min(other):.2f} to {max(other):.2f}) for N from 1,024 on."
    )


def write_readme(record: data.Measured) -> None:
    text = README.read_text(encoding="utf-8")
    if not BLOCK.search(text):
        raise ValueError("README.md has no lines <!-- bench --> and <!-- /bench --> for the table to stand between")
    write_atomically(README, BLOCK.sub(lambda _: readme_table(record), text))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.recordings.bench", description="The ladder beside its peers."
    )
    parser.add_argument("--readme", action="store_true", help="only write the README's table from the record")
    if not parser.parse_args().readme:
        if runtime.mode() != "GPU" or runtime.architecture() != 90:
            print("make bench needs a Hopper GPU (H100, H200): the last rungs are made for it", file=sys.stderr)
            return 1
        records.record(RECORD, forward_ladder(), command="make bench")
        record = data.measured(records.device_slug(), RECORD)
        for lengths in (LENGTHS[:3], LENGTHS[3:]):
            print(table(record, lengths), end="\n\n")
    write_readme(data.measured(SHOWN_DEVICE, RECORD))
    return 0


if __name__ == "__main__":
    sys.exit(main())
