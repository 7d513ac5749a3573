"""Runs a command where accounts can be made that the machine never sees: python tests/site/private_accounts.py COMMAND …

In a mount namespace of its own /etc, /home and /var/mail are copies in memory. Python and the course are made reachable
for all accounts, wherever they lie. Needs root; nothing is left when the command ends.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSIDE = "COURSE_PRIVATE_ACCOUNTS"


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def _hide_accounts(memory: Path) -> None:
    for name in ("etc", "home", "mail"):
        (memory / name).mkdir(mode=0o755)
    subprocess.run(["cp", "-a", "/etc/.", memory / "etc"], check=True)
    _mount("--bind", memory / "etc", "/etc")
    _mount("--bind", memory / "home", "/home")
    _mount("--bind", memory / "mail", "/var/mail")


def _open(folder: Path, memory: Path) -> None:
    """Make ``folder`` reachable for all: a closed folder above it is covered by one that holds nothing else."""
    sys.path.insert(0, str(ROOT / "deploy"))
    from roster import closed_folder

    while (closed := closed_folder(folder)) is not None:
        kept = Path(tempfile.mkdtemp(dir=memory))
        _mount("--bind", folder, kept)
        _mount("-t", "tmpfs", "-o", "mode=755", "open", closed)
        folder.mkdir(parents=True, exist_ok=True)
        _mount("--bind", kept, folder)


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("this makes accounts, in a mount namespace of its own: run it as root")
    if os.environ.get(INSIDE) != "1":
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        os.execvpe(command[0], command, os.environ | {INSIDE: "1"})
    memory = Path(tempfile.mkdtemp(prefix="accounts-"))
    _mount("-t", "tmpfs", "-o", "mode=755", "accounts", memory)
    _hide_accounts(memory)
    for folder in (Path(sys.base_prefix), ROOT):
        _open(folder, memory)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
