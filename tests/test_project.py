"""What holds the project together: one list of versions, a lock inside it, help for each target, nothing private."""

import importlib
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from importlinter.cli import lint_imports
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from course_lib.publish import module_map, notebooks

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = dict(line.split("==") for line in (ROOT / "requirements.lock").read_text().splitlines())


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_lock_pins_each_dependency_within_its_range() -> None:
    locked = {canonicalize_name(name): version for name, version in LOCK.items()}
    listed = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    for requirement in map(Requirement, listed):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


def test_environment_yml_holds_python_pip_and_the_project_only() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["name"] in (ROOT / "Makefile").read_text()
    python, pip, rest = environment["dependencies"]
    assert pip == "pip"
    assert Requirement("python" + PROJECT["requires-python"]).specifier.contains(python.removeprefix("python=") + ".0")
    assert rest == {"pip": ["-e .[dev]", "-c requirements.lock"]}


def test_every_make_target_is_in_the_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: (\S+)", makefile, flags=re.M))
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert phony == set(re.findall(r"^  make (\S+)  +\S", shown, flags=re.M))
    assert {
        "lab",
        "test",
        "test-all",
        "setup",
        "lint",
        "notebooks",
        "test-gpu",
        "test-latest",
        "clean",
        "help",
    } <= phony


def test_no_file_holds_a_machine_path_or_a_large_binary() -> None:
    private = re.compile(
        "|".join([re.escape(str(ROOT)), re.escape(str(Path.home())) + "/", r"/home/\w+/", r"/tmp/ipykernel_\d"])
    )
    for path in tracked():
        assert path.stat().st_size < 1_000_000, path
        if path.suffix not in {".png"} and path.parent.name != "tests":
            found = private.search(path.read_text(encoding="utf-8"))
            assert not found, f"{path.name} holds {found.group(0) if found else ''}"


def test_the_readme_names_each_lecture_and_the_map_shows_it() -> None:
    readme, picture = (ROOT / "README.md").read_text(), (ROOT / "notebooks" / "course_map.svg").read_text()
    for path in notebooks.lectures():
        about = notebooks.about(path)
        row = f"| [{about['number']}](notebooks/{path.name}) | {about['title']} | {about['minutes']} |"
        assert row in readme, f"README.md, The lectures: add the row {row} … |, with the lecture's question"
        assert about["title"] in picture, f"{about['title']}: run `make picture`"


def test_imports_run_downwards_only_and_the_picture_shows_each_room(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True, no_logo=True) == 0, (
        "an import runs upwards, or a new room has no floor in pyproject.toml"
    )
    rooms = [name for names in module_map.floors() for name in names]
    assert len(rooms) <= 20
    picture = module_map.PATH.read_text(encoding="utf-8")
    assert all(f">{name}<" in picture for name in rooms), "run `make picture`"


def test_a_name_that_has_moved_is_told() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"course_lib\.instruments\.measure"):
        importlib.import_module("course_lib.measure")
    with pytest.raises(ModuleNotFoundError, match=r"course_lib\.model\.cost"):
        exec("from course_lib import cost")
