"""A paged KV cache to click: append tokens, end a sequence, find a token, and forget a mask."""

from course_lib import plots
from course_lib.show import style
from course_lib.widgets.clickable import Clickable

NAMES = "ABC"
MOST = 16  # tokens of a sequence


class PagePicture(Clickable):
    """Three sequences whose tokens arrive in turns, 'AAB…', in pages from one pool; the page that has been free longest is taken.

    Click a token to find it; a button appends one or ends a sequence.
    """

    file = "pages.js"

    def __init__(self, turns: str = "AAAAABBBCABAAACBA", page: int = 4, pages: int = 6):
        tables: dict[str, list[int]] = {name: [] for name in NAMES}
        lengths = dict.fromkeys(NAMES, 0)
        for name in turns:
            if lengths[name] % page == 0:
                tables[name].append(sum(map(len, tables.values())))
            lengths[name] += 1
        still, _ = style.render(plots.page_pool, tables, lengths, page, pages, size=(11, 3.4))
        data = {"tables": tables, "lengths": lengths, "page": page, "pages": pages, "most": MOST}
        super().__init__(
            data, still, "sequences with their block tables, and a pool of pages with a row for each token"
        )
