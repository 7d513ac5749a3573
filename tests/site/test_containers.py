"""The files that build containers: without rights, and in step with the project."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from classroom import BLOCK, PAGE, told

from course_lib import data
from course_lib.files import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
WORKDIR = re.search(r"^WORKDIR (.*)$", DOCKERFILE, re.MULTILINE)[1]  # type: ignore[index]


def test_what_is_run_in_the_container_is_run_without_rights_by_commands_that_are_there() -> None:
    steps = re.findall(r"^(USER|RUN|CMD|COPY|FROM)\b(.*)$", DOCKERFILE, re.MULTILINE)
    user = next(i for i, (word, rest) in enumerate(steps) if word == "USER")
    assert steps[user][1].strip() == "1000"
    assert [word for word, _ in steps[user + 1 :]] == ["COPY", "RUN", "CMD"]
    assert " bubblewrap " in DOCKERFILE, "grading wants it"
    commands = DOCKERFILE + (ROOT / ".devcontainer/devcontainer.json").read_text() + (ROOT / "postBuild").read_text()
    targets = re.findall(r"\bmake (\w+)(?= \w+=)", commands) + re.findall(r'"make", "(\w+)"', commands)
    assert len(targets) >= 3
    for target in targets:
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_a_students_work_outlives_the_container() -> None:
    assert re.search(rf"install --directory --owner=student .*{WORKDIR}/work\b", DOCKERFILE)  # or a volume is root's
    for text in (DOCKERFILE, (ROOT / "docs/installing.md").read_text()):
        assert f"-v flash-attention-work:{WORKDIR}/work" in text


def test_repo2docker_builds_from_the_environment_and_installs_what_make_installs() -> None:
    from repo2docker.buildpacks import CondaBuildPack

    pack = CondaBuildPack("base")
    pack.platform = "linux/amd64"
    with contextlib.chdir(ROOT):
        assert pack.detect()
        steps = pack.render({})
    assert f"python={pack.python_version}" in yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    copied, built = steps.index("COPY --chown=1000:1000 src/ ${REPO_DIR}/"), steps.index('--file "environment.yml"')
    assert max(copied, built) < steps.index("./postBuild")


def test_the_clusters_files_name_what_is_there() -> None:
    values = yaml.safe_load((ROOT / "deploy/kubernetes.yaml").read_text())
    python, script = values["singleuser"]["cmd"]
    assert python == f"{WORKDIR}/.venv/bin/python"
    assert (ROOT / Path(script).relative_to(WORKDIR)).is_file()
    assert values["proxy"]["https"]["enabled"]
    uid, name = re.search(r"--uid (\d+) (\w+)", DOCKERFILE).groups()  # type: ignore[union-attr]
    user = values["singleuser"]
    assert (user["uid"], user["storage"]["homeMountPath"]) == (int(uid), f"/home/{name}")


def test_the_page_on_servers_tells_what_was_measured() -> None:
    found = BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == told(data.measured("cpu-x86_64", "class_of_thirty"))
