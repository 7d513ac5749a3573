def right_with_negative_floors(m, n, k, block):
    return {"C": -4 * m * n * (2 * (-k // block) + 1), "B": -4 * k * n * (-m // block), "A": -4 * m * k * (-n // block)}


def _count(m, n, k, up):
    return {"A": 4 * m * k * up(n), "B": 4 * k * n * up(m), "C": 4 * m * n * (2 * up(k) - 1)}


def wrong_rounding_up_by_adding_999_thousandths(m, n, k, block):
    return _count(m, n, k, lambda size: int(size / block + 0.999))
