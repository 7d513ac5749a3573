"""What JupyterHub starts for a student, with the student's rights: limits, then the lectures, then the server."""

import os
import resource
import sys
from pathlib import Path

from course_lib.publish import working_copy

COURSE = Path(__file__).resolve().parents[1]


def limit(memory: int, processes: int) -> None:
    """Bytes of each process, and how many processes and threads a student may have; neither can be raised again."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def bring_lectures(home: Path) -> None:
    """Make or renew the student's copy in ``home/notebooks``; of a lecture that both have changed the course's comes beside hers."""
    folder = home / "notebooks"
    for number in working_copy.bring(folder):
        working_copy.put_beside(folder, number)


if __name__ == "__main__":
    os.umask(0o077)
    home = Path.home()
    os.chdir(home)
    if processes := os.environ.get("COURSE_HUB_PROCESSES"):  # in a container of its own a student needs no such limit
        limit(int(os.environ["MEM_LIMIT"]), int(processes))
    bring_lectures(home)
    os.environ["COURSE_PROGRESS"] = str(home / ".progress")
    runtime = home / ".run"  # a short name: a kernel's socket takes 107 characters at most
    runtime.mkdir(exist_ok=True)
    os.environ["JUPYTER_RUNTIME_DIR"] = str(runtime)
    settings = f"--LabApp.app_settings_dir={COURSE / '.jupyter'}"
    server = str(Path(sys.executable).with_name("jupyterhub-singleuser"))
    os.execv(server, [server, settings, *sys.argv[1:]])
