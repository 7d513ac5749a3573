"""Functions as students write them, in a cell under a page's usual imports."""

import linecache

PLAIN_IMPORTS = (
    "import math\nimport torch\nfrom course_lib.kernels import tl, triton\nfrom course_lib.model.memory import *\n"
)
RIGHT = "new = max(m, float(x.max())); return new, l * math.exp(m - new) + float(torch.exp(x - new).sum())"


def defined(source: str, name: str, imports: str = PLAIN_IMPORTS):
    """The function of a cell, with a source that inspect finds, as in a notebook."""
    file = f"<cell {name} {hash(source)}>"
    text = imports + source
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict = {}
    exec(compile(text, file, "exec"), space)
    return space[name]


def online(source: str):
    return defined("def online_update(m, l, x):\n    " + source, "online_update")
