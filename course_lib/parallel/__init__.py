"""Attention on several GPUs by torch.distributed, on any process group: gloo in processes of a laptop, NCCL on GPUs.

o = ring_attention(q, k, v, causal=True, order="zigzag")      # on each rank, of the tokens that it owns
parts = run(function, 4, x)                                   # function(rank, x) in four processes
"""

from course_lib.parallel.decoding import decode
from course_lib.parallel.messages import Sending, sends
from course_lib.parallel.rank_processes import RankError, run
from course_lib.parallel.ring import ring_attention
from course_lib.parallel.tokens import shard, unshard
from course_lib.parallel.ulysses import ulysses_attention

__all__ = [
    "RankError",
    "Sending",
    "decode",
    "ring_attention",
    "run",
    "sends",
    "shard",
    "ulysses_attention",
    "unshard",
]
