"""A class on one machine: its accounts, and its notebooks when they are handed in.

class.txt has a line for each person, the name of an account; `teacher` behind a name gives the right to start and stop servers.

sudo python3 deploy/roster.py accounts class.txt passwords.txt   # makes the accounts that are missing; their passwords, once
sudo python3 deploy/roster.py collect class.txt handed-in        # everybody's lectures in handed-in/NAME, for `make grade DIR=handed-in`

What is written belongs to the account that said sudo, and nobody else reads it.
"""

import argparse
import os
import pwd
import re
import secrets
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from course_lib.files import write_atomically

LECTURES = Path(__file__).resolve().parents[1] / "notebooks"
NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
LARGEST = 20_000_000  # bytes of a notebook that is collected


def closed_folder(path: Path) -> Path | None:
    """The first folder on the way to ``path`` that other accounts cannot enter; None if they can reach it."""
    return next((p for p in [*reversed(path.parents), path] if p.is_dir() and not p.stat().st_mode & 0o001), None)


def read_class(path: Path) -> tuple[set[str], set[str]]:
    """The names of students and of teachers. Raises ValueError, with the line, for what is not the name of an account."""
    students: set[str] = set()
    teachers: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if not NAME.fullmatch(words[0]) or words[1:] not in ([], ["teacher"]):
            raise ValueError(
                f"{path} line {number} is {line!r}; write the name of an account (small letters, digits, - and _), "
                "and 'teacher' behind it for a teacher"
            )
        (teachers if words[1:] else students).add(words[0])
    if not students:
        raise ValueError(f"{path} names no student; write a name on each line")
    return students, teachers


def make_account(name: str) -> str:
    """Make an account with a home that nobody else reads; returns its password, '' if the account is there already."""
    if name in {entry.pw_name for entry in pwd.getpwall()}:
        return ""
    password = secrets.token_urlsafe(9)
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True)
    Path(pwd.getpwnam(name).pw_dir).chmod(0o700)
    subprocess.run(["chpasswd"], input=f"{name}:{password}\n", text=True, check=True)
    return password


def _give(path: Path) -> None:
    """To the account that said sudo; what root writes by itself stays root's."""
    if who := os.environ.get("SUDO_USER"):
        account = pwd.getpwnam(who)
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _closed(folder: Path) -> None:
    """Make a folder that only its owner enters. Raises ValueError for one that is there and open to others."""
    if not folder.exists():
        folder.mkdir(mode=0o700)
        _give(folder)
    elif not folder.is_dir() or folder.is_symlink() or folder.stat().st_mode & 0o077:
        raise ValueError(f"{folder} is open to others or no folder; run chmod 700 {folder}, or name a new one")


def _write(path: Path, content: str | bytes) -> None:
    write_atomically(path, content, mode=0o600)
    _give(path)


def make_accounts(names: list[str], passwords: Path) -> list[str]:
    """Make the accounts that are missing and add their passwords to a file, a line `name<tab>password` each; the names made."""
    made: list[str] = []
    lines = passwords.read_text(encoding="utf-8") if passwords.exists() else ""
    for name in names:
        if password := make_account(name):
            lines += f"{name}\t{password}\n"
            _write(passwords, lines)  # after each: a password that is lost cannot be had again
            made.append(name)
    return made


def collect(name: str, folder: Path) -> tuple[int, list[str]]:
    """Copy a student's lectures to ``folder/NAME``, read with the student's own rights; how many, and those that are too large."""
    account, copied, too_large = pwd.getpwnam(name), 0, []
    for lecture in sorted(LECTURES.glob("[0-9][0-9]_*.ipynb")):
        done = subprocess.run(
            ["timeout", "10", "head", "-c", str(LARGEST + 1), f"{account.pw_dir}/notebooks/{lecture.name}"],
            capture_output=True, check=False, user=account.pw_uid, group=account.pw_gid, extra_groups=[], cwd="/",
        )  # fmt: skip
        if done.returncode != 0:
            continue
        if len(done.stdout) > LARGEST:
            too_large.append(lecture.name)
            continue
        _closed(folder / name)
        _write(folder / name / lecture.name, done.stdout)
        copied += 1
    return copied, too_large


def main() -> int:
    parser = argparse.ArgumentParser(prog="python deploy/roster.py", description="A class's accounts and notebooks.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, written in (("accounts", "passwords.txt"), ("collect", "handed-in")):
        command = commands.add_parser(name)
        command.add_argument("roster", type=Path, metavar="class.txt")
        command.add_argument("written", type=Path, metavar=written)
    options = parser.parse_args()
    try:
        students, teachers = read_class(options.roster)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if os.geteuid() != 0:
        print("accounts belong to root: put sudo in front", file=sys.stderr)
        return 1
    if options.command == "accounts":
        made = make_accounts(sorted(students | teachers), options.written)
        print(f"{len(made)} accounts made" + (f"; their passwords are in {options.written}" if made else ""))
        return 0
    try:
        _closed(options.written)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for name in sorted(students):
        try:
            copied, too_large = collect(name, options.written)
        except KeyError:
            print(
                f"{name}\thas no account: run `sudo python3 deploy/roster.py accounts {options.roster} passwords.txt` first"
            )
            continue
        left = f"; not taken, over {LARGEST:,} bytes: {', '.join(too_large)}" if too_large else ""
        print(f"{name}\t{copied} lectures{left}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
