from course_lib.model.pipeline import MODES, idle_fraction, in_order, simulate


def right_by_trying(blocks, buffers, load, qk, softmax, pv):
    """Of two orders the one in which the tensor cores idle less."""
    found = []
    for kinds in (("PV", "QK"), ("QK", "PV")):
        steps = [(c, kind, j - (kind == "PV")) for j in range(blocks + 1) for c in (1, 2) for kind in kinds]
        order = [x for x in steps if 0 <= x[2] < blocks]
        found.append((idle_fraction(in_order(order, blocks, buffers, load, qk, softmax, pv)), order))
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


def wrong_infinite_block(blocks, buffers, load, qk, softmax, pv):
    return [(1, "QK", float("inf"))] * (4 * blocks)


def wrong_by_the_librarys_timelines(blocks, buffers, load, qk, softmax, pv):
    spans = simulate(blocks, 2, buffers, load, qk, softmax, pv, MODES[-1])
    return [(s.warpgroup, s.kind, s.block) for s in spans if s.kind in ("QK", "PV")]
