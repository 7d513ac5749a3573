"""Pictures that answer when clicked: the data comes from Python, all interaction is an ES module in the page.

They work in JupyterLab, on live slides, and on a static page with no kernel and no network (``page_html``).
"""

import itertools
import json
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course_lib.show import style

_JS = Path(__file__).parent / "js"
_ids = itertools.count()


def _module(name: str) -> str:
    """A picture's JavaScript: what all share, then its own file of ``js/``."""
    return "".join((_JS / file).read_text(encoding="utf-8") for file in ("elements.js", name))


class Clickable(anywidget.AnyWidget):
    """A clickable picture. ``data`` is plain JSON, ``file`` its module in ``js/``.

    The saved output is a still picture for readers without a page that runs; its metadata keeps what a page needs to bring it alive.
    """

    file: str
    _css = _JS / "clickable.css"
    data = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any):
        if "file" in vars(cls):  # not for the classes that anywidget derives with its own traits
            cls._esm = _module(cls.file)
        super().__init_subclass__(**kwargs)

    def __init__(self, data: dict[str, Any], still: bytes, alt: str):
        super().__init__(data=data | {"alt": alt})
        self._still = still
        self._alt = alt

    def __repr__(self) -> str:
        return f"[clickable picture] {self._alt}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        live: Any = super()._repr_mimebundle_(**kwargs)
        live = live[0] if isinstance(live, tuple) else live
        still, metadata = style.Picture(self._still, repr(self))._repr_mimebundle_()
        return dict(live or {}) | still | {"text/plain": repr(self)}, metadata | {"clickable": self.saved()}

    def saved(self) -> dict[str, str]:
        """What ``page_html`` makes the picture of, to be kept with a still one."""
        return {"file": self.file, "data": json.dumps(dict(self.data))}

    def page_html(self) -> str:
        """The picture as HTML that stands alone, but for ``styles``."""
        return page_html(**self.saved())


def page_html(file: str, data: str) -> str:
    """A picture as HTML that stands alone, but for ``styles``: its module in ``js/``, and its data as JSON."""
    name = f"clickable-{next(_ids)}"
    script = _module(file).replace("export default", "const picture =")
    # "</" could end the script early; in JSON and in strings of JavaScript "<\\/" means the same.
    safe = data.replace("</", "<\\/")
    return (
        f'<div id="{name}"></div>\n'
        f'<script type="module">\n{script}\nconst data = {safe};\n'
        "const model = { get: (name) => ({ data })[name], set() {}, on() {}, off() {}, save_changes() {} };\n"
        f'picture.render({{ model, el: document.getElementById("{name}") }});\n</script>'
    )


def styles() -> str:
    """The style sheet of all clickable pictures."""
    return (_JS / "clickable.css").read_text(encoding="utf-8")
