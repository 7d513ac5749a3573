"""What an input of break_it is tried on: the kernel without a mistake is right, and what is no input is told."""

import re

import pytest
import torch

from course_lib.exercises.harness import wrong_attention
from course_lib.model import reference


def test_without_a_mistake_it_is_attention() -> None:
    for n_q, n_k, block in ((1, 1, 4), (3, 5, 4), (7, 20, 8)):
        q, k, v = torch.randn(n_q, 8) * 10, torch.randn(n_k, 8), torch.randn(n_k, 3)
        right = reference.attention(q, k, v)
        assert float((wrong_attention.attention(q, k, v, block) - right).abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "return a tuple of three"),
        ((torch.zeros(2, 2),) * 2, "return a tuple of three"),
        ((torch.zeros(2, 2, dtype=torch.float64),) * 3, "float32 tensors with two dimensions"),
        ((torch.zeros(2),) * 3, "float32 tensors with two dimensions"),
        ((torch.zeros(2, 3), torch.zeros(2, 2), torch.zeros(2, 2)), r"q \[2, 3\], k \[2, 2\], .* of one width"),
        ((torch.zeros(2, 2), torch.zeros(2, 2), torch.zeros(3, 2)), "k and v of one length"),
        ((torch.zeros(2, 65),) * 3, "widths have to be 1 to 64"),
        ((torch.zeros(5, 2), torch.zeros(2, 2), torch.zeros(2, 2)), "at most 4 queries and 6 keys"),
        ((torch.zeros(2, 2), torch.zeros(7, 2), torch.zeros(7, 2)), "at most 4 queries and 6 keys"),
        ((torch.zeros(2, 2), torch.zeros(0, 2), torch.zeros(0, 2)), "at most 4 queries and 6 keys"),
        ((torch.full((2, 2), torch.inf),) * 3, "have to be finite"),
        ((torch.full((2, 2), 1e30),) * 3, "the right kernel fails on it, too"),
    ],
)
def test_what_is_no_input_is_told(given, words) -> None:
    trouble, names = wrong_attention.getting_by(given, 4, 4, 6)
    assert names == ""
    assert re.search(words, trouble)
