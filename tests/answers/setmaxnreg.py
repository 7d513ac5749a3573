from course_lib.model import registers


def right_what_is_given_back(consumers, producer):
    start = 512 // (consumers + 1) & ~7
    return min(256, start + (start - producer) // consumers // 8 * 8)


def wrong_504_whatever_starts(consumers, producer):
    return min(256, (504 - producer) // consumers // 8 * 8)


def wrong_by_the_library(consumers, producer):
    return registers.plan(consumers, producer).consumer


def wrong_by_the_librarys_start(consumers, producer):
    pool = registers.at_start(consumers + 1) * (consumers + 1)
    return min(256, (pool - producer) // consumers // 8 * 8)


def right_out_of_the_library(consumers, producer):
    pool = min(256, 512 // (consumers + 1) // 8 * 8) * (consumers + 1)
    return min(256, (pool - producer) // consumers // 8 * 8)
