"""The softmax stepper on a static page, without a kernel or a network, in a real Chromium."""

import pytest
import torch

from course_lib.model import softmax
from course_lib.widgets.stepper import SoftmaxStepper


@pytest.mark.browser
def test_the_stepper_ends_at_five_and_1203_by_keys(show) -> None:
    page = show(SoftmaxStepper([3, 2, 5, 1]))
    page.locator(".stepper").focus()
    for words in ("(3, 1.000)", "(3, 1.368)", "(5, 1.185)", "(5, 1.203)"):
        page.keyboard.press("ArrowRight")
        page.get_by_text(f"(m, ℓ) = {words}").wait_for()
    terms = [float(x.get_attribute("data-term")) for x in page.locator("[data-term]").all()]
    assert terms == pytest.approx([0.135, 0.050, 1.0, 0.018])


@pytest.mark.browser
def test_the_stepper_computes_as_the_library_does(show) -> None:
    page = show(SoftmaxStepper())
    for text, block in (("1, 1", 1), ("-50 -40 -30", 2), ("7 6 5 4 3 2 1", 4), ("0.5,1e3,-2", 1), ("4", 8)):
        page.get_by_label("scores", exact=True).fill(text)
        page.get_by_label("block size").select_option(str(block))
        page.locator(".stepper").focus()
        page.keyboard.press("End")
        last = softmax.online_states(torch.tensor([float(x) for x in text.replace(",", " ").split()]).double(), block)[
            -1
        ]
        assert f"{float(last.l):.3f})" in page.locator(".formula").inner_text()
    page.get_by_label("scores", exact=True).fill("−3; −2")  # a real minus sign, as the page prints it
    assert page.get_by_role("alert").inner_text() == ""
    for text in ("", "1, abc", "1, nan", ",".join("1" * 25)):
        page.get_by_label("scores", exact=True).fill(text)
        assert "type" in page.get_by_role("alert").inner_text()
