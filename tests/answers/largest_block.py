import math


def right_by_logarithm(sram_bytes, block_m, d):
    keys = (sram_bytes - 6 * block_m * d) // (4 * d + 4 * block_m)
    return 2 ** int(math.log2(keys)) if keys >= 1 else 0


def right_from_above(sram_bytes, block_m, d):
    block = 2**40
    while block and 6 * block_m * d + block * (4 * d + 4 * block_m) > sram_bytes:
        block //= 2
    return block


def wrong_sizes_up_to_16384(sram_bytes, block_m, d):
    return min(16384, right_from_above(sram_bytes, block_m, d))
