"""Pictures that answer when clicked: the data comes from Python, all interaction is an ES module in the page.

They work in JupyterLab, on live slides, and on a static page with no kernel and no network (``page_html``).
"""

import json
import os
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course_lib.show import style

_JS = Path(__file__).parent / "js"


def module(name: str) -> str:
    """A picture's JavaScript: what all share, then its own file of ``js/``."""
    return "".join((_JS / file).read_text(encoding="utf-8") for file in ("elements.js", name))


class Clickable(anywidget.AnyWidget):
    """A clickable picture. ``data`` is plain JSON; the saved output is a still picture for readers without a page that runs."""

    script: str
    _css = _JS / "clickable.css"
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, data: dict[str, Any], still: bytes, alt: str):
        super().__init__(data=data | {"alt": alt})
        self._still = still
        self._alt = alt

    def __repr__(self) -> str:
        return f"[clickable picture] {self._alt}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if os.environ.get("COURSE_PAGES"):  # course_lib.publish.pages wants the picture itself
            return {"text/html": self.page_html(), "text/plain": repr(self)}, {}
        live: Any = super()._repr_mimebundle_(**kwargs)
        live = live[0] if isinstance(live, tuple) else live
        still, metadata = style.Picture(self._still, repr(self))._repr_mimebundle_()
        return dict(live or {}) | still | {"text/plain": repr(self)}, metadata

    def page_html(self) -> str:
        """The picture as HTML that stands alone, but for ``styles``."""
        name = f"clickable-{self.model_id}"
        module = type(self).script.replace("export default", "const picture =")
        # "</" could end the script early; in JSON and in strings of JavaScript "<\\/" means the same.
        data = json.dumps(dict(self.data)).replace("</", "<\\/")
        return (
            f'<div id="{name}"></div>\n'
            f'<script type="module">\n{module}\nconst data = {data};\n'
            "const model = { get: (name) => ({ data })[name], set() {}, on() {}, off() {}, save_changes() {} };\n"
            f'picture.render({{ model, el: document.getElementById("{name}") }});\n</script>'
        )


def styles() -> str:
    """The style sheet of all clickable pictures."""
    return (_JS / "clickable.css").read_text(encoding="utf-8")
