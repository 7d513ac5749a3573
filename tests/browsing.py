"""A real Chromium, and JupyterLab in it: the fixtures of the browser tests."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib.publish import present, slides
from course_lib.widgets.clickable import Clickable, styles

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--disable-gpu-compositing", "--disable-software-rasterizer"]
PROJECTOR: dict[str, Any] = {"offline": True, "viewport": {"width": slides.WIDTH, "height": slides.HEIGHT}}
# The book's theme says on the console what it does, and Chromium that a busy machine is slow to answer.
OF_NO_FAULT = ("[PST]: ", "Slow network is detected")

_open: list[Any] = []  # the engine and its Chromium, while one browser test follows another


@pytest.fixture(scope="module")
def browser() -> Any:
    """Chromium. conftest ends it behind the last browser test: while Playwright runs, no notebook can be executed in its thread."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        message = "no Chromium found: install Debian's package `chromium`"
        if os.environ.get("COURSE_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    if not _open:
        _open.append(playwright.sync_playwright().start())
        _open.append(_open[0].chromium.launch(executable_path=CHROMIUM, args=FLAGS))
    return _open[1]


def close_browser() -> None:
    """End Chromium and Playwright, if they run."""
    while _open:
        last = _open.pop()
        last.stop() if hasattr(last, "stop") else last.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(
    command: list[str], address: str, log: Path, seconds: float = 60, **settings: Any
) -> Iterator[subprocess.Popen]:
    """Start a server, wait until ``address`` answers with success, and stop it at the end; its words go to ``log``."""
    with log.open("w") as written:
        server = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT, **settings)
    try:
        end = time.monotonic() + seconds
        while True:
            assert server.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(address, timeout=seconds).close()
                break
            except OSError:
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.25)
        yield server
    finally:
        server.terminate()
        server.wait(timeout=60)


@contextlib.contextmanager
def jupyterlab(
    browser, folder: Path, shown: str, settings: dict[str, str], wide: int = 1280, tall: int = 900
) -> Iterator:
    """A page of ``browser`` with JupyterLab over ``folder``; ``shown`` is lab/tree/ or doc/tree/ and the path of a notebook."""
    port, token = free_port(), secrets.token_hex(16)
    address, path = f"http://127.0.0.1:{port}", shown.split("tree/")[1]
    flags = ["--no-browser", f"--port={port}", f"--IdentityProvider.token={token}", "--expose-app-in-browser"]
    environment = os.environ | {"JUPYTERLAB_WORKSPACES_DIR": str(folder / ".workspaces")}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(folder / ".settings")} | settings
    command = present.command(folder, path, *flags)
    with served(command, f"{address}/api/kernelspecs?token={token}", folder / "log", env=environment):
        page = browser.new_page(viewport={"width": wide, "height": tall})
        page.set_default_timeout(60_000)
        page.goto(f"{address}/{shown}?token={token}")
        page.wait_for_function(SHOWN, arg=path)
        yield page
        page.close()


OPEN = ".jp-NotebookPanel:not(.lm-mod-hidden)"  # the lecture on the screen; those shown before it stay open behind it
SHOWN = "path => window.jupyterapp?.shell.currentWidget?.context?.path === path"


def open_lecture(page, path: str) -> None:
    """Open one more document in JupyterLab, and wait until it is shown."""
    page.evaluate("async path => { await window.jupyterapp.commands.execute('docmanager:open', {path}); }", path)
    page.wait_for_function(SHOWN, arg=path)


def wait_for_kernel(page, status: str, milliseconds: float = 180_000) -> None:
    """Wait until the lecture on the screen has a kernel, and that is 'idle' or 'busy'."""
    page.wait_for_selector(f"{OPEN} .jp-KernelName:has-text('Python 3')", state="attached")
    found = f'{OPEN} .jp-Notebook-ExecutionIndicator[data-status="{status}"]'
    page.wait_for_selector(found, state="attached", timeout=milliseconds)


def run_all_cells(page) -> None:
    """Run the lecture on the screen, and wait for its end."""
    from playwright.sync_api import TimeoutError

    wait_for_kernel(page, "idle")
    for _ in range(8):  # a run that is asked for while the kernel still connects can be lost: ask again
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        try:
            wait_for_kernel(page, "busy", 5_000)
            break
        except TimeoutError:
            continue
    wait_for_kernel(page, "idle")


def errors_shown(page) -> int:
    return page.locator(f'{OPEN} [data-mime-type="application/vnd.jupyter.error"]').count()


def offline_page(context, complaints: list[str]) -> Any:
    """A new page, whose errors, words on the console and requests are noted."""
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("console", lambda m: m.text.startswith(OF_NO_FAULT) or complaints.append(f"console: {m.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    return page


@pytest.fixture
def open_file(browser) -> Iterator[Callable]:
    """Open a page from a file on a projector with the network cut; console errors and requests fail the test."""
    context = browser.new_context(**PROJECTOR)
    complaints: list[str] = []

    def opened(path: Path, text: str | None = None):
        if text is not None:
            path.write_text(text, encoding="utf-8")
        page = offline_page(context, complaints)
        page.goto(path.as_uri())
        return page

    yield opened
    context.close()
    assert complaints == []


@pytest.fixture
def show(open_file, tmp_path: Path) -> Callable:
    """Open pictures on a page of their own, as `open_file` does."""

    def open_page(*pictures: Clickable, text: str | None = None):
        body = "\n".join(picture.page_html() for picture in pictures)
        plain = f"<!DOCTYPE html><meta charset=utf-8><style>{styles()}</style>{body}"
        return open_file(tmp_path / "page.html", text or plain)

    return open_page
