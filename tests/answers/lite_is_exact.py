import math


def right_by_the_number_of_blocks(n_keys, block_n):
    return math.ceil(n_keys / block_n) == 1


def wrong_blocks_of_at_most_128(n_keys, block_n):
    return n_keys <= min(block_n, 128)


def wrong_about_one(n_keys, block_n):
    return n_keys / block_n <= 1.01
