"""Lecture 05: the launcher of a kernel for a batch of heads."""

from typing import Any

import torch

from course_lib.exercises import batched
from course_lib.exercises.base import Case, Exercise

ASKED = r"""
A kernel for a whole model's attention takes 22 arguments and checks none of them. Launch `attention_kernel`, which
`course_lib.exercises.batched` has and the check passes as `kernel`, once, and return O:

```python
kernel[grid](q, k, v, o, heads, group, n_q, n_k, d, scale,
             q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head, o_batch, o_row, o_head,
             CAUSAL=..., D=..., BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=...)
```

`q` is [batch, n_q, heads, d], `k` and `v` are [batch, n_k, heads / group, d], in fp16 or fp32 and in any strides, perhaps parts of one
larger tensor. Only where the $d$ numbers of a row do not lie side by side does the kernel need a copy. Program (i, j) makes the rows from
32 i on of head j mod `heads` in sequence j div `heads`. Strides count numbers, `scale` is $1/\sqrt d$, and `D` is $d$ rounded up to a
power of two, at least 16. Take as many stages as fit, 1 to 4: one tile of Q, and for each stage one of K and one of V, all D wide, in
`shared_bytes`.
"""

STUB = '''
def launch_it(kernel, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, shared_bytes: int) -> torch.Tensor:
    """O [batch, n_q, heads, d] from one launch of the kernel, in q's format."""
    ...
'''


BY_THE_KERNEL, NOT_BY_IT = "by the kernel", "not by the kernel"


def run(function: Any, case: Case) -> Any:
    """O, and what the kernel's launches were given. A number that nobody writes is NaN."""
    *tensors, causal, shared_bytes, layout = case.args
    given = laid_out(tensors, layout)
    kernel = batched.Watched(batched.attention_kernel, given)
    before = torch.are_deterministic_algorithms_enabled()
    torch._C._set_deterministic_algorithms(
        True
    )  # torch.empty gives NaN then; torch's own function imports the compiler first
    try:
        return function(kernel, *given, causal, shared_bytes), kernel.launches
    finally:
        torch._C._set_deterministic_algorithms(before)


def examine(case: Case, result: Any) -> tuple[Any, str, int, Any, Any, Any, int, str]:
    """O, its format, how many launches there were, grid, tiles and stages of the last, how many of Q, K and V were copied for it, and
    whether it wrote O. Only its arguments are believed: that an answer is right they say as well as a launch does.
    """
    *tensors, causal, _, layout = case.args
    o, launches = result
    words = str(getattr(o, "dtype", "none")), len(launches)
    if not launches:
        return o, *words, None, None, None, 0, NOT_BY_IT
    last = batched.Launch(launches[-1], laid_out(tensors, layout))
    try:
        by = BY_THE_KERNEL if last.makes(o, causal) else NOT_BY_IT
    except (RuntimeError, TypeError, AttributeError):  # what is there instead of tensors and numbers
        by = NOT_BY_IT
    return o, *words, last.grid, last.tiles, last.stages, last.copies, by


def laid_out(tensors: list[torch.Tensor], layout: str) -> list[torch.Tensor]:
    """Q, K and V with the strides that the words say."""
    if layout == "parts of one tensor":
        return list(torch.cat(tensors, 2).split([x.shape[2] for x in tensors], 2))
    if layout == "heads before rows":
        return [x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors]
    if layout == "V's heads before its rows":
        return [*tensors[:2], tensors[2].transpose(1, 2).contiguous().transpose(1, 2)]
    if layout == "heads before rows, and the numbers of K's rows apart":
        q, k, v = laid_out(tensors, "heads before rows")
        return [q, k.mT.contiguous().mT, v]
    if layout == "K and V in a longer cache":
        return [tensors[0], *(torch.cat([x, torch.full_like(x, torch.nan)], 1)[:, : x.shape[1]] for x in tensors[1:])]
    if layout == "the numbers of a row apart":
        return [x.mT.contiguous().mT for x in tensors]
    return tensors


EXERCISE = Exercise(
    name="launch_it",
    lecture="05",
    title="launch it",
    level=2,
    minutes=20,
    asked=ASKED,
    stub=STUB,
    run=run,
    examine=examine,
    parts=(
        "O",
        "O's format",
        "launches",
        "grid",
        "D, BLOCK_M, BLOCK_N",
        "num_stages",
        "tensors copied",
        "O is written",
    ),
    arguments=("q", "k", "v", "causal", "shared_bytes", "laid out"),
    tolerance=2e-3,
    hints=(
        "Which of the arguments can you read off q.shape and k.shape, which off stride(), and which must you compute? How many programs "
        "does a sequence of 40 queries need for one head?",
        "x.stride() gives four numbers, of batch, row, head and of neighbours in a row. The first three are what the kernel wants; if the "
        "last is not 1, x.contiguous() makes a copy in which it is. O has strides of its own.",
        "Each row of a tile takes D · q.element_size() bytes. Q has 32 rows, K and V 16 each for every stage: how many stages fit into "
        "what Q leaves? triton.cdiv and triton.next_power_of_2 round up; scale goes by d, not by D.",
    ),
)
