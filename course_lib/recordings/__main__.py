"""python -m course_lib.recordings [name …]"""

import argparse
import json
import sys

import torch

from course_lib import runtime
from course_lib.recordings import ON_TWO_GPUS, RECORDINGS, WITHOUT_GPU, records


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.recordings", description="Re-run the course's recorded measurements on this machine."
    )
    known = [name for name in RECORDINGS if torch.cuda.device_count() > 1 or name not in ON_TWO_GPUS]
    known = known if runtime.mode() == "GPU" else list(WITHOUT_GPU)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which (default: all that can run here): {', '.join(known)}"
    )
    names = parser.parse_args().names or list(known)
    for name in names:
        if name not in RECORDINGS:
            parser.error(f"{name!r} is not a recording; choose from {', '.join(RECORDINGS)}")
    if needs_gpu := [name for name in names if name not in known]:
        print(
            f"{', '.join(needs_gpu)}: needs a CUDA GPU, or two; this machine is in the mode: {runtime.mode()}",
            file=sys.stderr,
        )
        return 1
    for name in names:
        rows = RECORDINGS[name]()
        try:
            path = records.record(name, rows, command=f"python -m course_lib.recordings {name}")
        except OSError as error:  # a full disk: what took the GPU minutes is not lost
            print(json.dumps(rows), error, sep="\n", file=sys.stderr)
            return 1
        print(f"{name} -> {path.relative_to(path.parents[3])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
