"""Measurements worth keeping: run on a GPU, checked against float64, written to data/measured/<device>/ with provenance.

python -m course_lib.recordings [name …]
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

import torch

from course_lib import measure, reference, runtime


def softmax_passes() -> list[dict[str, Any]]:
    """Softmax in three and in two passes and the fused average, fp32, over row lengths: seconds for each.

    Every shape holds 2^30 elements (4 GB), far beyond any L2, so that what differs is the length of one row.
    """
    from course_lib.kernels.softmax import offline_softmax, online_softmax, softmax_average

    rows = []
    total = 2**30
    x_all = torch.randn(total, device="cuda")
    for power in measure.progress(range(10, 23), "row length"):
        n = 2**power
        x = x_all.view(-1, n)
        v = torch.randn(n, device="cuda")
        block = min(n, 8192)
        calls: dict[str, Callable[..., torch.Tensor]] = {
            "offline": lambda x, v, block=block: offline_softmax(x, block),
            "online": lambda x, v, block=block: online_softmax(x, block),
            "fused": lambda x, v, block=block: softmax_average(x, v, block),
            "torch": lambda x, v: torch.softmax(x, dim=-1),
        }
        oracle = reference.softmax(x[:4])
        for name, call in calls.items():
            error = measure.max_error(call(x[:4], v), oracle @ v.double() if name == "fused" else oracle)
            time = measure.seconds(lambda call=call, x=x, v=v: call(x, v))  # type: ignore[misc]
            rows.append(
                {
                    "n": n,
                    "rows": total // n,
                    "block": block,
                    "algorithm": name,
                    "seconds": time.median,
                    "max_error": error,
                }
            )
    copy = torch.empty_like(x_all)
    rows.append(
        {
            "n": total,
            "rows": 1,
            "block": 0,
            "algorithm": "copy",
            "seconds": measure.seconds(lambda: copy.copy_(x_all)).median,
            "max_error": 0.0,
        }
    )
    return rows


RECORDINGS: dict[str, Callable[[], list[dict[str, Any]]]] = {"softmax_passes": softmax_passes}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.recordings", description="Re-run the course's recorded measurements on this GPU."
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"which (default: all): {', '.join(RECORDINGS)}")
    names = parser.parse_args().names or list(RECORDINGS)
    for name in names:
        if name not in RECORDINGS:
            parser.error(f"{name!r} is not a recording; choose from {', '.join(RECORDINGS)}")
    if runtime.lane() != "GPU":
        print("Recordings need a CUDA GPU; this machine is on the lane:", runtime.lane(), file=sys.stderr)
        return 1
    for name in names:
        path = measure.record(name, RECORDINGS[name](), command=f"python -m course_lib.recordings {name}")
        print(f"{name} -> {path.relative_to(path.parents[3])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
