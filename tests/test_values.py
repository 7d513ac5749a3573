"""Plain data: any two values differ in words or not at all, travel as data, and what nobody wrote is refused."""

import json
import math
import time
from collections import OrderedDict
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
import torch

from course_lib.exercises import values
from course_lib.exercises.checker.differences import differs


class Pair(NamedTuple):
    m: float
    l: float


def strange_values():
    yield from (
        10**400, -(10**5000), math.nan, -math.inf, 1j, "\ud800", b"x", {1, 2}, range(3), Fraction(1, 2), [], {}, (),
    )  # fmt: skip
    yield from (
        None, True, [[[1]]], {"a": {"b": 1}}, {(1, 2): 3}, {None: 1}, OrderedDict(a=1), Pair(1.0, 2.0), iter([1]),
    )  # fmt: skip
    yield from (np.ones(3), np.ones((0, 2)), np.array("a"), np.array([None]), np.longdouble(1), np.datetime64("2020"))
    yield from (
        np.ma.masked, np.float16(1), np.array([1.0], dtype=">f8"), np.zeros(1, [("a", "i4")]), np.ones(2).T, type, len,
    )  # fmt: skip
    yield from (
        torch.ones(2).to_sparse(),
        torch.ones(2, 2).to_sparse_csr(),
        torch.ones(2, device="meta"),
        torch.Size([1]),
    )
    yield from (
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        torch.ones(1).expand(1 << 40),
        torch.float32,
    )
    yield from (
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, 3).T,
        torch.ones(()),
    )
    yield from (
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        torch.ones(0),
    )
    yield from (torch.zeros(3, dtype=kind) for kind in sorted(ALL_TYPES, key=str))
    yield from (torch.ones(1, dtype=torch.float8_e5m2), torch.full((2,), 2.0**100).to(torch.bfloat16))
    loop: list = []
    loop.append(loop)
    yield loop


ALL_TYPES = {
    x
    for x in vars(torch).values()
    if isinstance(x, torch.dtype) and not str(x).startswith(("torch.q", "torch.uint1to"))
} - {getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in range(1, 8)}
RIGHT = (
    1, 1.0, True, "a", None, (1, 2.0), {"a": 1}, torch.ones(2), torch.tensor([1, 2]), torch.ones(()), [1, 2], values.ANY,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_any_two_values_differ_in_words_and_travel_as_data() -> None:
    for found in strange_values():
        data = json.dumps(values.encode(found))
        back = values.decode(json.loads(data))
        assert json.dumps(values.encode(back)) == data
        for right in (*RIGHT, back):
            for one in (found, back, (found, found), {"a": found}):
                assert isinstance(differs(one, right, 1e-5), str)
        if not isinstance(found, float) or found == found:
            assert not differs(found, back, 0.0), found
    assert differs(10**400, 1.0, 1e-5)
    assert "a sparse_coo tensor came back" in differs(torch.ones(2).to_sparse(), torch.ones(2), 1e-5)
    assert "meta tensor came back" in differs(torch.ones(1, device="meta"), 1.0, 1e-5)
    assert "came back; return a whole number" in differs(np.ones(3), 1, 1e-5)
    assert not differs(torch.ones(2, dtype=torch.float8_e5m2), torch.ones(2), 1e-5)
    assert not differs(Pair(1.0, 2.0), (1.0, 2.0), 1e-5)


@pytest.mark.parametrize(
    "data",
    [
        {"tensor": ["float32", [10**9], "AAAA"]}, {"tensor": ["float32", [-1, -1], "AAAA"]}, {"tensor": ["Tensor", [1], "AAAA"]},
        {"array": ["O", [1], "AAAAAAAAAAA="]}, {"array": ["float32", [7], "AAAA"]}, {"tuple": 3}, {"int": "x"}, {"x": 1}, {},
        {"dict": [[[1], 2]]}, {"tensor": ["float32", [1], 5]}, {"tensor": 5}, {"a": 1, "b": 2},
    ],
)  # fmt: skip
def test_data_that_nobody_wrote_is_refused(data) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the words
        values.decode(data)


def test_a_message_of_many_parts_is_neither_written_nor_read() -> None:
    assert values.read(values.written([0] * 1000)) == [0] * 1000
    assert "too large" in values.read(values.written([0] * 1_000_000)).words
    begin = time.monotonic()
    for data in (b"[" + b"0," * 5_000_000 + b"0]", b"[" * 5_000_000, b"[" + b"{}," * 5_000_000 + b"{}]"):
        with pytest.raises(ValueError, match="too many parts"):
            values.read(data)
    assert time.monotonic() - begin < 1
