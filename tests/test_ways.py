"""The attacks in the ways that root's own Python hides: other accounts cannot reach it, and limits alone are never root's. Weekly.

In a mount namespace of their own Python and the course lie open to all accounts, as ``private_accounts.py`` has them for the hub.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacking import possible

TESTS = Path(__file__).parent
NOBODY = 64_001  # a number that no account and no grading has
pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root opens its folders to others"),
    pytest.mark.skipif(not (shutil.which("unshare") and shutil.which("setpriv")), reason="util-linux has both"),
    pytest.mark.xdist_group("attacks"),
]


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="course-ways-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("way", ["account", "limits"])
def test_the_attacks_get_no_further_without_namespaces(way, home) -> None:
    if not possible(way):
        pytest.skip("test_attacks.py takes this way itself")
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if way == "limits" else []
    tests = [str(TESTS / name) for name in ("test_attacks.py", "test_grading_ends.py")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={home / 'class'}",
        "-k",
        way,
        *tests,
    ]
    done = subprocess.run(
        [sys.executable, str(TESTS / "private_accounts.py"), *become, *command], capture_output=True, text=True, check=False,
        cwd=TESTS.parent, env=os.environ | {"HOME": str(home), "COURSE_PROGRESS": str(home / "progress.json")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
