SIZE = 8192


def right_with_the_copy_first(role, jobs, buffers):
    """The bytes may land before they are promised: the arrival is still missing then."""
    order = [(j, t) for j, tiles in enumerate(jobs) for t in range(tiles)]
    sums = [0 for _ in jobs]
    for n, (j, t) in enumerate(order):
        turn, b = divmod(n, buffers)
        if role == "producer":
            if turn:
                yield "wait", "empty", b, (turn - 1) & 1
            yield "copy", j, t, b
            yield "expect", "full", b, SIZE
        else:
            yield "wait", "full", b, turn & 1
            x = yield "read", b
            yield ("fence",)
            yield "arrive", "empty", b
            sums[j] += x
    return sums


def right_in_two_parts(role, jobs, buffers):
    turns = [0] * buffers

    def slots():
        b = 0
        for j, tiles in enumerate(jobs):
            for t in range(tiles):
                yield j, t, b, turns[b] % 2
                turns[b] += 1
                b = (b + 1) % buffers

    def producer():
        for j, t, b, phase in slots():
            yield ["wait", "empty", b, phase ^ 1]
            yield ["expect", "full", b, SIZE]
            yield ["copy", j, t, b]

    def consumer():
        found = {j: [] for j in range(len(jobs))}
        for j, _, b, phase in slots():
            yield ["wait", "full", b, phase]
            found[j].append((yield ["read", b]))
            yield ["fence"]
            yield ["arrive", "empty", b]
        return [sum(x) for x in found.values()]

    return (yield from (producer() if role == "producer" else consumer()))


def wrong_empties_the_ring_at_the_end_of_a_job(role, jobs, buffers):
    """runs empty between jobs"""
    done, sums = 0, []
    for j, tiles in enumerate(jobs):
        total = 0
        for t in range(tiles):
            r, b = divmod(done, buffers)
            done += 1
            if role == "producer":
                yield "wait", "empty", b, ~r & 1
                yield "expect", "full", b, SIZE
                yield "copy", j, t, b
            else:
                yield "wait", "full", b, r & 1
                total += yield "read", b
                yield ("fence",)
                yield "arrive", "empty", b
        for last in range(max(0, done - buffers), done if role == "producer" else 0):
            r, b = divmod(last, buffers)
            yield "wait", "empty", b, r & 1
        sums.append(total)
    return sums


def wrong_per_job(role, jobs, buffers):
    """starts again"""
    sums = []
    for j, tiles in enumerate(jobs):
        sums += [(yield from _job(role, j, tiles, buffers))]
    return sums


def _job(role, j, tiles, buffers, fence=True, size=SIZE):
    total = 0
    for t in range(tiles):
        r, b = divmod(t, buffers)
        if role == "producer":
            yield "wait", "empty", b, ~r & 1
            yield "expect", "full", b, size
            yield "copy", j, t, b
        else:
            yield "wait", "full", b, r & 1
            total += yield "read", b
            if fence:
                yield ("fence",)
            yield "arrive", "empty", b
    return total


def wrong_fence_before_the_loads(role, jobs, buffers):
    """between the loads and the arrival"""
    n, sums = 0, [0] * len(jobs)
    for j, tiles in enumerate(jobs):
        for t in range(tiles):
            r, b = divmod(n, buffers)
            n += 1
            if role == "producer":
                yield "wait", "empty", b, 1 - r % 2
                yield "expect", "full", b, SIZE
                yield "copy", j, t, b
            else:
                yield "wait", "full", b, r % 2
                yield ("fence",)
                sums[j] += yield "read", b
                yield "arrive", "empty", b
    return sums


def wrong_full_and_empty_swapped(role, jobs, buffers):
    for tiles in jobs:
        for t in range(tiles):
            yield "wait", "full" if role == "producer" else "empty", t % buffers, 0
    return [0] * len(jobs)


def wrong_all_copies_first(role, jobs, buffers):
    """never waits"""
    n, sums = 0, [0] * len(jobs)
    for j, tiles in enumerate(jobs):
        for t in range(tiles):
            r, b = divmod(n, buffers)
            n += 1
            if role == "producer":
                yield "expect", "full", b, SIZE
                yield "copy", j, t, b
            else:
                yield "wait", "full", b, r % 2
                sums[j] += yield "read", b
                yield ("fence",)
                yield "arrive", "empty", b
    return sums


def wrong_no_generator(role, jobs, buffers):
    return [sum(range(tiles)) for tiles in jobs]


def wrong_never_stops(role, jobs, buffers):
    while True:
        yield ("fence",)


def wrong_request(role, jobs, buffers):
    yield "wait", "full", buffers, 0


def wrong_reads_as_producer(role, jobs, buffers):
    yield "read", 0
