"""Where a student's code is run for grading: in processes that see neither oracles nor solutions, nor each other, and that leave nothing.

Three ways, the first that works on this machine is taken: namespaces of their own (bubblewrap); as root an account of their own; limits
on what they use. The latter two give up all files but the library's and a scratch folder where Linux has Landlock.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from course_lib.exercises.processes import isolation, landlock
from course_lib.exercises.sandbox.enclosure import (
    LIBRARY,
    SandboxError,
    bubblewrap,
    check_closed,
    check_open,
    free_account,
    packages,
    visible,
)
from course_lib.exercises.sandbox.library import write_library
from course_lib.exercises.sandbox.talk import Talk, WorkError
from course_lib.files import ROOT

WAYS = ("namespaces", "account", "limits")
START = 120.0  # seconds for the server to start
BEGIN = 60.0  # seconds for a piece of work to begin
REMEDY = (
    "Install bubblewrap; or, as root, run the course from a folder and with a Python that other accounts can read, and close "
    "solutions and collected work to them."
)
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ")


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
        self.way = ""
        self._account, self._taken = 0, -1  # the latter keeps the former
        self._folder = Path()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._asking = threading.Lock()
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}  # Linux has it
        self._busy = dict.fromkeys(sorted(cores), 0)  # pieces of work on each core

    def __enter__(self) -> "Sandbox":
        self._folder = Path(tempfile.mkdtemp(prefix="course-sandbox-"))
        try:
            self._folder.chmod(0o711)
            (self._folder / "scratch").mkdir(mode=0o711)
            write_library(self._folder / "library")
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
        self._give_back()
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
        """Whether the server is there; ``again`` starts another. One that is killed lets go of its pipes a moment before it is gone."""
        try:
            return self._server is not None and self._server.wait(0.5) is None
        except subprocess.TimeoutExpired:
            return True

    def again(self) -> None:
        """Start the server anew. Raises SandboxError where it does not start."""
        self._stop()
        self._start(self.way)

    @contextlib.contextmanager
    def work(self, question: dict[str, Any], seconds: float) -> Iterator[Talk]:
        """Have a question answered; all that the work started ends with the context, ``seconds`` after its begin at the latest.

        Raises SandboxError where the server is gone.
        """
        asked, answered, told = os.pipe(), os.pipe(), os.pipe()
        mine, theirs = [asked[1], answered[0], told[0]], [asked[0], answered[1], told[1]]
        with self._asking:
            core = min(self._busy, key=lambda one: self._busy[one])
            self._busy[core] += 1
        try:
            try:
                with self._asking:
                    if self._control is None:
                        raise OSError("it was not started")
                    socket.send_fds(self._control, [b"%f %d" % (seconds, core)], theirs)
            except OSError as error:
                raise SandboxError(f"the sandbox is gone: {error}") from None
            finally:
                for descriptor in theirs:
                    os.close(descriptor)
            with open(asked[1], "wb", closefd=False) as file, contextlib.suppress(BrokenPipeError):
                file.write(json.dumps(question).encode())
            os.close(mine.pop(0))
            yield Talk(answered[0], told[0], self.stopped)
        finally:
            with self._asking:
                self._busy[core] -= 1
            for descriptor in mine:
                os.close(descriptor)

    def _start(self, way: str) -> None:
        root, sees = os.getuid() == 0, visible(self._hidden)
        if way == "account" and not root:
            raise SandboxError("only root has accounts to give")
        if way == "limits" and root:
            raise SandboxError("never as root")
        library = str(self._folder / "library")
        command = [sys.executable, "-s", "-P", "-m", "course_lib.exercises.sandbox.server"]
        self._give_back()
        if root:
            self._account, self._taken = free_account()
        lock = way != "namespaces" and landlock.version() > 0
        if way == "account":
            check_open(self._account)
        if way == "account" and not lock:
            check_closed(self._hidden, self._account)
        readable = [*sees, library, "/dev/urandom", "/dev/null"] if lock else []
        settings = json.dumps([way == "namespaces", self._account, readable, str(self._folder / "scratch")])
        if way == "namespaces":
            command = [*bubblewrap(sees, library, root), *command]
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
            "PYTHONPATH": os.pathsep.join([library, *packages()]),
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

    def _give_back(self) -> None:
        if self._taken >= 0:
            os.close(self._taken)
        self._account, self._taken = 0, -1

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
