def right_by_all_pairs(q_start, k_start, block_m, block_n, n_q, n_k):
    queries, keys = range(q_start, min(q_start + block_m, n_q)), range(k_start, min(k_start + block_n, n_k))
    seen = [j <= i + n_k - n_q for i in queries for j in keys]
    return "full" if all(seen) else "masked" if any(seen) else "skip"


def right_without_the_end_of_the_queries(q_start, k_start, block_m, block_n, n_q, n_k):
    if min(k_start + block_n, n_k) - q_start <= n_k - n_q + 1:
        return "full"
    return "masked" if k_start - (q_start + block_m) < n_k - n_q else "skip"


def _decided(first, last, key, last_key, offset):
    if key > last + offset:
        return "skip"
    return "full" if last_key <= first + offset else "masked"


def wrong_keys_end_with_the_queries(q_start, k_start, block_m, block_n, n_q, n_k):
    last, last_key = min(q_start + block_m, n_q) - 1, min(k_start + block_n, n_q) - 1
    return _decided(q_start, last, k_start, last_key, n_k - n_q)


def wrong_long_sequences(q_start, k_start, block_m, block_n, n_q, n_k):
    if n_q > 1000:
        return "skip"
    return right_by_all_pairs(q_start, k_start, block_m, block_n, n_q, n_k)
