"""What a call of attention() costs the host, beside torch's own attention: python -m course_lib.recordings.bench_host"""

import sys

from course_lib import runtime
from course_lib.recordings import records
from course_lib.recordings.host import attention_host, table


def main() -> int:
    if runtime.mode() != "GPU":
        print("bench_host needs a CUDA GPU: without one nothing is launched", file=sys.stderr)
        return 1
    rows = attention_host()
    print(table(rows))
    records.record("attention_host", rows, command="python -m course_lib.recordings attention_host")
    return 0


if __name__ == "__main__":
    sys.exit(main())
