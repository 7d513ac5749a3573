"""Fixtures and switches shared by all tests."""

import gc
import importlib.util
import itertools
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import settings

from course_lib import runtime

os.environ.pop("MAKEFLAGS", None)  # what the `make` that runs the tests was told is not for those that they run
gc.disable()  # until all tests are collected: what is imported stays, and to look through it again and again takes a sixth of the time
settings.register_profile("course", deadline=None)  # a busy machine is slow, not wrong
settings.load_profile("course")

if importlib.util.find_spec("nbformat"):  # a GPU server with torch and triton alone runs the kernels' tests
    from browsing import browser, close_browser, lab, open_file, show  # noqa: F401 - the fixtures of the browser tests


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """The same numbers in every run, others with COURSE_SEED; a GPU's memory goes back to the other workers."""
    torch.manual_seed(int(os.environ.get("COURSE_SEED", "0")))
    yield
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@pytest.fixture
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is passed is forgotten when the test ends."""
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress"))


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The students' copy; three exercises have their material, as that of all takes a minute, and is tested by itself."""
    from course_lib.exercises import handout
    from course_lib.exercises.material import as_data

    folder = tmp_path_factory.mktemp("students") / "copy"
    given = ("crossover", "phase_of", "tile_traffic")
    with mock.patch.object(handout, "as_data", lambda e: as_data(e) if e.name in given else "[]"):
        handout.write(folder)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if item.get_closest_marker("browser") and not (nextitem and nextitem.get_closest_marker("browser")):
        close_browser()


def explorers_of(cell: pytest.Item) -> Iterator[pytest.Item]:
    """Cells for the end of a lecture, which move the controls of its interactive figures, in its kernel; given its last cell."""
    import nbformat

    for n, (name, every_extreme) in enumerate([("explorers", False), ("explorers at every extreme", True)], 1):
        source = f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n"
        source += f"import explorer_extremes; explorer_extremes.check(every_extreme={every_extreme})"
        code = nbformat.v4.new_code_cell(source)
        options = defaultdict(bool, check=False)
        more = type(cell).from_parent(cell.parent, name=name, cell_num=cell.cell_num + n, cell=code, options=options)
        if every_extreme:
            more.add_marker(pytest.mark.weekly)
        yield more


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What stays together on one worker, and what is skipped where there is no Triton, unless that has to be a failure.

    A lecture's cells share a kernel; the browser tests servers, for whose waits the other workers compute.
    COURSE_REQUIRE_GPU=1 (`make test-gpu`) wants GPU mode; COURSE_REQUIRE_KERNELS=1 (`.ci/run`) wants any with kernels.
    """
    for lecture, cells in itertools.groupby(items[:], lambda item: item.parent):
        if isinstance(lecture, pytest.File) and lecture.path.suffix == ".ipynb":
            last = list(cells)[-1]
            at = items.index(last) + 1
            items[at:at] = explorers_of(last)
    for item in items:
        if item.path.suffix == ".ipynb":
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        elif item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.xdist_group("browser"))
        elif "copy" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("copy"))
    mode = runtime.mode()
    if os.environ.get("COURSE_REQUIRE_GPU") == "1" and mode != "GPU":
        raise pytest.UsageError(f"COURSE_REQUIRE_GPU is set, but this machine is in the mode: {mode}")
    if mode == "no kernels":
        if os.environ.get("COURSE_REQUIRE_KERNELS") == "1":
            raise pytest.UsageError("COURSE_REQUIRE_KERNELS is set, but Triton is not installed")
        for item in items:
            if item.get_closest_marker("kernel"):
                item.add_marker(pytest.mark.skip(reason="Triton is not installed (it has wheels for Linux only)"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Raise UsageError if pytest-xdist does not keep groups together: each worker would then start all servers and browsers."""
    gc.enable()
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(
                    "pytest-xdist does not group the tests of this pytest; install those of the lock"
                )
