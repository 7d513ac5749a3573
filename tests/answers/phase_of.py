def right_by_walking_round(n, buffers):
    buffer = phase = 0
    for _ in range(n):
        buffer += 1
        if buffer == buffers:
            buffer, phase = 0, phase ^ 1
    return buffer, phase, 1 - phase


def wrong_cut_toward_0(n, buffers):
    return n % buffers, n // buffers % 2, int((n - buffers) / buffers) % 2
