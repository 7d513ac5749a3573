"""The tests' kernels are forked: one knows nothing of the course before its page imports it, is interrupted, and ends with its owner."""

import os
import signal
import time

import pytest
import warm_kernel
from jupyter_client.manager import start_new_kernel

KNOWN = "import os, sys; print(sorted({'torch', 'triton', 'course_lib'} & set(sys.modules)), os.getpid(), os.getcwd())"


@pytest.fixture
def kernel(tmp_path):
    manager, client = start_new_kernel(cwd=str(tmp_path))
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def said(client, code: str) -> str:
    texts: list[str] = []
    hook = lambda message: texts.append(str(message["content"].get("text", message["content"].get("ename", ""))))  # noqa: E731
    client.execute_interactive(code, timeout=60, output_hook=hook)
    return "".join(texts).strip()


def until(what) -> bool:
    end = time.monotonic() + 30
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(what())


@pytest.mark.skipif(warm_kernel.OWNER not in os.environ, reason="each week kernels are started as for readers")
def test_it_is_warm_and_knows_nothing_of_the_course(kernel, tmp_path) -> None:
    manager, client = kernel
    known, pid, folder = said(client, KNOWN).rsplit(" ", 2)
    assert (known, folder) == ("['torch']", str(tmp_path))
    client.execute("open('begun', 'w').close()\nwhile True: pass", stop_on_error=False)
    assert until((tmp_path / "begun").exists)
    manager.interrupt_kernel()
    assert said(client, "1 / 0").endswith("ZeroDivisionError")
    os.kill(manager.provisioner.process.pid, signal.SIGKILL)
    assert until(lambda: not warm_kernel.is_there(int(pid)))
