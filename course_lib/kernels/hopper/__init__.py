"""A ladder of forward kernels, from the Online kernel to the top of an H200; each rung returns O and L. And a backward kernel.

o, L = forward("TMA", q, k, v, causal=True)             # q [B, H, Nq, D], k and v [B, Hk, Nk, D]
"""

from course_lib.kernels.hopper.backward_launching import (
    BACKWARD_TILINGS,
    backward_refusal,
    launch_backward,
    launch_matmuls,
)
from course_lib.kernels.hopper.launching import (
    call_refusal,
    descriptor,
    forward,
    heads_at_once,
    launch_specialised,
    refusal,
)
from course_lib.kernels.hopper.rungs import RUNGS, THREE_MATMULS, Rung, Tiling, best, too_small

__all__ = [
    "BACKWARD_TILINGS",
    "RUNGS",
    "THREE_MATMULS",
    "Rung",
    "Tiling",
    "backward_refusal",
    "best",
    "call_refusal",
    "descriptor",
    "forward",
    "heads_at_once",
    "launch_backward",
    "launch_matmuls",
    "launch_specialised",
    "refusal",
    "too_small",
]
