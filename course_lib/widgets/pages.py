"""A paged KV cache to click: append tokens, end a sequence, find a token, and forget a mask."""

from course_lib import checks, plots
from course_lib.show import style
from course_lib.widgets.clickable import Clickable

NAMES = "ABC"
MOST = 16  # tokens of a sequence


class PagePicture(Clickable):
    """Three sequences whose tokens arrive in turns, 'AAB…', in pages from one pool; the page that has been free longest is taken.

    Click a token to find it; a button appends one or ends a sequence. Raises TypeError or ValueError for other letters, for more
    than 16 tokens of a sequence, and for more pages than there are.
    """

    file = "pages.js"

    def __init__(self, turns: str = "AAAAABBBCABAAACBA", page: int = 4, pages: int = 6):
        checks.text("turns", turns)
        checks.whole("page", page, 2, 8)
        checks.whole("pages", pages, 4, 12)
        tables: dict[str, list[int]] = {name: [] for name in NAMES}
        lengths = dict.fromkeys(NAMES, 0)
        if len(turns) > len(NAMES) * MOST:
            raise ValueError(f"turns has {len(turns):,} letters; pass at most {len(NAMES) * MOST}")
        for name in turns:
            checks.one_of("a letter of turns", name, list(NAMES))
            if lengths[name] % page == 0:
                tables[name].append(sum(map(len, tables.values())))
            lengths[name] += 1
        if max(lengths.values()) > MOST or sum(map(len, tables.values())) > pages:
            raise ValueError(
                f"turns has {lengths} tokens; pass at most {MOST} of a sequence, in {pages} pages of {page}"
            )
        still, _ = style.render(plots.page_pool, tables, lengths, page, pages, size=(11, 3.4))
        data = {"tables": tables, "lengths": lengths, "page": page, "pages": pages, "most": MOST}
        super().__init__(
            data, still, "sequences with their block tables, and a pool of pages with a row for each token"
        )
