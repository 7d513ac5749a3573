"""The progress file: nothing that was passed is lost."""

import json
import multiprocessing
import os

import pytest

from course_lib.exercises.checker import progress_file


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path / "progress.json"


def _save_many(notebook: int) -> None:
    for number in range(50):
        progress_file.save(f"{notebook}-{number}", "passed")


def test_two_notebooks_at_once_lose_nothing(file) -> None:
    context = multiprocessing.get_context("fork")
    notebooks = [context.Process(target=_save_many, args=(n,)) for n in range(4)]
    for notebook in notebooks:
        notebook.start()
    for notebook in notebooks:
        notebook.join()
    assert len(progress_file.load()) == 200
    assert sorted(os.listdir(file.parent)) == ["progress.json", "progress.json.lock"]


@pytest.mark.parametrize("content", [b"not json", b"[1]", b"\xff\xfe", b"null", b"[" * 100_000, b'{"a": "passed"'])
def test_a_file_that_cannot_be_read_is_kept_aside(file, content) -> None:
    for number in (1, 2):
        file.write_bytes(content)
        with pytest.warns(UserWarning, match="cannot be read"):
            assert progress_file.load() == {}
        with pytest.warns(UserWarning, match=f"kept as progress.json.broken-{number}"):
            progress_file.save("phase_of", "failed")
        assert progress_file.load() == {"phase_of": "failed"}
        assert file.with_name(f"progress.json.broken-{number}").read_bytes() == content


def test_what_is_odd_inside_costs_nothing_else(file) -> None:
    odd = {"a": "passed", "b": 3, "c": None, "d": ["passed"], "phase_of": {"x": 1}}
    file.write_text(json.dumps(odd))
    assert progress_file.load() == {"a": "passed"}
    progress_file.save("phase_of", "passed")
    progress_file.save("phase_of", "failed")
    assert json.loads(file.read_text()) == odd | {"phase_of": "passed"}
    file.write_text("")
    assert progress_file.load() == {}


def test_only_a_file_is_written(file, monkeypatch) -> None:
    file.mkdir()
    progress_file.save("phase_of", "passed")
    assert os.listdir(file) == []
    kept = file.with_name("kept.json")
    link = file.with_name("link.json")
    link.symlink_to(kept)
    monkeypatch.setenv("COURSE_PROGRESS", str(link))
    progress_file.save("phase_of", "passed")
    assert link.is_symlink()
    assert json.loads(kept.read_text()) == {"phase_of": "passed"}


def test_a_full_disk_leaves_the_old_file(file, monkeypatch) -> None:
    progress_file.save("phase_of", "passed")
    before = file.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    progress_file.save("crossover", "passed")
    assert file.read_bytes() == before
    assert len(os.listdir(file.parent)) == 2


def test_the_code_that_passed_last_is_kept_beside_the_results(file) -> None:
    assert progress_file.code("phase_of") == ""
    progress_file.save("phase_of", "failed", "wrong")
    assert progress_file.code("phase_of") == ""
    for code in ("first", "second"):
        progress_file.save("phase_of", "passed", code)
        assert progress_file.code("phase_of") == code
    progress_file.save("phase_of", "failed", "wrong")
    assert progress_file.code("phase_of") == "second"
    assert progress_file.load() == {"phase_of": "passed"}
    file.write_text(json.dumps({"code": 3}))
    assert progress_file.code("phase_of") == ""
