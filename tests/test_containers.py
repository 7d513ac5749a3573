"""The files that build containers: linted, without rights, and in step with the project."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    if not hadolint.exists():
        pytest.skip("hadolint has no package for this system")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_is_run_in_the_container_is_run_without_rights() -> None:
    steps = re.findall(r"^(USER|RUN|CMD|COPY|FROM)\b(.*)$", DOCKERFILE, re.MULTILINE)
    user = next(i for i, (word, rest) in enumerate(steps) if word == "USER")
    assert steps[user][1].strip() == "1000"
    assert [word for word, _ in steps[user + 1 :]] == ["COPY", "RUN", "CMD"]
    targets = re.findall(r"make (\w+)", DOCKERFILE) + re.findall(r'"make", "(\w+)"', DOCKERFILE)
    for target in {*targets} - {"for"}:
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_the_version_of_python_is_one_that_the_project_takes() -> None:
    minor = int(re.search(r"FROM python:3\.(\d+)-slim", DOCKERFILE)[1])  # type: ignore[index]
    assert 11 <= minor <= 13


def test_the_devcontainer_builds_the_same_image() -> None:
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / settings["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert f"WORKDIR {settings['workspaceFolder']}\n" in DOCKERFILE
    assert settings["postCreateCommand"] == "make setup"


def test_what_no_image_needs_is_left_out() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv*", "**/node_modules", ".progress.json"} <= set(ignored)
    assert (
        shutil.which("git") is None
        or not subprocess.run(
            ["git", "ls-files", "site", "build"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    )
