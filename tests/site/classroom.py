"""A class in front of a real JupyterHub: accounts, logins, lectures opened, cells run over the kernels' own channels."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import psutil
import requests
import websocket
from browsing import free_port, served

from course_lib import data

PATIENCE = 300.0  # seconds for one answer when thirty ask at once


class Answer(NamedTuple):
    """What a cell printed or returned, and its error, '' if there was none."""

    text: str
    error: str


@dataclass
class Student:
    """One person at a browser: requests carry the cookies, the websocket is the open notebook."""

    hub: str
    name: str
    password: str
    web: requests.Session = field(default_factory=requests.Session)
    seconds: float = 0.0  # from logging in to the first answer

    @property
    def server(self) -> str:
        return f"{self.hub}/user/{self.name}"

    def log_in(self) -> bool:
        """Send the form of the login page; whether the hub let this person in."""
        self.web.get(f"{self.hub}/hub/login", timeout=PATIENCE)
        token = self.web.cookies.get("_xsrf", path="/hub/")
        form = {"username": self.name, "password": self.password, "_xsrf": token}
        found = self.web.post(f"{self.hub}/hub/login?next=%2Fhub%2Fhome", data=form, timeout=PATIENCE)
        return found.ok and found.url.endswith("/hub/home")

    def start(self) -> None:
        """Ask for the server as the browser does, and wait until it answers."""
        self.web.get(f"{self.hub}/hub/spawn", timeout=PATIENCE)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.get("lab")  # a page: on the way there the hub says to the server who this is
            if self.get("api/status").ok:
                return
            time.sleep(0.5)
        raise TimeoutError(f"the server of {self.name} did not answer within {PATIENCE:g} s")

    def get(self, path: str, server: str = "") -> requests.Response:
        return self.web.get(f"{server or self.server}/{path}", timeout=PATIENCE)

    def open(self, lecture: str) -> "Notebook":
        """Open a lecture: read it from the server and start its kernel."""
        page = self.get(f"api/contents/notebooks/{lecture}").json()["content"]
        body = {"path": f"notebooks/{lecture}", "type": "notebook", "name": lecture, "kernel": {"name": "python3"}}
        token = self.web.cookies.get("_xsrf", path=f"/user/{self.name}/")
        made = self.web.post(f"{self.server}/api/sessions", json=body, headers={"X-XSRFToken": token}, timeout=PATIENCE)
        made.raise_for_status()
        return Notebook(self, nbformat.from_dict(page), made.json()["kernel"]["id"])


class Notebook:
    """A lecture that is open in a student's browser."""

    def __init__(self, student: Student, page: Any, kernel: str):
        self.page = page
        self.address = f"{student.server}/api/kernels/{kernel}/channels".replace("http", "ws", 1)
        self.cookies = "; ".join(
            f"{c.name}={c.value}" for c in student.web.cookies if f"/user/{student.name}/".startswith(c.path)
        )
        self.origin = student.hub

    def run(self, code: str) -> Answer:
        """Run code in the kernel and wait until it is idle again."""
        socket = websocket.create_connection(self.address, cookie=self.cookies, origin=self.origin, timeout=PATIENCE)
        with contextlib.closing(socket):
            return self._answer(socket, code)

    @staticmethod
    def _answer(socket: websocket.WebSocket, code: str) -> Answer:
        number = uuid.uuid4().hex
        header = {"msg_id": number, "msg_type": "execute_request", "username": "", "session": number, "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        socket.send(
            json.dumps({"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content})
        )
        text, error = [], ""
        while True:
            frame = socket.recv()
            if isinstance(frame, bytes):  # a picture for a widget: nothing that this reader shows
                continue
            found = json.loads(frame)
            if found["parent_header"].get("msg_id") != number:
                continue
            kind, content = found["msg_type"], found["content"]
            if kind == "stream":
                text.append(content["text"])
            elif kind == "execute_result":
                text.append(content["data"].get("text/plain", ""))
            elif kind == "error":
                error = f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                return Answer("".join(text), error)

    def cells(self) -> list[str]:
        return [c.source for c in self.page.cells if c.cell_type == "code"]


@dataclass
class Classroom:
    """A JupyterHub that serves a student's copy of the course, as deploy/ configures it."""

    address: str
    course: Path
    state: Path
    passwords: dict[str, str]
    roster: Path
    passwords_file: Path

    def student(self, name: str) -> Student:
        return Student(self.address, name, self.passwords[name])


@contextlib.contextmanager
def classroom(folder: Path, course: Path, names: list[str]) -> Iterator[Classroom]:
    """Make the accounts of a class and a teacher `prof`, and run the hub while the class is in."""
    roster = folder / "class.txt"
    roster.write_text("\n".join(names) + "\nprof teacher\n")
    written = folder / "passwords.txt"
    accounts = [sys.executable, str(course / "deploy/roster.py"), "accounts", str(roster), str(written)]
    subprocess.run(accounts, check=True, capture_output=True, text=True)
    passwords = dict(line.split("\t") for line in written.read_text().splitlines())
    room = Classroom(f"http://127.0.0.1:{free_port()}", course, folder / "state", passwords, roster, written)
    environment = os.environ | {
        "COURSE_HUB_CLASS": str(roster), "COURSE_HUB_STATE": str(room.state), "COURSE_HUB_BIND": room.address,
        "PYTHONPATH": str(course),
    }  # fmt: skip
    command = [
        sys.executable, "-m", "jupyterhub", "-f", str(course / "deploy/jupyterhub_config.py"),
        f"--JupyterHub.hub_port={free_port()}", f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{free_port()}",
    ]  # fmt: skip
    with served(command, f"{room.address}/hub/health", folder / "hub.log", 120, env=environment, cwd=folder):
        yield room


PAGE = Path(__file__).resolve().parents[2] / "deploy" / "README.md"
BLOCK = re.compile(r"(?<=<!-- class -->\n).*?(?=<!-- /class -->)", re.S)


def told(found: data.Measured) -> str:
    """What `make test-hub RECORD=1` measured, for the page on servers."""
    row, when = found.rows[0], found.provenance["date"][:10]
    return (
        f"{row['students']} students who log in at the same moment, on {row['cores']} cores and {row['machine_gb']} GB ({when}):\n"
        f"the first cell of a lecture has answered after {row['first_answer_median_s']} s for half of them,\n"
        f"and after {row['first_answer_last_s']} s for all. A student with one open lecture takes {row['memory_each_mb']} MB,\n"
        f"all of them {row['memory_all_gb']} GB.\n"
    )


def memory(uid: int) -> float:
    """Megabytes of all processes of an account; what processes share is counted once in all."""
    total = 0
    for process in psutil.process_iter():
        try:
            if process.uids().real == uid:
                total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total / 1e6
