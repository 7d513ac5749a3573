def right_by_walking_the_nest(m, n, k, block):
    moved = {"A": 0, "B": 0, "C": 0}
    for i in range(0, m, block):
        for j in range(0, n, block):
            for p in range(0, k, block):
                down, across, deep = min(block, m - i), min(block, n - j), min(block, k - p)
                moved["A"] += 4 * down * deep
                moved["B"] += 4 * deep * across
                moved["C"] += 4 * down * across * (2 if p else 1)
    return moved


def right_with_negative_floors(m, n, k, block):
    return {"C": -4 * m * n * (2 * (-k // block) + 1), "B": -4 * k * n * (-m // block), "A": -4 * m * k * (-n // block)}


def _count(m, n, k, up):
    return {"A": 4 * m * k * up(n), "B": 4 * k * n * up(m), "C": 4 * m * n * (2 * up(k) - 1)}


def wrong_rounding_up_by_adding_999_thousandths(m, n, k, block):
    return _count(m, n, k, lambda size: int(size / block + 0.999))
