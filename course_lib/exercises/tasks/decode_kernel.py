"""Lecture 08: one split of a paged cache as a Triton kernel."""

from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness import accesses

ASKED = r"""
Write the kernel of one split over a paged cache. Each of B sequences has one query in H heads, Q [B, H, D]; consecutive `G` of them
share one of `heads_k` heads of keys and values, which lie in a pool of pages, K and V [P, heads\_k, PAGE, D]. `table` [B, slots] holds
each sequence's pages, −1 where it has none, and `lengths` [B] its keys, both int32. The rest is float32; all is contiguous, in row
order. Rows of a page without a token hold NaN.

The grid is (B · heads\_k, S). Program $(b \cdot \text{heads_k} + h,\ s)$ serves the `G` queries of head $h$ of sequence $b$, and of
its ⌈length / PAGE⌉ pages the split $s$: with $E$ = ⌈pages in use / S⌉, the pages from $s E$ up to $(s + 1) E$. With 70 keys, pages of
16 and S = 2 that are pages 0 to 2, and 3 to 4 with 22 keys. It stores $O_s$, the finished average, into O [S, B, H, D], and $L_s$, a
natural logarithm, into L [S, B, H]; for a split without a key 0 and −∞. A page is a block: at most one page of K and one of V are
loaded at once, each key once. G, D and PAGE are powers of two. Pass `input_precision="ieee"` to `tl.dot`. The check runs in Triton's
interpreter, counts the loads, and watches that only the tensors are read or written.
"""

STUB = '''
@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):
    """O [S, B, H, D] and L [S, B, H], float32: the attention of one query a head over each split of a paged cache."""
    ...
'''


def run(kernel: Any, case: Case) -> tuple[torch.Tensor, torch.Tensor, int, int]:
    """O, L, and how often that number of K, and of V, is loaded that is loaded most often."""
    q, k, v, lengths, table, splits = case.args
    (b, h, d), (_, heads_k, page, _) = q.shape, k.shape
    o, L = torch.full((splits, b, h, d), torch.nan), torch.full((splits, b, h), torch.nan)
    constants = {"G": h // heads_k, "D": d, "PAGE": page}
    with (
        accesses.loads_of_at_most(max(page, h // heads_k) * d, "a page, PAGE rows of D numbers"),
        accesses.loaded() as times,
    ):
        kernel[(b * heads_k, splits)](
            q, k, v, lengths, table, o, L, b, heads_k, table.shape[1], splits, d**-0.5, **constants
        )  # fmt: skip
    k_times, v_times = (int(times[x].max()) if x in times else 0 for x in ("k_ptr", "v_ptr"))
    return o, L, k_times, v_times


EXERCISE = Exercise(
    name="decode_kernel",
    lecture="08",
    title="a split of a paged cache",
    level=3,
    minutes=40,
    core=True,
    asked=ASKED,
    stub=STUB,
    run=run,
    parts=("O", "L", "times that a key of K is loaded", "times that a key's row of V is loaded"),
    arguments=("Q", "K", "V", "lengths", "table", "S"),
    compiles=dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr", "L_ptr"), "*fp32")
    | {
        "lengths_ptr": "*i32",
        "table_ptr": "*i32",
        "B": "i32",
        "heads_k": "i32",
        "slots": "i32",
        "S": "i32",
        "scale": "fp32",
    }
    | {"G": 4, "D": 16, "PAGE": 16},
    tolerance=3e-4,
    hints=(
        "It is the Online kernel of lecture 05: the rows of its tile are the G heads of one query, its loop runs over pages, and a page's "
        "place comes from the table. Which sequence and which head of keys is the program's? Which pages are its split's?",
        "b = tl.program_id(0) // heads_k and h = tl.program_id(0) % heads_k; its queries are rows (b · heads_k + h) · G + 0 … G − 1 of Q. "
        "used = tl.cdiv(length, PAGE), each = tl.cdiv(used, S), for slot in range(s * each, tl.minimum((s + 1) * each, used)). "
        "Key slot · PAGE + row is row (number · heads_k + h) · PAGE + row of K and V.",
        "Mask both loads with keys < length, and the scores with −∞: a masked score alone leaves 0 · NaN. Every page of the "
        "loop has a key, so m is finite behind the first one. What do l, acc and m hold in a program without a page, and what "
        "should it store?",
    ),
)
