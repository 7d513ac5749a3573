"""Closed forms count in no time, however long a sequence is."""

import pytest

from course_lib.model import cost

HUGE = 10**9
COMPUTED = {
    "V1": lambda: cost.flash_v1_traffic(HUGE, 4, 1, block_m=1),
    "V1, causal and split": lambda: cost.flash_v1_traffic(HUGE, 4, 3, block_m=7, causal=True, split=11),
    "V2, causal": lambda: cost.flash_v2_traffic(HUGE, 4, 1, block_n=1, causal=True),
    "operations": lambda: cost.attention_operations("V1", HUGE, 4, 1, 1, causal=True),
    "backward": lambda: cost.backward_traffic("two passes", HUGE, 4, 1, 1, causal=True),
    "standard": lambda: cost.standard_attention_traffic(HUGE, 4, block_m=1),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_long_sequence_is_counted(name) -> None:
    assert COMPUTED[name]() is not None
