"""Solution of how_long."""

SOURCE = '''
def how_long(kernel: str, sizes: dict[str, int], dtype: str, tb_per_s: float, tflops: float) -> float:
    """The least time of a kernel, in µs, on a GPU of so many TB/s and TFLOP/s."""
    s = sizes
    if kernel == "add":
        numbers, operations = 3 * s["n"], s["n"]
    elif kernel == "matmul":
        numbers = s["m"] * s["k"] + s["k"] * s["n"] + s["m"] * s["n"]
        operations = 2 * s["m"] * s["n"] * s["k"]
    else:
        numbers = 2 * s["heads"] * s["queries"] * s["d"] + 2 * s["kv_heads"] * s["keys"] * s["d"]
        operations = 4 * s["heads"] * s["queries"] * s["keys"] * s["d"] / (2 if s["causal"] else 1)
    size = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}[dtype]
    return max(numbers * size / tb_per_s, operations / tflops) / 1e6
'''

EXPLANATION = """
Two counts, two divisions, and the longer time. An add does one operation for three numbers, so bytes decide on every GPU; a large
matmul is the opposite. Attention is either: with as many queries as keys it computes, with one query it moves K and V, and sharing them
among heads makes that shorter. A causal mask halves the scores, not the tensors. The five operations of a softmax are a few per
cent of the 4d of a score, and no bound is that sharp.
"""
