"""Fixtures and switches shared by all tests."""

import importlib.util
import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from course_lib import runtime

settings.register_profile("course", deadline=None)  # a busy machine is slow, not wrong
settings.load_profile("course")

if importlib.util.find_spec("nbformat"):  # a GPU server with torch and triton alone runs the kernels' tests
    from attacking import place, way  # noqa: F401 - the fixtures of the grader's tests
    from browsing import browser, lab, open_file, show  # noqa: F401 - the fixtures of the browser tests


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """The same numbers in every run, others with COURSE_SEED; a GPU's memory goes back to the other workers."""
    torch.manual_seed(int(os.environ.get("COURSE_SEED", "0")))
    yield
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kernel tests are skipped where there is no Triton, unless that has to be a failure.

    COURSE_REQUIRE_GPU=1 (`make test-gpu`) wants GPU mode; COURSE_REQUIRE_KERNELS=1 (`.ci/run`) wants any with kernels.
    """
    mode = runtime.mode()
    if os.environ.get("COURSE_REQUIRE_GPU") == "1" and mode != "GPU":
        raise pytest.UsageError(f"COURSE_REQUIRE_GPU is set, but this machine is in the mode: {mode}")
    if mode == "no kernels":
        if os.environ.get("COURSE_REQUIRE_KERNELS") == "1":
            raise pytest.UsageError("COURSE_REQUIRE_KERNELS is set, but Triton is not installed")
        for item in items:
            if item.get_closest_marker("kernel"):
                item.add_marker(pytest.mark.skip(reason="Triton is not installed (it has wheels for Linux only)"))
