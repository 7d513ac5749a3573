"""JupyterHub for a class on one Linux machine; `make hub CLASS=class.txt` starts it, deploy/README.md tells what it does."""

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
from roster import closed_folder, read_class

from course_lib.publish import web

COURSE = Path(__file__).resolve().parents[1]
DEPLOY = COURSE / "deploy"
STATE = Path(os.environ.get("COURSE_HUB_STATE") or "/var/lib/flash-attention-hub")

if any(
    "\nSOLUTION" in path.read_text(encoding="utf-8") for path in (COURSE / "course_lib/exercises/tasks").glob("*.py")
):
    sys.exit(f"{COURSE} holds the solutions; serve the folder that `make student DIR=folder` writes")
for needed in (COURSE, Path(sys.executable).resolve()):
    if (closed := closed_folder(needed)) is not None:
        sys.exit(
            f"students cannot reach {needed}: {closed} is closed to them. Put the course in /srv and use a Python of the system"
        )
students, teachers = read_class(Path(os.environ["COURSE_HUB_CLASS"]))
os.umask(0o077)  # what the hub writes is root's alone, what a server writes its student's
STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
STATE.chmod(0o700)

c = get_config()  # noqa: F821  JupyterHub brings it

# Passwords travel here: to other machines with a certificate only, or through a server in front that has one.
bind = os.environ.get("COURSE_HUB_BIND") or "http://127.0.0.1:8000"
certificate = os.environ.get("COURSE_HUB_CERT"), os.environ.get("COURSE_HUB_KEY")
if urlsplit(bind).hostname not in ("127.0.0.1", "::1", "localhost") and not (
    bind.startswith("https://") and all(certificate)
):
    sys.exit(
        f"COURSE_HUB_BIND is {bind!r}: other machines would see the passwords. Pass an address of 127.0.0.1 and put a server that speaks "
        "HTTPS in front, or https://… with COURSE_HUB_CERT and COURSE_HUB_KEY, the files of its certificate and key"
    )
c.JupyterHub.bind_url = bind
if all(certificate):
    c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = certificate
c.JupyterHub.db_url = f"sqlite:///{STATE / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(STATE / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(STATE / "proxy.pid")
c.ConfigurableHTTPProxy.command = [
    web.node(),
    str(DEPLOY / "node_modules/configurable-http-proxy/bin/configurable-http-proxy"),
]

# Accounts are the machine's own; a password belongs to one student.
c.JupyterHub.authenticator_class = "pam"
c.Authenticator.allowed_users = students | teachers
# Teachers see who is there, and start and stop servers. Nobody is an admin, who could make tokens in a student's name.
c.JupyterHub.load_roles = [
    {
        "name": "teacher",
        "description": "sees who is there, starts and stops servers",
        "scopes": ["admin-ui", "list:users", "read:users:name", "read:users:activity", "servers"],
        "users": sorted(teachers),
    }
]
c.PAMAuthenticator.open_sessions = False

# A server runs as its student. start_student.py sets the limits and brings the lectures.
c.JupyterHub.spawner_class = "localprocess"
c.Spawner.cmd = [sys.executable, str(DEPLOY / "start_student.py")]
c.Spawner.env_keep = ["PATH", "LANG", "LC_ALL"]
c.Spawner.environment = {
    "PYTHONPATH": str(COURSE),
    "OMP_NUM_THREADS": "1",  # thirty students share few cores: threads would wait for one another
    "COURSE_HUB_PROCESSES": "600",  # of one student, threads included
}
c.Spawner.notebook_dir = "~"
c.Spawner.default_url = "/lab/tree/notebooks/00_start_here.ipynb"
c.Spawner.mem_limit = os.environ.get("COURSE_HUB_MEMORY") or "3G"  # each process of a student
c.Spawner.args = [
    # Kernels listen on sockets in the student's own folder: a TCP port could be read by every account of the machine.
    "--KernelManager.transport=ipc",
    # A kernel without work for half an hour is stopped, and a server without kernels is stopped after an hour.
    "--MappingKernelManager.cull_idle_timeout=1800",
    "--MappingKernelManager.cull_connected=True",
    "--ServerApp.shutdown_no_activity_timeout=3600",
]
# All log in at once when the lecture begins.
c.Spawner.start_timeout = c.Spawner.http_timeout = 300
c.JupyterHub.concurrent_spawn_limit = 0
