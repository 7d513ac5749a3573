import math

from course_lib.ladder.python import attention_floats


def right_in_place_by_indices(q, k, v):
    m, l, o = -math.inf, 0.0, [0.0] * len(v[0])
    for j in range(len(k)):
        x = math.fsum(q[c] * k[j][c] for c in range(len(q))) / math.sqrt(len(q))
        if x > m:
            factor = math.exp(m - x)
            m, l = x, l * factor
            for c in range(len(o)):
                o[c] *= factor
        weight = math.exp(x - m)
        l += weight
        for c in range(len(o)):
            o[c] += weight * v[j][c]
    return tuple(y / l for y in o)


def wrong_maximum_from_minus_10000(q, k, v):
    """if the maximum starts at some number instead of −∞"""
    m, l, o = -1e4, 0.0, [0.0] * len(v[0])
    for key, value in zip(k, v):
        x = sum(a * b for a, b in zip(q, key)) / math.sqrt(len(q))
        new = max(m, x)
        factor, weight = math.exp(m - new), math.exp(x - new)
        l, o, m = l * factor + weight, [y * factor + weight * z for y, z in zip(o, value)], new
    return [y / l for y in o]


def wrong_by_the_library_from_a_copy(q, k, v):
    copies = [(list(key), list(value)) for key, value in zip(k, v)]
    return attention_floats([q], *map(list, zip(*copies)))[0]
