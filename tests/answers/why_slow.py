import math


def right_as_shares(report):
    heads, n, d, block = (report[x] for x in ("heads", "n", "d", "block"))
    seats = report["resident"] * report["sms"]
    blocks = math.ceil(n / block)
    idle = 1 - min(1, report["programs"] / seats) / min(1, heads * blocks / seats)
    waste = 1 - heads * n * d * 2 * 2 * (1 + blocks) / report["bytes"]
    worst = max(idle, waste)
    if worst < 1 / 6:
        return "neither", 1.0
    return ["programs" if idle == worst else "bytes", 1 / (1 - worst)]


def right_without_q_and_o(report):
    """A few per cent less has to travel so: within a tenth."""
    blocks = math.ceil(report["n"] / report["block"])
    kv = report["heads"] * blocks * 2 * report["n"] * report["d"] * 2
    seats = report["sms"] * report["resident"]
    bounds = {
        "programs": min(seats, report["heads"] * blocks) / min(seats, report["programs"]),
        "bytes": report["bytes"] / (kv * (1 + 1 / blocks)),
        "neither": 1.2,
    }
    best = max(bounds, key=bounds.get)
    return best, 1.0 if best == "neither" else bounds[best]


def wrong_seats_first(report):
    """empty seats decide"""
    seats = report["sms"] * report["resident"]
    could = min(seats, report["heads"] * math.ceil(report["n"] / report["block"]))
    if report["programs"] < could / 1.2:
        return "programs", could / report["programs"]
    return right_as_shares(report)


def wrong_only_the_bound(report):
    return right_as_shares(report)[1]
