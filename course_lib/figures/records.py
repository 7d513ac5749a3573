"""Recordings as typed rows: a figure names the fields it needs, once, and then reads them as attributes."""

from typing import NamedTuple, TypeVar

from course_lib import data

Row = TypeVar("Row", bound=NamedTuple)
H200 = "nvidia-h200"


class Pass(NamedTuple):
    """A pass of an attention in the recording attention_beside_peers: five matmuls backward, half of all under a causal mask."""

    algorithm: str
    direction: str
    how: str
    d: int
    causal: bool
    n: int
    tflops: float


def rows(kind: type[Row], name: str, device: str = H200) -> list[Row]:
    """The rows of ``data/measured/<device>/<name>.json`` as ``kind``, a NamedTuple of the fields that are wanted.

    Raises ValueError naming a field of ``kind`` that the recording does not have; for the rest see ``data.measured``.
    """
    found = data.measured(device, name).rows
    return [kind(*(row[field] for field in kind._fields)) for row in found]


def label(name: str, device: str = H200) -> str:
    """What a figure made from this recording says of itself: 'recorded 2026-11-21, NVIDIA H200, triton 3.6.0'."""
    return data.measured(device, name).label
