"""Opens a lecture as slides with live widgets in JupyterLab: python -m course_lib.publish.present 05

The lecture is a copy: what is run, typed or broken in front of a class does not touch the course.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

from course_lib.publish import notebooks, slides

# A projector shows 1280×720 or a multiple of it; the browser scales. These sizes are read from the back of a room.
SETTINGS = {
    "jupyterlab-slideshow/plugin": {"active": True},
    "@jupyterlab/apputils-extension/themes": {
        "overrides": {
            "code-font-size": f"{slides.CODE}px",
            "content-font-size1": f"{slides.TEXT}px",
            "ui-font-size1": "20px",
        }
    },
    "@deathbeds/jupyterlab-fonts/fonts": {
        "styles": {
            ".jp-RenderedHTMLCommon": {
                "& pre, & pre code": {
                    "font-size": f"{slides.CODE}px !important",
                    "padding": 0,
                    "margin": 0,
                    "line-height": 1.25,
                },
                "& h1": {"font-size": "48px"},
                "& h2": {"font-size": "40px"},
                "& h1, & h2": {"margin": "0 0 10px !important"},
                "& p, & ul, & ol": {"margin": "0 0 14px", "line-height": 1.4},
            }
        }
    },
}
APP_SETTINGS = notebooks.NOTEBOOKS.parent / ".jupyter"  # those of `make lab`


HOW = """{lecture} opens as slides in JupyterLab; stop it with Ctrl+C. Above are your notes: they are also at the same address with
{notes} at its end.
Before the class comes in: Ctrl+Shift+C, 'Run All Cells', then hold Shift+Space until you are back at the first slide.
Space: next. Shift+Space: back. Dropdowns want the mouse. The bar of dots in place of code opens it.
Esc ends the slides; the cards in the notebook's toolbar bring them back."""


def notes_name(path: Path) -> str:
    """The file beside the lecture that its notes are copied to."""
    return f"{path.stem}_notes.md"


def prepare(folder: Path, path: Path) -> dict[str, str]:
    """Copy a lecture and its notes into ``folder``; returns the environment in which JupyterLab shows it as slides."""
    nbformat.write(slides.deck(path), folder / path.name)
    (folder / notes_name(path)).write_text(f"# Notes: {path.stem}\n\n{slides.notes(path)}\n", encoding="utf-8")
    settings = folder / ".settings"
    for name, values in SETTINGS.items():
        target = settings / Path(*name.split("/")[:-1]) / f"{name.split('/')[-1]}.jupyterlab-settings"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(values), encoding="utf-8")
    return os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / ".workspaces"),
        "COURSE_FIGURE_HEIGHT": str(slides.FIGURE),
    }


def command(folder: Path, name: str, *flags: str) -> list[str]:
    """How JupyterLab is started on it."""
    root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [
        sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", f"--ServerApp.root_dir={folder}",
        f"--LabApp.app_settings_dir={APP_SETTINGS}", f"--LabApp.default_url=/doc/tree/{name}", *root, *flags,
    ]  # fmt: skip


def main() -> int:
    """Serve one lecture until Ctrl+C; flags are handed on to JupyterLab."""
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.publish.present", description="A lecture as live slides."
    )
    parser.add_argument("lecture", help="its number, for example 06")
    options, flags = parser.parse_known_args()
    try:
        path = notebooks.lecture(options.lecture)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="present-") as folder:
        environment = prepare(Path(folder), path)
        print(f"{slides.notes(path)}\n\n{HOW.format(lecture=path.stem, notes=notes_name(path))}\n")
        with contextlib.suppress(KeyboardInterrupt):
            return subprocess.run(command(Path(folder), path.name, *flags), env=environment, check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
