"""How long a reader waits for a picture: every control of every interactive figure moved in JupyterLab, by keys, in Chromium.

`python tests/bench_pictures.py`, of one lecture `python tests/bench_pictures.py 05`. A control goes through all of its settings and
stays at the slowest, then the next one does, so that what multiplies is met together. The clock runs from the key to the frame that
shows the new picture. Where others compute on the machine, too, it runs for them as well: what seems too slow is tried again.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from browsing import CHROMIUM, FLAGS, OPEN, jupyterlab, open_lecture, run_all_cells
from playwright.sync_api import Locator, Page, sync_playwright

from course_lib.instruments.measure import progress
from course_lib.publish import notebooks
from course_lib.recordings import records
from course_lib.show.tables import Table

MOST, TRIES = 1000, 4  # milliseconds; of a control
EXPLORERS = f"{OPEN} .course-explorer"
# Cells out of sight stay on the page, so that they can be counted.
SETTINGS = {"@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"}}
LISTEN = """() => {
  const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
  window.waiting = 0;
  kernel.anyMessage.connect((_, { direction, msg }) => {
    if (direction === 'send' && msg.header.msg_type === 'comm_msg') window.waiting++;
    if (msg.parent_header.msg_type === 'comm_msg' && msg.content.execution_state === 'idle') window.waiting--;
  });
  for (const kind of ['keydown', 'change']) document.addEventListener(kind, () => { window.begun = performance.now(); }, true);
}"""
WAITED = """async explorer => {
  const frame = () => new Promise(requestAnimationFrame);
  for (let quiet = 0; quiet < 2; quiet = window.waiting ? 0 : quiet + 1) await frame();
  await explorer.querySelector('img').decode();
  await frame();
  return performance.now() - window.begun;
}"""


def with_explorers(path: Path) -> tuple[nbformat.NotebookNode, list[str]]:
    """A lecture up to its last interactive figure, and the sections in which these stand."""
    lecture, found, last, heading = nbformat.read(path, as_version=4), [], 0, ""
    for i, cell in enumerate(lecture.cells):
        if cell.cell_type == "markdown":
            heading = next((line.lstrip("# ") for line in cell.source.splitlines() if line.startswith("#")), heading)
        elif any(line.startswith("explore(") for line in cell.source.splitlines()):
            found.append(heading)
            last = i
    lecture.cells = lecture.cells[: last + 1]
    return lecture, found


class Control:
    """A slider or a dropdown of a figure."""

    def __init__(self, explorer: Locator, control: Locator):
        self.explorer, self.name = explorer, control.locator(".widget-label").inner_text()
        self.menu, self.handle = control.locator("select"), control.locator(".noUi-handle")
        self.words = control.locator(".widget-readout")
        self.here = -1

    def read(self) -> str:
        """What it stands at."""
        return str(self.menu.evaluate("menu => menu.value")) if self.menu.count() else self.words.inner_text()

    def go(self, there: int) -> tuple[float, str]:
        """Milliseconds of the last step to a setting, by its number, and the setting in words."""
        if self.menu.count():
            self.menu.select_option(index=there)
        elif self.here < 0:
            self.handle.press("Home")
        else:
            for _ in range(abs(there - self.here)):
                self.explorer.evaluate(WAITED)
                self.handle.press("ArrowRight" if there > self.here else "ArrowLeft")
        self.here = there
        return self.explorer.evaluate(WAITED), self.read()

    def at_its_end(self) -> bool:
        if self.menu.count():
            return self.here + 1 == self.menu.locator("option").count()
        return self.handle.get_attribute("aria-valuenow") == self.handle.get_attribute("aria-valuemax")

    def slowest(self) -> tuple[float, str]:
        """Milliseconds and words of the slowest setting, at which it is left. What is too slow is tried again, and the quickest counts."""
        found = [self.go(0)]
        while not self.at_its_end():
            found.append(self.go(self.here + 1))
        for _ in range(TRIES if len(found) > 1 else 0):
            slow = found.index(max(found))
            if found[slow][0] < MOST:
                break
            self.go(slow - 1 if slow else 1)
            found[slow] = min(found[slow], self.go(slow))
        self.go(found.index(max(found)))
        return max(found)


def timed(page: Page, path: Path, sections: list[str]) -> Iterator[dict[str, Any]]:
    """The slowest setting of each control of a lecture, whose kernel is ended afterwards."""
    open_lecture(page, path.name)
    run_all_cells(page)
    page.evaluate(LISTEN)
    explorers = page.locator(EXPLORERS)
    assert explorers.count() == len(sections), f"{path.name} shows {explorers.count()} of {len(sections)} figures"
    for explorer, section in zip(explorers.all(), sections, strict=True):
        explorer.scroll_into_view_if_needed()
        controls = [Control(explorer, one) for one in explorer.locator(".widget-hslider, .widget-dropdown").all()]
        for control in controls:
            milliseconds, setting = control.slowest()
            others = ", ".join(f"{other.name} {other.read()}" for other in controls if other is not control)
            row = {"lecture": path.name[:2], "picture": section, "control": control.name, "setting": setting}
            yield row | {"others": others, "ms": round(milliseconds)}
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")


def measured(numbers: list[str]) -> list[dict[str, Any]]:
    """All of it, in one browser."""
    with tempfile.TemporaryDirectory(prefix="pictures-") as name, sync_playwright() as playwright:
        folder, sections = Path(name), {}
        for path in map(notebooks.lecture, numbers) if numbers else notebooks.lectures():
            lecture, found = with_explorers(path)
            if found:
                nbformat.write(lecture, folder / path.name)
                sections[path.name] = found
        for plugin, values in SETTINGS.items():
            target = folder / ".settings" / f"{plugin}.jupyterlab-settings"
            target.parent.mkdir(parents=True)
            target.write_text(json.dumps(values), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with jupyterlab(browser, folder, f"doc/tree/{next(iter(sections))}", {}) as page:
            todo = progress(list(sections.items()), "lectures")
            rows = [row for name, found in todo for row in timed(page, folder / name, found)]
        browser.close()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="How long a reader waits for a picture.")
    parser.add_argument("lectures", nargs="*", help="their numbers; all if there is none")
    parser.add_argument("--record", action="store_true", help="write the record of this machine")
    options = parser.parse_args()
    rows = sorted(measured(options.lectures), key=lambda row: -row["ms"])
    columns = ["lecture", "picture", "control", "setting", "ms"]
    print(Table(columns, [[row[column] for column in columns] for row in rows]))
    if options.record:
        print(f"written: {records.record('picture_latencies', rows, 'python tests/bench_pictures.py --record')}")
    late = [row for row in rows if row["ms"] > MOST]
    for row in late:
        print(
            f"over {MOST} ms: lecture {row['lecture']}, {row['picture']}: {row['control']} {row['setting']}, {row['others']}"
        )
    return bool(late)


if __name__ == "__main__":
    sys.exit(main())
