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
            sums[j] += yield "read", b
            yield ("fence",)
            yield "arrive", "empty", b
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


def _step(role, j, t, n, buffers):
    r, b = divmod(n, buffers)
    if role == "producer":
        yield "wait", "empty", b, ~r & 1
        yield "expect", "full", b, SIZE
        yield "copy", j, t, b
        return 0
    yield "wait", "full", b, r & 1
    x = yield "read", b
    yield ("fence",)
    yield "arrive", "empty", b
    return x


def wrong_empties_the_ring_at_the_end_of_a_job(role, jobs, buffers):
    """runs empty between jobs"""
    done, sums = 0, [0] * len(jobs)
    for j, tiles in enumerate(jobs):
        for t in range(tiles):
            sums[j] += yield from _step(role, j, t, done, buffers)
            done += 1
        for last in range(max(0, done - buffers), done if role == "producer" else 0):
            r, b = divmod(last, buffers)
            yield "wait", "empty", b, r & 1
    return sums


def wrong_per_job(role, jobs, buffers):
    """starts again"""
    sums = [0] * len(jobs)
    for j, tiles in enumerate(jobs):
        for t in range(tiles):
            sums[j] += yield from _step(role, j, t, t, buffers)
    return sums


def wrong_fence_before_the_loads(role, jobs, buffers):
    """between the loads and the arrival"""
    if role == "producer":
        return (yield from right_in_two_parts(role, jobs, buffers))
    n, sums = 0, [0] * len(jobs)
    for j, tiles in enumerate(jobs):
        for _ in range(tiles):
            yield "wait", "full", n % buffers, n // buffers % 2
            yield ("fence",)
            sums[j] += yield "read", n % buffers
            yield "arrive", "empty", n % buffers
            n += 1
    return sums


def wrong_all_copies_first(role, jobs, buffers):
    """never waits"""
    if role == "consumer":
        return (yield from right_in_two_parts(role, jobs, buffers))
    yield from (x for x in right_in_two_parts(role, jobs, buffers) if x[0] != "wait")


def wrong_no_generator(role, jobs, buffers):
    return [sum(range(tiles)) for tiles in jobs]


def wrong_never_stops(role, jobs, buffers):
    while True:
        yield ("fence",)


def wrong_request(role, jobs, buffers):
    yield "wait", "full", buffers, 0
