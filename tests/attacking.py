"""A grading to be attacked: the ways that this machine has, and what they leave behind; and the students' copy."""

import contextlib
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from course_lib.exercises.handout import bundle
from course_lib.exercises.processes import landlock
from course_lib.exercises.sandbox import client

RIGHT = "def phase_of(n, buffers):\n    r = n // buffers\n    return n % buffers, r % 2, 1 - r % 2\n"


def page(source: str, exercise: str = "phase_of") -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    check = {**cell, "source": f"check({exercise})"}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell, check]})


@functools.cache
def possible(way: str) -> str:
    """Why this machine lacks a way; '' if it has it."""
    if way == "limits" and landlock.version() < 1:
        return "limits alone, without Landlock, hide nothing: grading says so"
    try:
        with client.Sandbox(way=way):
            return ""
    except client.SandboxError as error:
        return str(error)


@pytest.fixture(scope="module", params=client.WAYS)
def way(request) -> str:
    """Each that this machine has. COURSE_REQUIRE_SANDBOX=1 wants one at least."""
    lacking = possible(request.param)
    if lacking and os.environ.get("COURSE_REQUIRE_SANDBOX") == "1" and all(map(possible, client.WAYS)):
        pytest.fail(f"COURSE_REQUIRE_SANDBOX is set, and there is none: {lacking}")
    if lacking:
        pytest.skip(lacking)
    return request.param


def running(place: Path) -> set[int]:
    """The processes that were started for a grading whose temporary folders lie in ``place``, and those that attacks name after it."""
    found = set()
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            if os.fsencode(place) in Path(f"/proc/{int(entry)}/cmdline").read_bytes():
                found.add(int(entry))
    return found


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder for temporary files that other accounts can pass."""
    folder = Path(tempfile.mkdtemp(prefix="course-attacks-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def copy(tmp_path_factory) -> Path:
    """The students' copy."""
    folder = tmp_path_factory.mktemp("students") / "copy"
    count = bundle.write_bundle(folder)
    assert len([p for p in folder.rglob("*") if p.is_file()]) == count
    return folder
