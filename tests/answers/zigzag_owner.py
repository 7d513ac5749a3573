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
