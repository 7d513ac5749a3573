"""The claims ledger: a sentence from a source, what the page found, and the verdict that follows from it."""

import html
from typing import NamedTuple

from course_lib.data import claims


class Finding(NamedTuple):
    """One observation, and whether it supports the claim as it stands."""

    text: str
    supports: bool


class Verdict(NamedTuple):
    """A claim put to the test. 'confirmed' if every finding supports it, 'refuted' if none does, else 'true in part'."""

    id: str
    claim: str
    source: str
    findings: tuple[Finding, ...]

    @property
    def word(self) -> str:
        """The verdict: 'confirmed', 'refuted' or 'true in part'."""
        supporting = sum(finding.supports for finding in self.findings)
        return "confirmed" if supporting == len(self.findings) else "refuted" if supporting == 0 else "true in part"

    def __repr__(self) -> str:
        lines = [f"{self.id} ({self.source}): “{self.claim}”"]
        lines += [f"  {'for' if f.supports else 'against'}: {f.text}" for f in self.findings]
        return "\n".join([*lines, f"  verdict: {self.word}"])

    def _repr_html_(self) -> str:
        colour = {"confirmed": "#009E73", "refuted": "#D55E00", "true in part": "#E69F00"}[self.word]
        items = "".join(
            f"<li><b>{'for' if f.supports else 'against'}:</b> {html.escape(f.text)}</li>" for f in self.findings
        )
        return (
            f'<div style="border-left: 6px solid {colour}; padding: 0.2em 1em; margin: 0.5em 0">'
            f"<p><b>{self.id}</b> ({self.source}): “{html.escape(self.claim)}”</p><ul>{items}</ul>"
            f'<p>Verdict: <b style="color: {colour}">{self.word}</b></p></div>'
        )


def verdict(claim: str, *findings: tuple[str, bool]) -> Verdict:
    """Judge the claim with this id ('C1') by (what was observed, does it support the claim?) pairs."""
    row = claims()[claim]
    return Verdict(claim, row["claim"], row["source"], tuple(Finding(text, bool(good)) for text, good in findings))
