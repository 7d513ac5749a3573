"""The ring of ranks as a picture: in the page it counts as the library does; and what it may be drawn with."""

import re

import pytest

from course_lib.model import parallel
from course_lib.widgets.ring import LENGTH, RingSteps


def counted(page) -> list[int]:
    labels = page.locator("[data-rank]").evaluate_all("rows => rows.map(row => row.getAttribute('aria-label'))")
    return [int(re.search(r"(\d+) pairs", label).group(1)) for label in labels]


@pytest.mark.browser
def test_the_ring_counts_as_the_library_does(show) -> None:
    page = show(RingSteps())
    for order in parallel.ORDERS:
        page.get_by_label("order", exact=True).select_option(order)
        for ranks, mask in ((2, "causal"), (8, "causal"), (4, "none")):
            page.get_by_label("ranks", exact=True).select_option(str(ranks))
            page.get_by_label("mask", exact=True).select_option(mask)
            for step, pairs in enumerate(parallel.step_pairs(order, ranks, LENGTH, mask == "causal")):
                assert page.locator(".where").inner_text() == f"step {step + 1} of {ranks}"
                assert counted(page) == pairs, (order, ranks, mask, step)
                assert page.locator('[data-strong="true"]').count() == sum(pairs)
                page.get_by_role("button", name="the next step").click()
            share = parallel.efficiency(order, ranks, LENGTH, mask == "causal")
            assert f"worked {100 * share:.0f} % of the time" in page.locator(".formula").inner_text()
    assert page.locator(".course-clickable").bounding_box()["height"] <= 720


@pytest.mark.browser
def test_the_ring_answers_to_keys_and_shows_one_rank_alone(show) -> None:
    page = show(RingSteps("zigzag", 2))
    page.locator('[data-rank="0"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".where").inner_text() == "step 2 of 2"
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert page.locator('[data-rank="1"]').get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowLeft")
    assert page.locator(".where").inner_text() == "step 1 of 2"
