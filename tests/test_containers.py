"""The files that build containers: linted, without rights, and in step with the project."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from classroom import BLOCK, PAGE, told

from course_lib import data

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", ["Dockerfile", "deploy/kubernetes.Dockerfile"])
def test_hadolint_finds_nothing(name: str) -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    if not hadolint.exists():
        pytest.skip("hadolint has no package for this system")
    done = subprocess.run([hadolint, ROOT / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_is_run_in_the_container_is_run_without_rights() -> None:
    steps = re.findall(r"^(USER|RUN|CMD|COPY|FROM)\b(.*)$", DOCKERFILE, re.MULTILINE)
    user = next(i for i, (word, rest) in enumerate(steps) if word == "USER")
    assert steps[user][1].strip() == "1000"
    assert [word for word, _ in steps[user + 1 :]] == ["COPY", "RUN", "CMD"]
    targets = re.findall(r"make (\w+)", DOCKERFILE) + re.findall(r'"make", "(\w+)"', DOCKERFILE)
    assert " bubblewrap " in DOCKERFILE, "grading wants it"
    for target in {*targets} - {"for"}:
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_the_version_of_python_is_one_that_the_project_takes() -> None:
    minor = int(re.search(r"FROM python:3\.(\d+)-slim", DOCKERFILE)[1])  # type: ignore[index]
    assert 11 <= minor <= 13


def test_the_devcontainer_builds_the_same_image() -> None:
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / settings["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert f"WORKDIR {settings['workspaceFolder']}\n" in DOCKERFILE
    assert settings["postCreateCommand"] == "make work"


def test_what_no_image_needs_is_left_out() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv*", "**/node_modules", ".progress.json", "work"} <= set(ignored)
    assert (
        shutil.which("git") is None
        or not subprocess.run(
            ["git", "ls-files", "site", "build"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    )


def test_a_students_work_outlives_the_container() -> None:
    workdir = re.search(r"^WORKDIR (.*)$", DOCKERFILE, re.MULTILINE)[1]  # type: ignore[index]
    assert re.search(rf"install --directory --owner=student .*{workdir}/work\b", DOCKERFILE)  # or a volume is root's
    for text in (DOCKERFILE, (ROOT / "docs/installing.md").read_text()):
        assert f"-v flash-attention-work:{workdir}/work" in text


def test_repo2docker_builds_from_the_environment_and_installs_what_make_installs() -> None:
    from repo2docker.buildpacks import CondaBuildPack

    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert "make setup " in (ROOT / "postBuild").read_text()
    assert os.access(ROOT / "postBuild", os.X_OK)
    pack = CondaBuildPack("base")
    pack.platform = "linux/amd64"
    with contextlib.chdir(ROOT):
        assert pack.detect()
        steps = pack.render({})
    assert f"python={pack.python_version}" in environment["dependencies"]
    copied, built = steps.index("COPY --chown=1000:1000 src/ ${REPO_DIR}/"), steps.index('--file "environment.yml"')
    assert max(copied, built) < steps.index("./postBuild")
    assert re.findall(r"^USER (.*)$", steps, re.MULTILINE)[-1] == "${NB_USER}"


def test_the_clusters_files_name_what_is_there() -> None:
    values = yaml.safe_load((ROOT / "deploy/kubernetes.yaml").read_text())
    workdir = re.search(r"^WORKDIR (.*)$", DOCKERFILE, re.MULTILINE)[1]  # type: ignore[index]
    python, script = values["singleuser"]["cmd"]
    assert python == f"{workdir}/.venv/bin/python"
    assert (ROOT / Path(script).relative_to(workdir)).is_file()
    assert values["proxy"]["https"]["enabled"]
    assert "admin_users" not in (ROOT / "deploy/kubernetes.yaml").read_text()
    user = re.search(r"--uid (\d+) (\w+)", DOCKERFILE)
    assert user is not None
    assert (values["singleuser"]["uid"], values["singleuser"]["storage"]["homeMountPath"]) == (
        int(user[1]),
        f"/home/{user[2]}",
    )


def test_the_page_on_servers_tells_what_was_measured() -> None:
    found = BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == told(data.measured("cpu-x86_64", "class_of_thirty"))
