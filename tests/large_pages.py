"""Forks at a third of their price: hundreds of tests fork this process, and each fork copies an entry for every page of its memory."""

import contextlib
import ctypes
from pathlib import Path

SIZE, USE, COLLAPSE = 2 << 20, 14, 25  # bytes; madvise's MADV_HUGEPAGE and MADV_COLLAPSE


def take() -> None:
    """Put what this process has in memory by now into pages of 2 MiB in the place of 4 KiB, where Linux can."""
    with contextlib.suppress(OSError, AttributeError):  # elsewhere there is neither
        advise = ctypes.CDLL(None).madvise
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
            addresses, rights, _, _, file, *name = line.split(maxsplit=5)
            begin, end = (int(address, 16) for address in addresses.split("-"))
            begin, end = -(-begin // SIZE) * SIZE, end // SIZE * SIZE
            if rights == "rw-p" and file == "0" and name in ([], ["[heap]"]) and begin < end:
                for advice in (USE, COLLAPSE):
                    advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), advice)
