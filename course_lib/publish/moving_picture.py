"""Films the tile explorer for the README, in Chromium: python -m course_lib.publish.moving_picture"""

import io
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image
from playwright.sync_api import sync_playwright

from course_lib import algorithms
from course_lib.files import write_atomically
from course_lib.publish import notebooks
from course_lib.widgets.clickable import styles
from course_lib.widgets.tiles import TileExplorer

PATH = notebooks.NOTEBOOKS.parent / "docs" / "tiles.gif"
WIDE, TALL, COLOURS, LONGEST = 860, 460, 96, 64  # pixels; colours of the film; steps, then it begins again
_HIDDEN = ".course-bar, .code, .detail { display: none !important; } :focus-visible { outline: none !important; } body { margin: 8px; }"


def frames() -> list[Image.Image]:
    """A picture for each step of FlashAttention-2's forward pass over 8 queries and keys in blocks of 2.

    Raises RuntimeError without Chromium.
    """
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise RuntimeError("no Chromium found: install Debian's package chromium")
    torch.manual_seed(0)
    q, k, v = (torch.randn(8, 4) for _ in range(3))
    picture = TileExplorer({"FlashAttention-2, forward": algorithms.flash_v2}, q, k, v, block_m=2, block_n=2)
    steps = min(LONGEST, len(next(iter(picture.runs.values())).memory.trace))
    text = f"<!DOCTYPE html><meta charset=utf-8><style>{styles()}{_HIDDEN}</style>{picture.page_html()}"
    with sync_playwright() as engine, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_text(text, encoding="utf-8")
        chromium = engine.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": WIDE, "height": TALL})
        page.goto((Path(folder) / "page.html").as_uri())
        page.locator(".tiles").focus()
        shots = []
        for _ in range(steps):
            page.keyboard.press("ArrowRight")
            shots.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        chromium.close()
    together = Image.new("RGB", (WIDE, TALL * len(shots)))
    for i, shot in enumerate(shots):
        together.paste(shot, (0, TALL * i))
    palette = together.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
    return [shot.quantize(palette=palette, dither=Image.Dither.NONE) for shot in shots]


def write(path: Path = PATH) -> None:
    """Write the film as a GIF that shows two steps a second and a longer last one."""
    first, *others = frames()
    times = [500] * len(others) + [2_500]
    film = io.BytesIO()
    first.save(film, "GIF", save_all=True, append_images=others, duration=times, loop=0, optimize=True)
    write_atomically(path, film.getvalue())


if __name__ == "__main__":
    try:
        write()
    except RuntimeError as error:
        sys.exit(str(error))
    print(f"{PATH.relative_to(PATH.parents[1])}: {PATH.stat().st_size / 1e3:.0f} kB")
