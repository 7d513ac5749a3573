"""How fast the tile explorer is in Chromium: load, step, answer a click. Recorded, not asserted: make bench-pictures."""

import sys
import tempfile
from pathlib import Path

import torch
from browsing import CHROMIUM, FLAGS
from playwright.sync_api import sync_playwright

from course_lib import algorithms
from course_lib.recordings import records
from course_lib.widgets.clickable import styles
from course_lib.widgets.tiles import TileExplorer

# Times of the page itself: from the start of the script to the first picture, a frame for each step, a click to its effect.
STEP = """async () => {
  const times = [];
  const scrub = document.querySelector('input[type=range]');
  for (let i = 0; i < 240; i++) {
    const begin = performance.now();
    scrub.value = i * 17; scrub.dispatchEvent(new Event('input'));
    times.push(performance.now() - begin);
    await new Promise(requestAnimationFrame);
  }
  return times.sort((a, b) => a - b);
}"""
FRAMES = """async () => {
  document.querySelector('select[aria-label="steps a second"]').value = 60;
  document.querySelector('button[aria-label^="to the start"]').click();
  document.querySelector('button[aria-label^="play"]').click();
  const begin = performance.now();
  await new Promise((done) => setTimeout(done, 3000));
  const step = Number(document.querySelector('input[type=range]').value);
  document.querySelector('button[aria-label^="play"]').click();
  return step / ((performance.now() - begin) / 1000);
}"""
CLICK = """() => {
  const begin = performance.now();
  document.querySelector('[data-tile="S:3,3"]').dispatchEvent(new MouseEvent('click', { bubbles: true }));
  document.querySelector('.detail').getBoundingClientRect();
  return performance.now() - begin;
}"""


def main() -> int:
    q, k, v = (torch.randn(104, 4) for _ in range(3))
    picture = TileExplorer({"V2": algorithms.flash_v2}, q, k, v, block_m=6, block_n=6)
    events = len(picture.runs["V2"].memory.trace)
    with sync_playwright() as engine, tempfile.TemporaryDirectory() as folder:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        path = Path(folder) / "page.html"
        timed = picture.page_html().replace("picture.render(", "const begin = performance.now(); picture.render(")
        timed = timed.replace("\n</script>", "\nwindow.loaded = performance.now() - begin;\n</script>")
        path.write_text(f"<!DOCTYPE html><meta charset=utf-8><style>{styles()}</style>{timed}", encoding="utf-8")
        page.goto(path.as_uri())
        page.wait_for_function("window.loaded")
        steps = page.evaluate(STEP)
        row = {
            "events": events,
            "load_ms": page.evaluate("window.loaded"),
            "step_ms_median": steps[len(steps) // 2],
            "step_ms_worst": steps[-1],
            "steps_a_second_at_60": page.evaluate(FRAMES),
            "click_ms": page.evaluate(CLICK),
        }
        browser.close()
    path = records.record("pictures", [row], command="make bench-pictures")
    print(*(f"{name}: {value:.4g}" for name, value in row.items()), sep="\n")
    print(path.relative_to(path.parents[3]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
