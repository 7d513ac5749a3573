from course_lib.model import registers


def right_what_is_given_back(consumers, producer):
    start = 512 // (consumers + 1) & ~7
    return min(256, start + (start - producer) // consumers // 8 * 8)


def wrong_by_the_library(consumers, producer):
    return registers.plan(consumers, producer).consumer
