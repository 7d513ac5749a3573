"""Records of measurements in data/measured, each with its provenance; ``data.measured`` reads them."""

import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from course_lib import checks
from course_lib.data import DATA, check_rows
from course_lib.files import write_atomically


def _cpu() -> str:
    """The processor's own name, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def device_slug() -> str:
    """The folder name of this device's records: 'nvidia-h200', 'cpu-x86_64'; of an 'NVIDIA H100 80GB HBM3' without its memory."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu-{platform.machine()}"
    return re.sub(r"[^\w.-]+", "-", re.sub(r" \d+GB\b.*", "", name).lower())


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def provenance(command: str) -> dict[str, Any]:
    """When, on what, with which versions and by which command a record was made."""
    checks.text("command", command)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("triton", "flash-attn-4"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    if torch.cuda.is_available():
        versions["cudnn"] = str(torch.backends.cudnn.version())
    made: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command,
        "commit": os.environ.get("COURSE_COMMIT") or _output("git", "-C", str(DATA), "rev-parse", "--short", "HEAD"),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
        "cpu": f"{_cpu()}, {os.cpu_count()} cores",
        "versions": versions,
    }
    if torch.cuda.is_available():
        query = "driver_version,clocks.sm,clocks.mem,clocks.max.sm"
        told = _output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader").splitlines()
        gpus = [dict(zip(query.split(","), line.split(", "), strict=False)) for line in told]
        made["nvidia-smi"] = gpus[0] if len(gpus) == 1 else gpus
    return made


def record(name: str, rows: list[dict[str, Any]], command: str, folder: Path | None = None) -> Path:
    """Write ``rows`` with their provenance to data/measured/<device>/<name>.json and return the path.

    Raises ValueError, and leaves an older record as it is, for what ``data.measured`` would not read.
    """
    checks.text("command", command)
    if not re.fullmatch(r"\w+", checks.text("name", name)):
        raise ValueError(f"name is {name!r}; pass letters, digits and underscores only, as in 'forward_ladder'")
    try:
        check_rows(rows)
    except ValueError as error:
        raise ValueError(f"rows of {name!r} cannot be recorded: {error}") from None
    if folder is not None:
        checks.instance("folder", folder, Path, "Path('measured')")
    path = (folder or DATA / "measured") / device_slug() / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    write_atomically(path, f'{{"provenance": {json.dumps(provenance(command), indent=1)},\n"rows": [\n{lines}\n]}}\n')
    return path
