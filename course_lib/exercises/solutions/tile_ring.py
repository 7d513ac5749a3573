"""Solution of tile_ring."""

SOURCE = '''
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

EXPLANATION = """
The barriers know nothing of jobs, so neither may the count: begun again with each job it asks for phases that are long past or never come,
unless every job fills whole pairs of rounds. The rest is the order of a few lines. Expect and copy could change places, since a phase
needs the arrival as well as the bytes. The fence stands between the loads and the arrival, because the arrival is what lets the producer
go on: a fence behind it comes too late when the producer is fast. The check finds that because it tries every order of who goes first; on
a GPU it depends on luck whether a test shows it.
"""
