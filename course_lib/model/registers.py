"""Arithmetic of the register file of an SM: what warpgroups may take, what the tiles of attention need, how many programs are resident.

65,536 registers, 512 for each of the 128 threads of a warpgroup if it is alone. A program starts with equal parts;
``setmaxnreg`` lets warpgroups give back and take. Sources: PTX ISA, "setmaxnreg" (24 to 256, multiples of 8); CUDA programming guide
(registers per SM); FlashAttention-3 (arXiv 2407.08608), section 3.1 and appendix B.3.
"""

from typing import NamedTuple

from course_lib import checks

IN_ALL = 65_536 // 128  # for each thread of a warpgroup that has the SM alone
MIN_REGS, MAX_REGS, STEP = 24, 256, 8


class Plan(NamedTuple):
    """Registers of a thread of the producer and of each consumer."""

    producer: int
    consumer: int


def at_start(warpgroups: int) -> int:
    """What each thread has before anybody gives back: equal parts, rounded down to a multiple of 8, at most 256."""
    return min(MAX_REGS, IN_ALL // checks.whole("warpgroups", warpgroups, 1, most=IN_ALL // MIN_REGS) // STEP * STEP)


def plan(consumers: int, producer: int) -> Plan:
    """The most that ``consumers`` warpgroups can have if one producer keeps ``producer`` registers per thread.

    Raises ValueError for a number of registers that ``setmaxnreg`` refuses.
    """
    checks.whole("consumers", consumers, 1, most=IN_ALL // MIN_REGS - 1)
    checks.positive_int("producer", producer)
    if producer % STEP or not MIN_REGS <= producer <= MAX_REGS:
        raise ValueError(
            f"producer is {checks.shown(producer)}; setmaxnreg takes multiples of {STEP} from {MIN_REGS} to {MAX_REGS}"
        )
    pool = at_start(consumers + 1) * (consumers + 1)
    most = min(MAX_REGS, (pool - producer) // consumers // STEP * STEP)
    if most < MIN_REGS:
        raise ValueError(f"producer is {producer}; that leaves {consumers} consumers fewer than {MIN_REGS} each")
    return Plan(producer, most)


def tiles(d: int, block_n: int = 128, in_flight: int = 2, rows: int = 64) -> dict[str, int]:
    """Registers that a thread of a consumer needs for its tiles, by name: O [rows, d] and S [rows, block_n] in fp32, P in 16 bits.

    ``in_flight`` 1: P takes the place of S. 2: the next S is computed while P is in use. 3: and the one after it.
    """
    for name, value in (("d", d), ("block_n", block_n), ("rows", rows)):
        checks.positive_int(name, value)
    checks.one_of("in_flight", in_flight, (1, 2, 3))
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
    checks.whole("threads", threads, 1, most=1024)
    checks.whole("shared_bytes", shared_bytes, 0)
    checks.number("shared_kib_per_sm", shared_kib_per_sm, least=0)
    each = -(-checks.whole("registers", registers, 1, most=MAX_REGS) // STEP) * STEP
    return {
        "registers": 128 * IN_ALL // (each * threads),
        "shared": int(shared_kib_per_sm * 1024) // (shared_bytes + 1024),
    }
