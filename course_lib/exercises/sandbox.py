"""Where a student's code is run for grading: in processes that see neither oracles nor solutions, nor each other, and that leave nothing.

Three ways, the first that works on this machine is taken: namespaces of their own (bubblewrap); as root an account of their own; limits
on what they use. The latter two give up all files but the library's and a scratch folder where Linux has Landlock.
"""

import contextlib
import json
import os
import pwd
import select
import shutil
import site
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from course_lib.exercises import bundle, isolation, landlock, values
from course_lib.exercises.progress_file import ROOT

WAYS = ("namespaces", "account", "limits")
START = 120.0  # seconds for the server to start
BEGIN = 60.0  # seconds for a piece of work to begin
ACCOUNTS = range(61_500, 64_000, 1000)  # the first of a thousand numbers that are nobody's
LIBRARY = "/library"  # in namespaces
LOST, INTERRUPTED = "the sandbox that it ran in is gone", "grading was interrupted"  # ways in which work ends
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
)
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ")


class SandboxError(RuntimeError):
    """There is no way to run a student's code here, or the one there was is gone; the words say why."""


class WorkError(Exception):
    """A piece of work ended before its answer was complete; the words say how."""


class Sandbox:
    """A place for work, as a context: ``with Sandbox(hidden=[folder]) as box: with box.work(question, 60.0) as talk: talk.message(5.0)``.

    hidden: folders besides the course's own that no work is to see. way: one of WAYS; None takes the first that works. To be entered by
    the thread that outlives the others: when that ends, so does all work. Raises SandboxError where there is no way, ValueError for a
    way that is none.
    """

    def __init__(self, hidden: Sequence[Path] = (), way: str | None = None):
        if way not in (None, *WAYS):
            raise ValueError(f"way is {way!r}; pass one of {', '.join(WAYS)}, or None")
        self.stopped = threading.Event()
        self._tried, self._hidden = (way,) if way else WAYS, [ROOT, *hidden]
        self.way, self._account = "", 0
        self._folder = Path()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._asking = threading.Lock()

    def __enter__(self) -> "Sandbox":
        self._folder = Path(tempfile.mkdtemp(prefix="course-sandbox-"))
        try:
            self._folder.chmod(0o711)
            (self._folder / "scratch").mkdir(mode=0o711)
            bundle.write_library(self._folder / "library")
            said = []
            for way in self._tried:
                try:
                    self._start(way)
                    return self
                except (SandboxError, OSError) as error:
                    said.append(f"{way}: {error}")
            raise SandboxError(f"students' code cannot be run here ({'; '.join(said)}). {REMEDY}")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def weaker(self) -> str:
        """What a teacher has to know of a way that is not the first; '' of that."""
        if self.way == "namespaces":
            return ""
        lacks = [
            "what a notebook starts is found and ended, not enclosed",
            "a notebook can fill the disk for as long as it runs",
        ]
        if self.way == "limits":
            lacks.insert(0, "it runs under your own account")
        version = landlock.version()
        if version < 1:
            lacks.insert(0, "it can read what that account can" + (", solutions too," if self.way == "limits" else ""))
        lacks.append("it has the network" if version < 4 else "it has the network but for TCP")
        if self.way == "limits" and version < 6:
            lacks.append("it can end your processes, the grader's as well")
        return f"Weaker than it could be, for want of namespaces (install bubblewrap): {'; '.join(lacks)}."

    @property
    def alive(self) -> bool:
        """Whether the server is there; ``again`` starts another."""
        return self._server is not None and self._server.poll() is None

    def again(self) -> None:
        """Start the server anew. Raises SandboxError where it does not start."""
        self._stop()
        self._start(self.way)

    @contextlib.contextmanager
    def work(self, question: dict[str, Any], seconds: float) -> Iterator["Talk"]:
        """Have a question answered; all that the work started ends with the context, ``seconds`` after its begin at the latest.

        Raises SandboxError where the server is gone.
        """
        asked, answered, told = os.pipe(), os.pipe(), os.pipe()
        mine, theirs = [asked[1], answered[0], told[0]], [asked[0], answered[1], told[1]]
        try:
            try:
                with self._asking:
                    if self._control is None:
                        raise OSError("it was not started")
                    socket.send_fds(self._control, [b"%f" % seconds], theirs)
            except OSError as error:
                raise SandboxError(f"the sandbox is gone: {error}") from None
            finally:
                for descriptor in theirs:
                    os.close(descriptor)
            with open(asked[1], "wb", closefd=False) as file, contextlib.suppress(BrokenPipeError):
                file.write(json.dumps(question).encode())
            os.close(mine.pop(0))
            yield Talk(answered[0], told[0], self)
        finally:
            for descriptor in mine:
                os.close(descriptor)

    def _start(self, way: str) -> None:
        root, sees = os.getuid() == 0, visible(self._hidden)
        if way == "account" and not root:
            raise SandboxError("only root has accounts to give")
        if way == "limits" and root:
            raise SandboxError("never as root")
        library = str(self._folder / "library")
        command = [sys.executable, "-s", "-P", "-m", "course_lib.exercises.sandbox_server"]
        self._account = _free_account() if root else 0
        lock = way != "namespaces" and landlock.version() > 0
        if way == "account":
            _check_open(self._account)
        if way == "account" and not lock:
            _check_closed(self._hidden, self._account)
        readable = [*sees, library, "/dev/urandom", "/dev/null"] if lock else []
        settings = json.dumps([way == "namespaces", self._account, readable, str(self._folder / "scratch")])
        if way == "namespaces":
            command = [*_bubblewrap(sees, library, root), *command]
            library = LIBRARY
        environment = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "TRITON_INTERPRET", "PYTHONDONTWRITEBYTECODE"), "1")
        environment |= {
            "HOME": "/",
            "USER": "student",
            "LOGNAME": "student",
            "COURSE_PROGRESS": os.devnull,
            "CUDA_VISIBLE_DEVICES": "",
        }
        environment |= {
            "PYTHONPATH": os.pathsep.join([library, *_packages()]),
            "MPLCONFIGDIR": str(self._folder / "scratch"),
        }
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, tempfile.TemporaryFile() as said:
            self._server = subprocess.Popen(
                [*command, str(theirs.fileno()), settings], env=environment, cwd="/", pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
            theirs.close()
            self._control.settimeout(START)
            try:
                if self._control.recv(100) != b"ready":
                    raise SandboxError("it does not start")
                self._control.settimeout(None)
                with self.work({"kind": "try"}, 10.0) as talk:
                    talk.message(BEGIN)
            except (OSError, SandboxError, WorkError) as error:
                self._stop()
                said.seek(0)
                words = " ".join(said.read().decode("utf-8", "replace").split())[-300:]
                raise SandboxError(words or str(error)) from None
        self.way = way

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()  # the server ends what there is, and itself
            self._control = None
        if self._server is not None:
            try:
                self._server.wait(isolation.GRACE)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None


REMEDY = (
    "Install bubblewrap; or, as root, run the course from a folder and with a Python that other accounts can read, and close "
    "solutions and collected work to them."
)


class Talk:
    """One piece of work, as it answers."""

    def __init__(self, reader: int, told: int, box: Sandbox):
        self._reader, self._told, self._box = reader, told, box
        self._buffer, self._total = bytearray(), 0

    def message(self, seconds: float) -> Any:
        """The next message, plain data. Raises WorkError where none comes in so many seconds, at the end, or for what is no message."""
        size = int.from_bytes(self._bytes(8, seconds), "little")
        if size > isolation.LONGEST:
            raise WorkError("its answer cannot be read")
        data = self._bytes(size, seconds)
        try:
            return values.decode(json.loads(data))
        except (ValueError, RecursionError):
            raise WorkError("its answer cannot be read") from None

    def messages(self, count: int, seconds: float) -> isolation.Sent:
        """So many messages, or those that come in so many seconds."""
        end = time.monotonic() + seconds
        found: list[Any] = []
        try:
            while len(found) < count:
                found.append(self.message(end - time.monotonic()))
        except WorkError as error:
            ended = f"it took more than {seconds:g} seconds" if str(error).startswith("it took") else str(error)
            return isolation.Sent(tuple(found), ended)
        return isolation.Sent(tuple(found))

    def rest(self, seconds: float) -> bytes:
        """All that comes until the end, which is not read as messages. Raises WorkError where there is no end in so many seconds."""
        end = time.monotonic() + seconds
        while self._more(end - time.monotonic()):
            pass
        return bytes(self._buffer)

    def _bytes(self, count: int, seconds: float) -> bytes:
        end = time.monotonic() + seconds
        while len(self._buffer) < count:
            if not self._more(end - time.monotonic()):
                self._gone()
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    def _more(self, seconds: float) -> bool:
        """Wait for more; False at the end."""
        end = time.monotonic() + seconds
        while not select.select([self._reader], [], [], max(0.0, min(0.25, end - time.monotonic())))[0]:
            if self._box.stopped.is_set():
                raise WorkError(INTERRUPTED)
            if time.monotonic() >= end:
                raise WorkError(f"it took more than {seconds:g} seconds")
        chunk = os.read(self._reader, 1 << 20)
        self._total += len(chunk)
        if self._total > isolation.MOST:
            raise WorkError("its answer is too long")
        self._buffer += chunk
        return bool(chunk)

    def _gone(self) -> NoReturn:
        code = os.read(self._told, 20) if select.select([self._told], [], [], isolation.GRACE)[0] else b""
        if not code:
            raise WorkError(LOST)
        raise WorkError(isolation.how(int(code)) or "its answer broke off")


def visible(hidden: Sequence[Path]) -> list[str]:
    """What work can read of the file system: the system's programs and this Python's, without ``hidden``."""
    executable = Path(sys.executable).resolve().parents[1]
    places = [*SYSTEM, sys.base_prefix, str(executable), sys.prefix, *_packages()]
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


def _packages() -> list[str]:
    """Folders of packages that lie outside of this Python: a user's own."""
    own = [site.getusersitepackages(), *site.getsitepackages()]
    known = [p for p in sys.path if p in own or Path(p).name in ("site-packages", "dist-packages")]
    return [p for p in known if not Path(p).is_relative_to(sys.prefix) and not Path(p).is_relative_to(sys.base_prefix)]


def _bubblewrap(sees: Sequence[str], library: str, root: bool) -> list[str]:
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError("bubblewrap (bwrap) is not installed")
    parts = [
        program,
        "--die-with-parent",
        "--new-session",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
    ]
    parts += ["--unshare-cgroup-try", *(["--cap-add", "ALL"] if root else ["--unshare-user"])]
    parents = {parent for path in sees for parent in Path(path).parents}
    for parent in sorted(parents, key=lambda p: len(p.parts))[1:]:
        parts += ["--perms", "0755", "--dir", str(parent)]
    for path in sees:
        parts += ["--ro-bind", path, path]
    parts += [
        "--ro-bind",
        library,
        LIBRARY,
        "--perms",
        "0755",
        "--dir",
        "/scratch",
        "--symlink",
        "scratch",
        "/tmp",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    return [*parts, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--"]


def _free_account() -> int:
    """The first of a thousand numbers that no account and no process has."""
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    for process in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            taken.add(os.stat(f"/proc/{process}").st_uid)
    for first in ACCOUNTS:
        if not taken & set(range(first, first + 1001)):
            return first
    raise SandboxError("all numbers of accounts are taken")


def _check_open(account: int) -> None:
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


def _check_closed(hidden: Sequence[Path], account: int) -> None:
    """Raise SandboxError if another account can list a hidden folder: it is all that stands between the two."""
    for folder in hidden:
        done = subprocess.run(
            ["ls", str(folder)], user=account, group=account, extra_groups=[], capture_output=True, check=False
        )
        if done.returncode == 0:
            raise SandboxError(f"every account can read {folder}, and this kernel has no Landlock: chmod 700 it")
