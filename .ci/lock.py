"""Resolves pyproject.toml for all systems at once and writes the locks, with hashes: `make lock`.

requirements.lock               what the course and its tests need
deploy/requirements-torch.lock  torch itself, of which each index has a build of its own
deploy/requirements-cuda.lock   what PyPI's torch needs besides on Linux; a torch of another index brings its own
deploy/requirements-node.lock   npm, where Node.js is not installed
deploy/requirements-hub.lock    what a hub needs besides
deploy/requirements-peers.lock  what `make bench` measures besides, where it is there
deploy/requirements-models.lock what tests/kernels/test_models.py needs besides
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = "3.11.0"  # the oldest
Packages = dict[str, str]  # name -> its lines


def resolve(extras: list[str], pins: list[Path], upgrade: bool) -> Packages:
    """The packages of these extras, each pinned, with the hashes of all its files on PyPI."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--universal", "--generate-hashes"]
    command += ["--python-version", PYTHON, "--no-annotate", "--no-header", "--quiet", "--emit-build-options"]
    command += [word for extra in extras for word in ("--extra", extra)]
    command += [] if upgrade else [word for path in pins for word in ("--constraint", str(path))]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    packages: Packages = {}
    for lines in re.split(r"\n(?=\w)", done.stdout.strip()):
        name = re.match(r"[\w.-]+", lines)[0]  # type: ignore[index]
        if name in packages:
            sys.exit(f"no version of {name} serves Python {PYTHON} and all later ones; bound it in pyproject.toml")
        packages[name] = lines
    return packages


def with_the_build_at_hand(lines: str) -> str:
    """torch's lines, with the hash of the build that this machine's own index gives: +cpu, say, which PyPI does not have."""
    with tempfile.TemporaryDirectory() as folder:
        name = lines.partition(" ")[0]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, name]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).iterdir()
        found = f"--hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
    return lines if found in lines else f"{lines} \\\n    {found}"


def write(name: str, packages: Packages) -> None:
    (ROOT / name).write_text("\n".join(packages.values()) + "\n", encoding="utf-8")
    print(f"{name}: {len(packages)} packages")


def main() -> None:
    upgrade = bool(os.environ.get("UPGRADE"))
    pins = [ROOT / "requirements.lock", *(ROOT / "deploy" / f"requirements-{name}.lock" for name in ("torch", "cuda"))]
    packages = resolve(["dev"], pins, upgrade)
    extras = {"node": "web", "hub": "hub", "peers": "peers", "models": "models"}
    others = {name: resolve(["dev", extra], pins, upgrade) for name, extra in extras.items()}
    torch = {"torch": with_the_build_at_hand(packages["torch"])}
    cuda = {name: lines for name, lines in packages.items() if name.startswith(("nvidia-", "cuda-"))}
    write("requirements.lock", {name: lines for name, lines in packages.items() if name not in cuda | torch})
    write("deploy/requirements-torch.lock", torch)
    write("deploy/requirements-cuda.lock", cuda)
    for name, more in others.items():
        write(f"deploy/requirements-{name}.lock", {key: lines for key, lines in more.items() if key not in packages})


if __name__ == "__main__":
    main()
