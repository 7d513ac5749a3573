def right_by_all_pairs(q_start, k_start, block_m, block_n, n_q, n_k):
    queries, keys = range(q_start, min(q_start + block_m, n_q)), range(k_start, min(k_start + block_n, n_k))
    seen = [j <= i + n_k - n_q for i in queries for j in keys]
    return "full" if all(seen) else "masked" if any(seen) else "skip"


def wrong_keys_end_with_the_queries(q_start, k_start, block_m, block_n, n_q, n_k):
    found = right_by_all_pairs(q_start, k_start, block_m, block_n, n_q, n_k)
    full = min(k_start + block_n, n_q) <= q_start + n_k - n_q + 1
    return "skip" if found == "skip" else "full" if full else "masked"
