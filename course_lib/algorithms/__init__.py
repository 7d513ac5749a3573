"""The algorithms of the course, written block by block on the simulated memory: each reads like its pseudo-code.

Each function takes plain tensors, runs on a fresh ``Memory`` and returns the output with that memory, whose trace
holds every load and store. Nothing here is fast; it is exact, and counted.
"""

from course_lib.algorithms.attention import lite_attention, online_attention, standard_attention
from course_lib.algorithms.backward import (
    Gradients,
    backward_over_kv,
    backward_over_q,
    backward_two_passes,
)
from course_lib.algorithms.decoding import split_decode
from course_lib.algorithms.loop_orders import flash_running, flash_v1, flash_v2, linear_v1, linear_v2
from course_lib.algorithms.matmul import standard_matmul, tiled_matmul
from course_lib.algorithms.run import Run, blocks
from course_lib.algorithms.softmax import offline_softmax, online_softmax, softmax_average

__all__ = [
    "Gradients",
    "Run",
    "backward_over_kv",
    "backward_over_q",
    "backward_two_passes",
    "blocks",
    "flash_running",
    "flash_v1",
    "flash_v2",
    "linear_v1",
    "linear_v2",
    "lite_attention",
    "offline_softmax",
    "online_attention",
    "online_softmax",
    "softmax_average",
    "split_decode",
    "standard_attention",
    "standard_matmul",
    "tiled_matmul",
]
