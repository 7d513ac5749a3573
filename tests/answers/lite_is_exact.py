import math


def right_by_the_number_of_blocks(n_keys, block_n):
    return math.ceil(n_keys / block_n) == 1


def right_by_the_keys_left_over(n_keys, block_n):
    return not (n_keys - 1) // block_n


def wrong_blocks_of_at_most_128(n_keys, block_n):
    return n_keys <= min(block_n, 128)


def wrong_about_one(n_keys, block_n):
    return n_keys / block_n <= 1.01


def wrong_full_blocks_by_powers_of_two(n_keys, block_n):
    return n_keys < block_n or (n_keys == block_n and n_keys & (n_keys - 1) == 0)
