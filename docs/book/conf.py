"""How Sphinx builds the book; course_lib/publish/book.py prepares what it reads."""

import os
import re
from collections.abc import Iterator

from pygments.formatters import HtmlFormatter
from sphinx.highlighting import PygmentsBridge


class _Lines(HtmlFormatter):
    """Code whose lines know where they begin, so that a narrow page can go on below that (book.css)."""

    def wrap(self, source: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        return super().wrap((is_line, self._line(text) if is_line else text) for is_line, text in source)

    def _line(self, text: str) -> str:
        plain = re.sub("<[^>]*>", "", text)
        begin = len(plain) - len(plain.lstrip("+- "))
        return f'<span class="line" style="--begin: {begin}">{text.rstrip()}</span>\n'


PygmentsBridge.html_formatter = _Lines

project = "FlashAttention, from [3, 2, 5, 1] to Hopper"
author = project_copyright = "The FlashAttention course authors"
extensions = ["myst_nb", "sphinx_copybutton", "sphinx.ext.autodoc"]
if (
    os.environ.get("COURSE_BOOK_SOURCES") != "0"
):  # a page for each module takes a third of the time: tests leave them out
    extensions.append("sphinx.ext.viewcode")
templates_path = ["templates"]

nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "deflist"]
myst_html_meta = {
    "description": "Attention kernels from softmax by hand to Hopper, every byte counted in front of you."
}
default_role = "code"
autodoc_default_options = {"members": True, "ignore-module-all": True}
autodoc_member_order = "bysource"
add_module_names = False
toc_object_entries = False

html_theme = "sphinx_book_theme"
html_title = "FlashAttention: the course"
html_static_path = ["static", "../../course_lib/widgets/js/clickable.css"]
html_css_files = ["fonts.css", "clickable.css", "book.css"]
html_js_files = ["book.js"]
html_favicon = "static/favicon.svg"
html_copy_source = False
html_use_index = False
html_theme_options = {
    "use_download_button": False,
    "article_footer_items": ["take-it"],
    "home_page_in_toc": True,
    "show_toc_level": 2,
}
html_context = {"default_mode": "auto"}
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"options": {"enableMenu": False}}
