from course_lib.model import parallel


def right_by_mirroring(token, ranks, length):
    size = length // ranks // 2
    late = token >= length // 2
    mirrored = length - 1 - token if late else token
    rank = mirrored // size
    return rank, token % size + late * size


def wrong_share_of_the_length(token, ranks, length):
    """computed with floats"""
    piece = int(2 * token / length * ranks)
    place = token - piece * (length // (2 * ranks))
    return (piece, place) if piece < ranks else (2 * ranks - 1 - piece, place + length // (2 * ranks))


def wrong_by_the_library(token, ranks, length):
    for rank in range(ranks):
        early, late = parallel._pieces("zigzag", ranks, rank, length)
        if token in early or token in late:
            return rank, early.index(token) if token in early else len(early) + late.index(token)
