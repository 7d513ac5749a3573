"""The five deliverables of lecture 14: each has a check with a clear message, and an answer of two sentences for the instructor to read.

deliver(3, (gain, crossing), answer="Attention takes 23 % of my step. So no kernel makes it more than 1.3 times as fast.")
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from course_lib.exercises import deliverable_checks as judge
from course_lib.exercises.deliverable_checks import Refused
from course_lib.exercises.sandbox.answering import refused
from course_lib.show.tables import beside_bar

LECTURE = "14"
SENTENCES = 2
IMPORTS = "from course_lib.exercises.deliverables import deliver"

INTRODUCTION = """## Five deliverables

The project takes an afternoon. Each part ends in `deliver(number, …, answer=…)`, which checks your work and says what is missing. Your
answer has two sentences, with at least one number that you measured or computed; it is what your instructor reads."""


class Deliverable(NamedTuple):
    """``asked`` and ``stub`` are the Markdown and the code of its cells; ``check`` raises Refused, or returns what was found, in words.

    ``answers``: functions of the library that would be the work, as of an exercise.
    """

    title: str
    minutes: int
    asked: str
    stub: str
    check: Callable[[Any], Sequence[str]]
    answers: tuple[str, ...] = ()


DELIVERABLES = (
    Deliverable(
        "swap it in", 30,
        """Pass `window_kernel` (lecture 05) if you have not, and train with it. Hand in a causal attention, `(q, k, v) -> o`, [B,
H, N, 16] in float32: `own_kernel.own_attention()` makes one of your kernel, or write your own. The check looks for the
future, for gradients, and for three steps of training beside SDPA. *Answer:* how far apart are the losses, and why may they differ?""",
        "my_attention = own_kernel.own_attention().attend",
        judge.swapped,
        ("course_lib.attention.attention",),
    ),
    Deliverable(
        "judge the curves", 30,
        """Train with two attentions and three seeds each, 30 steps or more: a start for each seed (`torch.manual_seed`), and the
same batches for all (`gpt.fit(…, seed=0)`), because other batches alone set training losses further apart than other
starts. `three_steps` above is a beginning. Hand in the losses of all steps, `{"SDPA": [[…], […], […]], "mine": [[…],
[…], […]]}`. *Answer:* how large are the gap between the attentions and the gap between seeds, and which bug would such
a gap not show?""",
        'runs = {"SDPA": [], "mine": []}',
        judge.judged,
    ),
    Deliverable(
        "count the time", 20,
        """Hand in two functions. `gain(step, attention, faster)` is how many times as fast a step of `step` seconds becomes if its
`attention` seconds become `faster` times as fast. `crossing(width, mlp, causal)` is the context at which attention
takes as many operations as the matmuls with weights: 4 · width² around attention, and `mlp` · width² in the MLP.
*Answer:* which share has attention in *your* step, by the median of `gpt.fit(…).seconds` with it and with `lambda q, k,
v: v` in its place (which also drops the backward pass of the rotations), and what could a kernel of twice the speed
gain you?""",
        """def gain(step, attention, faster): ...


def crossing(width, mlp, causal): ...""",
        judge.counted,
    ),
    Deliverable(
        "one step with a cache", 30,
        """Write what a layer does with one new character. `q`, `k`, `v` are [B, H, 1, d], not turned yet; `keys` and `values` [B,
H, n, d] are what your function has returned for the n characters before, `None` for the first; `turn(x, position)`
turns x by its position, counted from 0. Return `(o, keys, values)`. The check compares with causal attention over all
characters, in float64. *Answer:* by which position must a key be turned, and what would break if old keys were dropped
and the next query counted from the number that is left?""",
        """def cached_step(q, k, v, keys, values, turn): ...""",
        judge.cached,
    ),
    Deliverable(
        "let it talk", 45,
        """`make capstone` trains on any machine and writes `capstone.pt` in the course's folder; `python -m course_lib.gpt --help`
lists what to change. Hand in the path. The check reads the checkpoint, and asks whether your model knows more than
which letter follows which, on a play that it has not read; then it lets it talk, with a cache and without. *Answer:*
what has your model learned and what not, and by which number do you know?""",
        'checkpoint = Path("../capstone.pt")',
        judge.talked,
    ),
)  # fmt: skip
HANDED_IN = ("my_attention", "runs", "(gain, crossing)", "cached_step", "checkpoint")


class Delivered(NamedTuple):
    """What became of a deliverable. status: 'not attempted', 'accepted' or 'not yet'; found: what holds, and what was measured."""

    number: int
    status: str
    found: tuple[str, ...] = ()
    missing: str = ""

    def __repr__(self) -> str:
        head = f"deliverable {self.number}, {DELIVERABLES[self.number - 1].title}: {self.status}"
        if self.status == "not attempted":
            return f"{head}. Replace the three dots by two sentences and run the cell again."
        return "\n".join(
            [head, *(f"  ✓ {words}" for words in self.found), *([f"  ✗ {self.missing}"] if self.missing else [])]
        )

    def _repr_html_(self) -> str:
        return beside_bar(repr(self), {"accepted": True, "not yet": False}.get(self.status))


def deliver(number: int, work: Any, answer: str) -> Delivered:
    """Check the deliverable with this number, 1 to 5: what is handed in, and that the answer has two sentences and a number.

    Raises ValueError for another number. An answer of three dots is not attempted.
    """
    if type(number) is not int or not 1 <= number <= len(DELIVERABLES):
        raise ValueError(f"number is {number!r}; pass 1 to {len(DELIVERABLES)}")
    if str(answer).strip().strip(".…") == "":
        return Delivered(number, "not attempted")
    asked = DELIVERABLES[number - 1]
    try:
        with refused(asked.answers):
            found = tuple(asked.check(work))
    except Refused as reason:
        return Delivered(number, "not yet", tuple(reason.found), str(reason))
    except Exception as error:  # somebody's function, called with what it did not expect
        return Delivered(number, "not yet", (), f"{type(error).__name__}: {error}")
    words = complaint(str(answer))
    return Delivered(number, "not yet" if words else "accepted", found, words)


def complaint(answer: str) -> str:
    """What an answer lacks; '' if nothing. A sentence ends before a space and a capital, or at the end."""
    sentences = len(re.split(r"(?<=[.!?])\s+(?=[A-Z])", answer.strip()))
    if sentences != SENTENCES:
        return f"the answer has {sentences} sentence{'s' * (sentences != 1)}; write {SENTENCES}"
    if not re.search(r"\d", answer):
        return "the answer has no number; say one that you measured or computed"
    return ""


def cells() -> list[tuple[str, str, str]]:
    """(kind, name, source) of the page's cells: what is asked, and a stub with its check."""
    found = [("markdown", "deliverables", INTRODUCTION), ("code", "deliverable-imports", IMPORTS)]
    for number, (d, work) in enumerate(zip(DELIVERABLES, HANDED_IN, strict=True), 1):
        heading = f"### {number}. {d.title.capitalize()}\n\n*About {d.minutes} minutes.* {d.asked}"
        gap = "\n\n\n" if d.stub.startswith("def") else "\n"
        code = f'{d.stub}{gap}deliver({number}, {work}, answer="...")'
        found += [("markdown", f"deliverable-{number}", heading), ("code", f"deliverable-{number}-code", code)]
    return found
