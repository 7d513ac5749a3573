from itertools import product

from course_lib.model.pipeline import MODES, idle_fraction, in_order, simulate


def right_by_trying(blocks, buffers, load, qk, softmax, pv):
    """Of four orders the one in which the tensor cores idle least."""
    found = []
    for pv_first, by_consumer in product((True, False), repeat=2):
        order = []
        for j in range(blocks + 1):
            pairs = [[(c, "PV", j - 1), (c, "QK", j)] for c in (1, 2)]
            pairs = [p if pv_first else p[::-1] for p in pairs]
            steps = [x for both in (pairs if by_consumer else zip(*pairs)) for x in both]
            order += [x for x in steps if 0 <= x[2] < blocks]
        try:
            found.append((idle_fraction(in_order(order, blocks, buffers, load, qk, softmax, pv)), order))
        except ValueError:
            continue
    return min(found)[1]


def right_greedy(blocks, buffers, load, qk, softmax, pv):
    """Whoever has waited longest for its scores: with a buffer to spare each consumer keeps one block ahead."""
    ahead = 1 if buffers >= 3 else 0
    order, scores, values = [], {1: 0, 2: 0}, {1: 0, 2: 0}
    while values[2] < blocks:
        for c in (1, 2):
            if ahead == 0 and scores[c] > values[c]:
                order.append((c, "PV", values[c]))
                values[c] += 1
            if scores[c] < blocks:
                order.append((c, "QK", scores[c]))
                scores[c] += 1
            if ahead and (scores[c] - values[c] > ahead or scores[c] == blocks) and scores[c] + values[c] > 1:
                order.append((c, "PV", values[c]))
                values[c] += 1
    return order


def wrong_same_point(blocks, buffers, load, qk, softmax, pv):
    """both consumers are at the same point"""
    return [(c, kind, j) for j in range(blocks) for kind in ("QK", "PV") for c in (1, 2)]


def wrong_ping_pong(blocks, buffers, load, qk, softmax, pv):
    """PV always comes before the next QK"""
    order = [(1, "QK", 0), (2, "QK", 0)]
    for j in range(blocks):
        for c in (1, 2):
            order += [(c, "PV", j), (c, "QK", j + 1)][: 1 + (j + 1 < blocks)]
    return order


def wrong_lists_of_words(blocks, buffers, load, qk, softmax, pv):
    return ["1 QK 0", "2 QK 0"]


def wrong_twice(blocks, buffers, load, qk, softmax, pv):
    return [*wrong_ping_pong(blocks, buffers, load, qk, softmax, pv)[:-1], (1, "QK", 0)]


def wrong_infinite_block(blocks, buffers, load, qk, softmax, pv):
    return [(1, "QK", float("inf"))] * (4 * blocks)


def wrong_by_the_librarys_timelines(blocks, buffers, load, qk, softmax, pv):
    found = []
    for mode in MODES:
        spans = simulate(blocks, 2, buffers, load, qk, softmax, pv, mode)
        order = [(s.warpgroup, s.kind, s.block) for s in spans if s.kind in ("QK", "PV")]
        found.append((idle_fraction(in_order(order, blocks, buffers, load, qk, softmax, pv)), order))
    return min(found)[1]
