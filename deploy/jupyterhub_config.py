"""JupyterHub for a class on one Linux machine; `make hub CLASS=class.txt` starts it, deploy/README.md tells what it does."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from roster import closed_folder, read_class

from course_lib.publish import web

COURSE = Path(__file__).resolve().parents[1]
DEPLOY = COURSE / "deploy"
STATE = Path(os.environ.get("COURSE_HUB_STATE") or "/var/lib/flash-attention-hub")

if [p for kind in ("solutions", "oracles") for p in (COURSE / f"course_lib/exercises/{kind}").glob("[!_]*.py")]:
    sys.exit(f"{COURSE} holds the solutions; serve the folder that `make student DIR=folder` writes")
for needed in (COURSE, Path(sys.executable).resolve()):
    if (closed := closed_folder(needed)) is not None:
        sys.exit(
            f"students cannot reach {needed}: {closed} is closed to them. Put the course in /srv and use a Python of the system"
        )
students, teachers = read_class(Path(os.environ["COURSE_HUB_CLASS"]))
STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
STATE.chmod(0o700)

c = get_config()  # noqa: F821  JupyterHub brings it

# In front of this stands whatever speaks HTTPS for the machine.
c.JupyterHub.bind_url = os.environ.get("COURSE_HUB_BIND") or "http://127.0.0.1:8000"
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
c.Authenticator.admin_users = teachers  # they start and stop servers; they do not see what is in them
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
