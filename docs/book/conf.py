"""How Sphinx builds the book; course_lib/publish/book.py prepares what it reads."""

import re

project = "FlashAttention, from [3, 2, 5, 1] to Hopper"
author = "The FlashAttention course authors"
project_copyright = author
html_title = "FlashAttention: the course"
extensions = ["myst_nb", "sphinx_copybutton", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["download"]

nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
add_module_names = False
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "sphinx_book_theme"
html_static_path = ["static", "../../course_lib/widgets/js/clickable.css"]
html_css_files = ["fonts.css", "clickable.css", "book.css"]
html_js_files = ["book.js"]
html_copy_source = False
html_show_sphinx = False
html_use_index = False
html_domain_indices = False
html_theme_options = {
    "use_download_button": False,
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "search_bar_text": "Search the course",
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "logo": {"text": "FlashAttention: the course"},
}
html_context = {"default_mode": "auto"}
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"options": {"enableMenu": False}}


def _as_rst(app, what, name, obj, options, lines):
    """Our docstrings are plain text with ``names``; what reStructuredText would read into the rest is taken out of it."""
    text = "\n".join(lines)
    pieces = re.split(r"(``.*?``|`[^`\n]*`)", text)
    text = "".join(p if i % 2 else re.sub(r"([*|\\]|(?<=\w)_(?!\w))", r"\\\1", p) for i, p in enumerate(pieces))
    text = re.sub(r"(?<=\S)\n\n(?=    )", "\n\n::\n\n", text)
    lines[:] = text.splitlines()


def setup(app):
    app.connect("autodoc-process-docstring", _as_rst)
