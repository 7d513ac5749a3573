"""course_lib: the library that the FlashAttention lectures are built on.

Start with ``course_lib.runtime.setup()``. Importing this package imports neither torch nor triton, so that
the mode (GPU or interpreter) can still be chosen.
"""

import importlib.abc
import sys
from collections.abc import Sequence

_MOVED = {
    "softmax": "model.softmax",
    "reference": "model.reference",
    "formats": "model.formats",
    "rounding": "model.rounding",
    "quantize": "model.quantize",
    "cost": "model.cost",
    "roofline": "model.roofline",
    "memory": "model.memory",
    "registers": "model.registers",
    "pipeline": "model.pipeline",
    "measure": "instruments.measure",
    "traffic": "instruments.traffic",
    "compiled": "instruments.compiled",
    "assembly": "instruments.assembly",
    "counters": "instruments.counters",
    "peers": "instruments.peers",
    "style": "show.style",
    "tables": "show.tables",
    "display": "show.display",
    "notebooks": "publish.notebooks",
    "slides": "publish.slides",
    "pages": "publish.book",
    "decks": "publish.decks",
    "present": "publish.present",
    "ledger": "publish.ledger",
    "course_map": "publish.course_map",
    "module_map": "publish.module_map",
    "web": "publish.web",
    "forge": "instruments.fork_server",
    "records": "recordings.records",
    "characters": "gpt",
}


class _Moved(importlib.abc.MetaPathFinder):
    """Tells a notebook of an earlier edition where a module is now."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        package, _, name = fullname.partition(".")
        if package == __name__ and name in _MOVED:
            raise ModuleNotFoundError(
                f"course_lib.{name} is now course_lib.{_MOVED[name]}; change the import, or open a new copy of the lecture"
            )


sys.meta_path.append(_Moved())
