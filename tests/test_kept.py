"""What becomes of known-wrong answers, kept on the disk for the next process."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from course_lib.exercises.checker import kept

FOUND = {"if the old ℓ is not rescaled": [1.5, None, {"kind": "time"}]}


@pytest.fixture
def asked(monkeypatch, tmp_path) -> Iterator[list[str]]:
    """How often something was computed; in an empty cache, and by a process that has just begun."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kept, "BEGAN", time.time())
    kept._state.cache_clear()
    yield []
    kept._state.cache_clear()


def again(asked: list[str], name: str = "online_update") -> int:
    """Asks as another process does; how often it has been computed by then."""
    kept._state.cache_clear()
    assert kept.kept(name, lambda: asked.append(name) or FOUND) == FOUND
    return len(asked)


@pytest.fixture
def course(monkeypatch, tmp_path) -> Path:
    """A module of a course of its own."""
    (tmp_path / "course_lib" / "room").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (module := tmp_path / "course_lib" / "room" / "module.py").write_text("X = 1")
    (tmp_path / "data" / "gpus.csv").write_text("gpu")
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    monkeypatch.setattr(kept.data, "DATA", tmp_path / "data")
    monkeypatch.setattr(kept, "BEGAN", time.time() + 60)
    return module


def test_another_process_reads_what_one_has_computed(asked) -> None:
    assert [again(asked), again(asked), again(asked, "row_dot")] == [1, 1, 2]


def test_it_is_computed_anew_where_code_data_or_what_computes_have_changed(asked, course, monkeypatch) -> None:
    changes = [
        lambda: course.write_text("X = 2"),
        lambda: course.with_name("another.py").write_text(""),
        lambda: (course.parents[2] / "data" / "gpus.csv").write_text("another gpu"),
        lambda: monkeypatch.setattr(kept, "version", lambda package: "0.0"),
    ]
    for before, change in enumerate(changes, 1):
        assert [again(asked), again(asked)] == [before, before]
        change()
    assert again(asked) == len(changes) + 1


def test_of_code_that_is_newer_than_the_process_nothing_is_read_and_nothing_kept(asked, course, monkeypatch) -> None:
    assert again(asked) == 1
    changed = os.stat(course).st_mtime
    monkeypatch.setattr(kept, "BEGAN", changed - 1)
    assert [again(asked), again(asked)] == [2, 3]
    course.write_text("X = 3")
    assert again(asked) == 4
    monkeypatch.setattr(kept, "BEGAN", time.time() + 60)
    assert [again(asked), again(asked)] == [5, 5]


@pytest.mark.parametrize("harm", ["", "{}", "half", "another's"])
def test_what_is_damaged_is_made_anew(asked, harm, tmp_path) -> None:
    again(asked)
    [path] = tmp_path.rglob("online_update.json")
    whole = path.read_text()
    path.write_text({"half": whole[: len(whole) // 2], "another's": whole.replace("1.5", "2.5")}.get(harm, harm))
    assert [again(asked), again(asked)] == [2, 2]
    assert path.read_text() == whole


def test_a_folder_that_cannot_be_written_costs_the_next_process_its_seconds_alone(asked, monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [again(asked), again(asked)] == [1, 2]
