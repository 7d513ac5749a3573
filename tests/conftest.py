"""Fixtures and switches shared by all tests."""

import os

import pytest
import torch

from course_lib import runtime


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """COURSE_REQUIRE_GPU=1 (set by `make test-gpu`) turns a missing GPU into a failure instead of an interpreted run."""
    if os.environ.get("COURSE_REQUIRE_GPU") == "1" and runtime.lane() != "GPU":
        raise pytest.UsageError(f"COURSE_REQUIRE_GPU is set, but this machine is on the lane: {runtime.lane()}")
