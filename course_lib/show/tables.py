"""Small tables and reports that read well as text, in a notebook and in a test."""

import html
from collections.abc import Sequence
from typing import Any


def beside_bar(text: str, good: bool | None) -> str:
    """Lines of text as HTML, the first one bold, beside a bar: green for what is good, red for what is not, grey for neither."""
    colour = {True: "#009E73", False: "#D55E00", None: "#8A8A8A"}[good]
    first, *rest = html.escape(text).splitlines()
    body = "\n".join([f"<b>{first}</b>", *rest])
    return f'<pre style="border-left: 6px solid {colour}; padding: 0.3em 1em; white-space: pre-wrap">{body}</pre>'


class Table:
    """Rows under headers; whole numbers are grouped in thousands, numbers are right-aligned.

    Cells are numbers or text, units included ('0.25 MB').
    """

    def __init__(self, headers: Sequence[str], rows: Sequence[Sequence[Any]]):
        self.headers, self.rows = list(headers), [list(row) for row in rows]

    @staticmethod
    def _cell(value: Any) -> str:
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

    def _right(self, column: int) -> bool:
        """Numbers, and text that starts like one ('4×', '0.25 MB'), stand to the right."""
        cells = [row[column] for row in self.rows if row[column] != ""]
        return all(isinstance(c, int | float) or str(c)[:1].isdigit() for c in cells)

    def __repr__(self) -> str:
        lines = [self.headers] + [[self._cell(v) for v in row] for row in self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.headers))]
        aligned = [
            "  ".join(
                c.rjust(w) if self._right(i) else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([aligned[0], "-" * max(map(len, aligned)), *aligned[1:]])

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            styled = (
                f'<{tag} style="text-align: {"right" if self._right(i) else "left"}">{html.escape(c)}</{tag}>'
                for i, c in enumerate(cells)
            )
            return f"<tr>{''.join(styled)}</tr>"

        body = "\n".join(line([self._cell(v) for v in row], "td") for row in self.rows)
        return f"<table>\n<thead>{line(self.headers, 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
