"""The claims ledger: a sentence from a source, what the page found, and the verdict that follows from it."""

import html
from typing import Any, NamedTuple

import numpy as np
import torch

from course_lib import checks
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
    """Judge the claim with this id ('C1') by (what was observed, does it support the claim?) pairs.

    Raises ValueError for an unknown claim and for no findings, TypeError for a finding that is no such pair.
    """
    if checks.text("claim", claim) not in claims():
        raise ValueError(f"claim is {claim!r}; data/claims.csv has {', '.join(claims())}: add a row for a new one")
    if not findings:
        raise ValueError(f"no findings for {claim}; pass at least one (text, supports) pair")
    for i, finding in enumerate(findings):
        if not isinstance(finding, tuple) or len(finding) != 2:
            raise TypeError(f"finding {i} is {checks.shown(finding)}; pass a pair (text, supports)")
        checks.text(f"text of finding {i}", finding[0])
        _one_bool(f"supports of finding {i}", finding[1])
    row = claims()[claim]
    return Verdict(
        claim, row["claim"], row["source"], tuple(Finding(text, bool(supports)) for text, supports in findings)
    )


def _one_bool(name: str, value: Any) -> None:
    """TypeError unless ``value`` is True or False, as Python, numpy or torch compare numbers: 'no' would count as true."""
    one = isinstance(value, np.bool_) or (
        isinstance(value, torch.Tensor) and value.dtype == torch.bool and value.numel() == 1
    )
    if not one:
        checks.truth(name, value)
