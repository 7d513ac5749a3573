"""What holds the project together: one list of versions, locks inside it, nothing private, links that lead somewhere."""

import itertools
import lzma
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from course_lib.files import ROOT
from course_lib.publish import notebooks

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = {path.name: path.read_text() for path in [ROOT / "requirements.lock", *(ROOT / "deploy").glob("*.lock")]}
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)", "\n".join(LOCKS.values()), re.MULTILINE))


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_locks_pin_each_dependency_within_its_range_with_hashes() -> None:
    locked = {canonicalize_name(name): version for name, version in PINS.items()}
    for requirement in map(
        Requirement, itertools.chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    ):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement
    for name, text in LOCKS.items():
        for package in re.split(r"\n(?=\w)", text.strip()):
            assert "--hash=sha256:" in package, f"{name}: {package}"
    for path in ROOT.glob("**/package-lock.json"):
        if "node_modules" not in path.parts:
            assert path.read_text().count('"integrity": "sha512-') == path.read_text().count('"version":'), path


def test_what_others_wrote_is_named_by_its_content() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: (\S+)", path.read_text())
        assert used
        assert all(re.fullmatch(r"[\w/.-]+@[0-9a-f]{40}", action) for action in used), used
        workflow = yaml.safe_load(path.read_text())
        for name, job in workflow["jobs"].items():
            writes = "write" in {**workflow.get("permissions", {}), **job.get("permissions", {})}.values()
            assert not writes or not any("uses" in step for step in job["steps"]), (
                f"{name} runs code of others with a right to write"
            )
    assert re.search(r"^FROM python:\S+@sha256:[0-9a-f]{64}$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_no_file_holds_a_machine_path_or_a_large_binary() -> None:
    private = re.compile(
        "|".join([re.escape(str(ROOT)), re.escape(str(Path.home())) + "/", r"/home/\w+/", r"/tmp/ipykernel_\d"])
    )
    for path in tracked():
        assert path.stat().st_size < 1_000_000, path
        if path.suffix not in {".png", ".gif"} and "tests" not in path.relative_to(ROOT).parts:
            content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
            found = private.search(content.decode("utf-8"))
            assert not found, f"{path.name} holds {found.group(0) if found else ''}"


def test_the_readme_names_each_lecture_and_links_and_commands_in_documents_lead_somewhere() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in notebooks.lectures():
        about = notebooks.about(path)
        row = (
            f"| [{about['number']}](notebooks/{path.name}) | {about['title']} | {about['minutes']} · {about['study']} |"
        )
        assert row in readme, f"README.md, The lectures: add the row {row} … |, with the lecture's question"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "deploy" / "README.md"):
        text = path.read_text(encoding="utf-8")
        links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
        assert [link for link in links if not (path.parent / link).exists()] == [], path
        told = set(re.findall(r"`make ([a-z-]+)", text) + re.findall(r"^make ([a-z-]+)", text, re.MULTILINE))
        assert told <= targets, path


@pytest.mark.weekly  # exercises/test_handout.py builds one each time
def test_a_wheel_brings_the_tables_and_the_plays(tmp_path) -> None:
    source, wheels, home = (tmp_path / name for name in ("source", "wheels", "home"))
    bytecode = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("course_lib", "data"):
        shutil.copytree(ROOT / name, source / name, ignore=bytecode)
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, source)
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *offline, "-w", wheels, source], check=True)
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(home)
    code = "from course_lib import data, gpt; print(data.__file__, data.gpu('A100-40').sms, len(gpt.load_text().train) > 1e5)"
    environment = os.environ | {"PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [str(home / "course_lib" / "data.py"), "108", "True"]
