"""Solution of why_slow."""

SOURCE = '''
def why_slow(report: dict[str, int]) -> tuple[str, float]:
    """("programs", "bytes" or "neither", the most that this change can gain)."""
    r = report
    seats = r["sms"] * r["resident"]
    blocks = -(-r["n"] // r["block"])
    programs = min(seats, r["heads"] * blocks) / min(seats, r["programs"])
    needed = 2 * r["heads"] * (2 * r["n"] * r["d"] + blocks * 2 * r["n"] * r["d"])
    bytes_saved = r["bytes"] / needed
    if max(programs, bytes_saved) < 1.2:
        return "neither", 1.0
    return ("programs", programs) if programs > bytes_saved else ("bytes", bytes_saved)
'''

EXPLANATION = """
The same kernel can be slow for two reasons, and the shape decides: V1 with 16 heads leaves almost all seats empty; with 256 heads it takes
half of them or all, and then its accumulator, which goes to memory and back for every block of keys, costs more. A bound is no promise:
compare it with the gains in the check's lines. But the higher bound named the better change each time. (One recording is left out, V1
with 64 heads and num_stages=3: its bounds lie close together, and so do its gains, the other way round.) For V2 neither change is left;
what it waits for then is a matter of order, and of lectures 10 and 11.
"""
