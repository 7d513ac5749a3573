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
            yield ["expect", "full", b, 8192]
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


def wrong_no_generator(role, jobs, buffers):
    return [sum(range(tiles)) for tiles in jobs]
