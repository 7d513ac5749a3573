"""Shakespeare's plays as numbers of characters, split by play. Where they are from: data/README.md."""

import functools
import lzma
from typing import NamedTuple

import torch

from course_lib import checks
from course_lib.data import DATA

KINDS = ("comedies", "histories", "tragedies")
SEVEN = (
    "hamlet", "lear", "macbeth", "merchant_of_venice", "midsummer_nights_dream", "romeo_and_juliet", "twelfth_night",
)  # fmt: skip
HELD_OUT = ("henry_v", "julius_caesar", "twelfth_night")  # nobody trains on them
PROMPT = "\n\nACT I.\n\nSCENE I. "  # how a play begins: what a model goes on from


class Text(NamedTuple):
    """Plays as numbers: ``train`` and ``validation`` are int64, number i is the character letters[i]."""

    letters: str
    train: torch.Tensor
    validation: torch.Tensor
    plays: tuple[str, ...]
    held_out: tuple[str, ...]

    def encode(self, words: str) -> torch.Tensor:
        """[n] numbers of n characters; raises ValueError for one that the plays do not have."""
        for letter in checks.text("words", words):
            if letter not in self.letters:
                raise ValueError(f"words holds {letter!r}; the plays have only {self.letters!r}")
        return _numbers(words, self.letters)

    def decode(self, numbers: torch.Tensor) -> str:
        """The characters of [n] numbers, or of [1, n]. Raises ValueError for a number of no character."""
        found, most = numbers.flatten().tolist(), len(self.letters)
        if wrong := [i for i in found if not 0 <= i < most]:
            raise ValueError(f"numbers holds {wrong[0]}; the plays have {most} characters: pass 0 to {most - 1}")
        return "".join(self.letters[i] for i in found)


@functools.cache
def plays() -> dict[str, str]:
    """The 37 plays by name. Raises ValueError naming a file that is damaged."""
    found: dict[str, str] = {}
    for kind in KINDS:
        path = DATA / "shakespeare" / f"{kind}.txt.xz"
        try:
            parts = lzma.decompress(path.read_bytes()).decode("ascii").split("\f")[1:]
        except (lzma.LZMAError, EOFError) as error:
            raise ValueError(f"shakespeare/{path.name} is damaged: {error}; get it again") from None
        found |= {name: text for name, _, text in (part.partition("\n") for part in parts)}
    return found


@functools.cache
def load_text(whole: bool = False) -> Text:
    """Seven plays, 0.9 million characters, one of them held out for validation, or, ``whole``, all 37 with three held out.

    The characters are numbered by all plays, so that a model of the one reads the other.
    """
    checks.truth("whole", whole)
    every = plays()
    letters = "".join(sorted(set("".join(every.values()))))
    taken = [name for name in (every if whole else SEVEN) if name not in HELD_OUT]
    held_out = [name for name in (HELD_OUT if whole else SEVEN) if name in HELD_OUT]
    train, validation = (_numbers("\n\n".join(every[name] for name in names), letters) for names in (taken, held_out))
    return Text(letters, train, validation, tuple(taken), tuple(held_out))


def _numbers(words: str, letters: str) -> torch.Tensor:
    number = torch.zeros(128, dtype=torch.int64)
    number[[ord(letter) for letter in letters]] = torch.arange(len(letters))
    return number[torch.tensor(list(words.encode("ascii")), dtype=torch.int64)]
