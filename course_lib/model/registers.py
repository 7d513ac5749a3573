"""Arithmetic of the register file of an SM: what warpgroups may take, what the tiles of attention need, how many programs are resident.

65,536 registers, 512 for each of the 128 threads of a warpgroup if it is alone. A program starts with equal parts;
``setmaxnreg`` lets warpgroups give back and take. Sources: PTX ISA, "setmaxnreg" (24 to 256, multiples of 8); CUDA programming guide
(registers per SM); FlashAttention-3 (arXiv 2407.08608), section 3.1 and appendix B.3.
"""

from typing import NamedTuple

IN_ALL = 65_536 // 128  # for each thread of a warpgroup that has the SM alone
MIN_REGS, MAX_REGS, STEP = 24, 256, 8


class Plan(NamedTuple):
    """Registers of a thread of the producer and of each consumer."""

    producer: int
    consumer: int


def at_start(warpgroups: int) -> int:
    """What each thread has before anybody gives back: equal parts, rounded down to a multiple of 8, at most 256."""
    return min(MAX_REGS, IN_ALL // warpgroups // STEP * STEP)


def plan(consumers: int, producer: int) -> Plan:
    """The most that ``consumers`` warpgroups can have if one producer keeps ``producer`` registers per thread."""
    pool = at_start(consumers + 1) * (consumers + 1)
    most = min(MAX_REGS, (pool - producer) // consumers // STEP * STEP)
    return Plan(producer, most)


def tiles(d: int, block_n: int = 128, in_flight: int = 2, rows: int = 64) -> dict[str, int]:
    """Registers that a thread of a consumer needs for its tiles, by name: O [rows, d] and S [rows, block_n] in fp32, P in 16 bits.

    ``in_flight`` 1: P takes the place of S. 2: the next S is computed while P is in use. 3: and the one after it.
    """
    s = -(-rows * block_n // 128)
    need = {"O": -(-rows * d // 128), "S": s}
    if in_flight > 1:
        need["P"] = -(-s // 2)
    if in_flight > 2:
        need["next S"] = s
    return need


def resident_programs(threads: int, registers: int, shared_bytes: int, shared_kib_per_sm: float) -> dict[str, int]:
    """How many programs are resident per SM (its occupancy) by registers, and by shared memory; the least decides.

    A thread's registers are given out in eights; of shared memory each program takes 1 KiB more than it requests (CUDA
    programming guide, compute capability 9.0).
    """
    each = -(-registers // STEP) * STEP
    return {
        "registers": 128 * IN_ALL // (each * threads),
        "shared": int(shared_kib_per_sm * 1024) // (shared_bytes + 1024),
    }
