"""Lecture 10: producer and consumers of a persistent kernel, on simulated mbarriers."""

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness import warps

ROLES = ("producer", "consumer")


def run(function, case):
    """What the producer and a consumer ask for, each alone, and what it returns."""
    jobs, buffers, _ = case.args
    tiles = [tile for job in jobs for tile in job]
    return [warps.recorded(function(role, [len(job) for job in jobs], buffers), tiles) for role in ROLES]


def examine(case, result):
    """What goes wrong when they run together, what a consumer returned, and the most tiles on their way at once."""
    producer, consumer = (warps.Record(*record) for record in result)
    for role, record in zip(ROLES, (producer, consumer)):
        if record.trouble:
            return f"the {role} {record.trouble}", None, 0
    trouble, most = warps.tried(producer.requests, consumer.requests, *case.args)
    return trouble, None if trouble else consumer.returned, most


EXERCISE = Exercise(
    lecture="10",
    title="a ring for a persistent kernel",
    run=run,
    examine=examine,
    parts=("the run", "sums of a consumer", "most tiles on their way"),
    arguments=("tiles of each job", "buffers", "consumers"),
    hints=(
        "Follow one buffer through three rounds on paper: who waits for which phase of full and of empty? What tells the round, "
        "if a job has five tiles and the next begins in the middle of a round?",
        "Both roles run through the same tiles in the same order and count them; the count never starts again. Buffer and phases follow "
        "from it as in the page's table.",
        "The producer: wait for empty, expect, copy. A consumer: wait for full, read, fence, arrive. An exchange of two neighbours is one "
        "of the mistakes that the check names.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def tile_ring(role: str, jobs: list[int], buffers: int):
    """A generator for role "producer" or "consumer"; a consumer returns the sum of each job's tiles."""
    n, sums = 0, []  # tiles so far, of all jobs
    for job, tiles in enumerate(jobs):
        total = 0
        for tile in range(tiles):
            b, phase = n % buffers, n // buffers % 2
            if role == "producer":
                yield ("wait", "empty", b, 1 - phase)
                yield ("expect", "full", b, 8192)
                yield ("copy", job, tile, b)
            else:
                yield ("wait", "full", b, phase)
                total += yield ("read", b)
                yield ("fence",)
                yield ("arrive", "empty", b)
            n += 1
        sums.append(total)
    return sums
'''
WHY = """
The barriers know nothing of jobs, so neither may the count: begun again with each job it asks for phases that are long past or never come,
unless every job fills whole pairs of rounds. Expect and copy could change places, since a phase needs the arrival as well as the bytes. The
fence stands between the loads and the arrival, because the arrival is what lets the producer go on. The check tries every order of who goes
first; on a GPU it depends on luck whether a test shows a fence that comes too late.
"""


def cases(draw):
    for words, counts, buffers, consumers in (
        ("one tile", (1,), 1, 1),
        ("three tiles, one buffer", (3,), 1, 1),
        ("two buffers, three rounds, two consumers", (6,), 2, 2),
        ("jobs that end in the middle of a round, one without tiles", (3, 0, 1, 4), 2, 2),
        ("four jobs of one tile: three are on their way at once", (1, 1, 1, 1), 3, 1),
    ):
        yield Case(words, ([[draw.randint(1, 99) for _ in range(count)] for count in counts], buffers, consumers))
    for _ in range(4):
        jobs = [[draw.randint(1, 99) for _ in range(draw.randint(0, 4))] for _ in range(draw.randint(2, 3))]
        yield Case("any jobs", ([*jobs, [draw.randint(1, 99)]], draw.randint(1, 3), draw.randint(1, 2)))


def expected(jobs, buffers, consumers):
    """Plain sums; nothing is to go wrong, and a ring is full when the consumers are slow."""
    return "", [sum(job) for job in jobs], min(buffers, sum(map(len, jobs)))


INDENT, COPY = " " * 16, '                yield ("copy", job, tile, b)\n'
EMPTY, FULL = f'{INDENT}yield ("wait", "empty", b, 1 - phase)\n', f'{INDENT}yield ("wait", "full", b, phase)\n'
FENCE, ARRIVE = f'{INDENT}yield ("fence",)\n', f'{INDENT}yield ("arrive", "empty", b)\n'
WRONG = {
    "if the count of tiles starts again with each job: the barriers' phases go on": ("total = 0", "total = n = 0"),
    "if the producer never waits for empty, or for a phase that is over: it overwrites what nobody has read": (EMPTY, ""),
    "if the producer waits for the phase of empty that has the parity of full's: in round 0 nobody has arrived there":
        ("1 - phase", "phase"),
    "if a consumer does not wait for full, or for a past phase, or full not for bytes: the copy is still on its way": (FULL, ""),
    "if no fence stands between the loads and the arrival: TMA's next write may overtake them": (FENCE, ""),
    "if the fence comes after the arrival: by then the producer may have issued the next copy": (FENCE + ARRIVE, ARRIVE + FENCE),
    "if one tile is on its way at a time: use all buffers, and leave the wait for a copy to the consumers": (COPY, COPY + FULL),
}  # fmt: skip
