"""Jupyter kernels without the seconds of their start: a server forks each. It has imported PyTorch and IPython, and nothing of the course.

``python warm_kernel.py SOCKET -f FILE`` stands for a kernel, as whoever started it sees it: it ends when the kernel ends, hands on Ctrl+C,
and the kernel ends when it is killed. The first one starts the server, which ends with the process COURSE_WARM_OWNER. Where there is none,
it becomes an ordinary kernel.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

OWNER = "COURSE_WARM_OWNER"
IMPORTED = (
    "numpy",
    "torch",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
)
START = 60.0  # seconds for the server to start
Kernels = dict[int, socket.socket]  # who waits for them, by their processes


def spec(folder: Path) -> Path:
    """A folder for JUPYTER_PATH, in which python3 is a kernel as above."""
    from ipykernel.kernelspec import get_kernel_dict

    command = [sys.executable, "-P", __file__, str(folder / "socket"), "-f", "{connection_file}"]
    place = folder / "kernels" / "python3"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(get_kernel_dict() | {"argv": command}), encoding="utf-8")
    return folder


# --- what stands for a kernel ---


def stand(path: str, arguments: list[str]) -> None:
    try:
        server = connected(path)
    except OSError:
        os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", *arguments])
    question = json.dumps([os.getcwd(), dict(os.environ), arguments]).encode()
    socket.send_fds(server, [len(question).to_bytes(8, "little")], [0, 1, 2])
    server.sendall(question)
    kernel = int.from_bytes(server.recv(8), "little")
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, lambda number, _: os.kill(kernel, number))
    code = server.recv(1)
    sys.exit(code[0] if code else 1)


def connected(path: str) -> socket.socket:
    """A connection to the server, which the first one who asks starts. Raises OSError where it does not start."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(f"{path}.asked", os.O_CREAT | os.O_EXCL))
        subprocess.Popen(
            [sys.executable, "-P", __file__, path], stdin=subprocess.DEVNULL, cwd="/", start_new_session=True
        )
    end = time.monotonic() + START
    while True:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(path)
            return server
        except OSError as error:
            server.close()
            if isinstance(error, ConnectionRefusedError):  # it is gone, or listens in a moment
                end = min(end, time.monotonic() + 2)
            if time.monotonic() > end or not os.path.exists(f"{path}.asked"):
                raise
            time.sleep(0.05)


# --- the server ---


def serve(path: str) -> None:
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as kernels set it
    for name in IMPORTED:
        __import__(name)
    gc.freeze()  # no kernel has to look through what is there before it
    kernels: Kernels = {}
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(20)
        while is_there(int(os.environ[OWNER])):
            for ready in select.select([door, *kernels.values()], [], [], 0.1)[0]:
                if ready is door:
                    _start(door, kernels)
                else:  # who stood for it is gone
                    os.kill(next(pid for pid, wire in kernels.items() if wire is ready), signal.SIGKILL)
            _reap(kernels)
    for pid in kernels:
        os.kill(pid, signal.SIGKILL)


def is_there(process: int) -> bool:
    """Whether a process runs; one of another account is none that was started here."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _start(door: socket.socket, kernels: Kernels) -> None:
    wire, _ = door.accept()
    head, descriptors, *_ = socket.recv_fds(wire, 8, 3)
    question = b""
    while (more := wire.recv(1 << 20)) and len(question) + len(more) < int.from_bytes(head, "little"):
        question += more
    question += more
    pid = os.fork() if more else -1
    if pid == 0:
        for held in (door, wire, *kernels.values()):
            held.close()
        _become(descriptors, *json.loads(question))
    for descriptor in descriptors:
        os.close(descriptor)
    if pid < 0:  # whoever asked is gone
        wire.close()
        return
    kernels[pid] = wire
    with contextlib.suppress(OSError):
        wire.sendall(pid.to_bytes(8, "little"))


def _reap(kernels: Kernels) -> None:
    for pid in list(kernels):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with kernels.pop(pid) as wire, contextlib.suppress(OSError):
                wire.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))


def _become(descriptors: list[int], folder: str, environment: dict[str, str], arguments: list[str]) -> NoReturn:
    """The kernel."""
    from ipykernel import kernelapp

    try:
        os.setsid()
        for place, descriptor in enumerate(descriptors):
            os.dup2(descriptor, place)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = ["ipykernel_launcher", *arguments]
        kernelapp.launch_new_instance()
    finally:
        os._exit(0)


if __name__ == "__main__":
    stand(sys.argv[1], sys.argv[2:]) if sys.argv[2:] else serve(sys.argv[1])
