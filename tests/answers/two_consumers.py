from course_lib.model.pipeline import MODES, idle_fraction, in_order, simulate


def right_by_trying(blocks, buffers, load, qk, softmax, pv):
    """Of two orders the one in which the tensor cores idle less."""
    found = []
    for kinds in (("PV", "QK"), ("QK", "PV")):
        steps = [(c, kind, j - (kind == "PV")) for j in range(blocks + 1) for c in (1, 2) for kind in kinds]
        order = [x for x in steps if 0 <= x[2] < blocks]
        found.append((idle_fraction(in_order(order, blocks, buffers, load, qk, softmax, pv)), order))
    return min(found)[1]


def wrong_same_point(blocks, buffers, load, qk, softmax, pv):
    """both consumers are at the same point"""
    return [(c, kind, j) for j in range(blocks) for kind in ("QK", "PV") for c in (1, 2)]


def wrong_by_the_librarys_timelines(blocks, buffers, load, qk, softmax, pv):
    spans = simulate(blocks, 2, buffers, load, qk, softmax, pv, MODES[-1])
    return [(s.warpgroup, s.kind, s.block) for s in spans if s.kind in ("QK", "PV")]
