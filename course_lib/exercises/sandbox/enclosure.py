"""What students' code sees of this machine: the system's programs, this Python and its packages, a library without solutions."""

import contextlib
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

EACH = 250  # numbers of accounts for a grading
ACCOUNTS = range(61_500, 64_000, EACH)  # the first of those that are nobody's
LOCKS = Path("/run")  # which root alone writes to
LIBRARY = "/library"  # in namespaces
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/opt", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
)  # fmt: skip


class SandboxError(RuntimeError):
    """There is no way to run a student's code here, or the one there was is gone; the words say why."""


def visible(hidden: Sequence[Path]) -> list[str]:
    """What work can read of the file system: the system's programs and this Python's, without ``hidden``."""
    executable = Path(sys.executable).resolve().parents[1]
    places = [*SYSTEM, sys.base_prefix, str(executable), sys.prefix, *packages()]
    found: list[str] = []
    for place in places:
        if os.path.exists(place) and not any(Path(place).is_relative_to(other) for other in found):
            found += _without(Path(place), [path.resolve() for path in hidden])
    return found


def _without(place: Path, hidden: list[Path]) -> list[str]:
    """The place, or what it holds besides hidden folders."""
    real = place.resolve()
    if real in hidden:
        return []
    if not any(path.is_relative_to(real) for path in hidden):
        return [str(place)]
    return [path for child in sorted(real.iterdir()) for path in _without(child, hidden)]


def packages() -> list[str]:
    """Folders of packages that lie outside of this Python: a user's own."""
    own = [site.getusersitepackages(), *site.getsitepackages()]
    known = [p for p in sys.path if p in own or Path(p).name in ("site-packages", "dist-packages")]
    return [p for p in known if not Path(p).is_relative_to(sys.prefix) and not Path(p).is_relative_to(sys.base_prefix)]


def bubblewrap(sees: Sequence[str], library: str, root: bool) -> list[str]:
    """The command that starts another one where it sees these places and the library, and has no network."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError("bubblewrap (bwrap) is not installed")
    parts = [
        program, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
    ]  # fmt: skip
    parts += ["--unshare-cgroup-try", *(["--cap-add", "ALL"] if root else ["--unshare-user"])]
    parents = {parent for path in sees for parent in Path(path).parents}
    for parent in sorted(parents, key=lambda p: len(p.parts))[1:]:
        parts += ["--perms", "0755", "--dir", str(parent)]
    for path in sees:
        parts += ["--ro-bind", path, path]
    parts += [
        "--ro-bind", library, LIBRARY, "--perms", "0755", "--dir", "/scratch", "--proc", "/proc", "--dev", "/dev",
    ]  # fmt: skip
    if Path("/tmp") not in parents:  # a course that lies there keeps it; TMPDIR is /scratch
        parts += ["--symlink", "scratch", "/tmp"]
    return [*parts, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--"]


def free_account() -> tuple[int, int]:
    """The first of EACH numbers that no account, no process and no other grading has, and a descriptor: while that is open, and as long
    as this process lives, no other grading takes them. For root.
    """
    import fcntl  # Windows has neither
    import pwd

    accounts = {entry.pw_uid for entry in pwd.getpwall()}
    for first in ACCOUNTS:
        lock = os.open(LOCKS / f"course-accounts-{first}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        numbers = set(range(first, first + EACH))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not numbers & (accounts | _owners()):
                return first, lock
        except BlockingIOError:
            pass
        os.close(lock)
    raise SandboxError("all numbers of accounts are taken")


def _owners() -> set[int]:
    """The accounts that processes run under."""
    found = set()
    for process in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            found.add(os.stat(f"/proc/{process}").st_uid)
    return found


def check_open(account: int) -> None:
    """Raise SandboxError if another account cannot run this Python."""
    try:
        subprocess.run(
            [sys.executable, "-c", "import numpy"],
            cwd="/",
            user=account,
            group=account,
            extra_groups=[],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError):
        raise SandboxError(f"other accounts cannot run {sys.executable}, or not read its packages") from None


def check_closed(hidden: Sequence[Path], account: int) -> None:
    """Raise SandboxError if another account can list a hidden folder: it is all that stands between the two."""
    for folder in hidden:
        done = subprocess.run(
            ["ls", str(folder)], user=account, group=account, extra_groups=[], capture_output=True, check=False
        )
        if done.returncode == 0:
            raise SandboxError(f"every account can read {folder}, and this kernel has no Landlock: chmod 700 it")
