"""Functions that measure on a GPU, check against float64 and write records with provenance to data/measured/<device>/.

python -m course_lib.recordings [name …]
"""

from collections.abc import Callable
from typing import Any

from course_lib.recordings import (
    beside_peers,
    capstone,
    capstone_steps,
    decoding,
    formats,
    hopper,
    host,
    kernels,
    ladder,
    low_precision,
    many_gpus,
    training,
)

RECORDINGS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "softmax_passes": kernels.softmax_passes,
    "attention_one_head": kernels.attention_one_head,
    "parallelism": kernels.parallelism,
    "matmul_tiles": kernels.matmul_tiles,
    "loop_orders": kernels.loop_orders,
    "loop_orders_counters": kernels.loop_orders_counters,
    "attention_speed": training.attention_speed,
    "training_run": training.training_run,
    "number_formats": formats.number_formats,
    "load_widths": formats.load_widths,
    "registers": formats.registers,
    "forward_ladder": hopper.forward_ladder,
    "forward_blocks": hopper.forward_blocks,
    "ring": hopper.ring,
    "eight_bit_speed": low_precision.eight_bit_speed,
    "eight_bit_errors": low_precision.eight_bit_errors,
    "eight_bit_sums": low_precision.eight_bit_sums,
    "eight_bit_long_rows": low_precision.eight_bit_long_rows,
    "eight_bit_counters": low_precision.eight_bit_counters,
    "attention_host": host.attention_host,
    "attention_beside_peers": beside_peers.attention_beside_peers,
    "ring_of_gpus": many_gpus.ring_of_gpus,
    "ring_of_gpus_kernels": many_gpus.ring_of_gpus_kernels,
    "decoding_speed": decoding.decoding_speed,
    "decoding_splits": decoding.decoding_splits,
    "capstone_losses": capstone.capstone_losses,
    "capstone_sample": capstone.capstone_sample,
    "capstone_context": capstone_steps.capstone_context,
    "capstone_generation": capstone_steps.capstone_generation,
    "capstone_backends": capstone.capstone_backends,
    "full_stack": ladder.full_stack,
}
WITHOUT_GPU = ("full_stack",)  # measured on machines without one, too
ON_TWO_GPUS = ("ring_of_gpus", "ring_of_gpus_kernels")
