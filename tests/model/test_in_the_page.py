"""What a page computes by itself is what the library computes: the rotation, the ring, the pipeline; in a real Chromium."""

import itertools
import re
from pathlib import Path

import pytest
import torch

from course_lib.model import parallel, pipeline
from course_lib.model.quantize import butterflies
from course_lib.widgets.butterfly import Butterfly
from course_lib.widgets.ring import LENGTH, RingSteps
from course_lib.widgets.timeline import PipelineTimeline


def numbers_of(page, column: int) -> list[float]:
    return [float(t.replace("−", "-")) for t in page.locator(f'[data-cell^="{column},"] text').all_text_contents()]


@pytest.mark.browser
def test_the_rotation(show) -> None:
    page = show(Butterfly([3, 2, 5, 1, 4, 2, 1, 3], outlier=2, size=50))
    row, signs = torch.tensor([3.0, 2, 250, 1, 4, 2, 1, 3]), torch.ones(8)

    def check() -> None:
        assert numbers_of(page, 0) == row.tolist()
        for i, stage in enumerate(butterflies(row * signs)):
            assert numbers_of(page, 1 + i) == pytest.approx(stage.tolist(), rel=6e-3, abs=1e-6)

    check()
    for i in (1, 6):  # signs flip
        page.locator(f'[data-cell="1,{i}"]').click()
        signs[i] = -1
    check()
    page.locator('[data-cell="0,2"]').click()  # the outlier goes, another comes
    page.locator('[data-cell="0,5"]').click()
    row[2], row[5] = 5, 100
    page.get_by_label("size of an outlier").fill("9")
    row[5] = 2000
    check()
    page.locator('[data-cell="4,5"]').click()  # what the number is made of
    text = page.locator(".formula").inner_text().replace("−", "-")
    value, terms, root = re.fullmatch(r"(.*) = \((.*)\) / √(\d)", text).groups()
    total = sum(float(t.replace(" ", "")) for t in re.findall(r"[+-]? ?[\d.]+", terms))
    assert total / int(root) ** 0.5 == pytest.approx(float(value), rel=6e-3, abs=0.02)
    page.keyboard.press("ArrowDown")
    assert page.locator('[data-cell="4,6"]').evaluate("node => node === document.activeElement")


@pytest.mark.browser
def test_the_ring(show) -> None:
    page = show(RingSteps())
    for order, ranks, mask in (("contiguous", 2, "causal"), ("zigzag", 8, "causal"), ("striped", 4, "none")):
        for label, option in (("order", order), ("ranks", str(ranks)), ("mask", mask)):
            page.get_by_label(label, exact=True).select_option(option)
        for step, pairs in enumerate(parallel.step_pairs(order, ranks, LENGTH, mask == "causal")):
            labels = page.locator("[data-rank]").evaluate_all("all => all.map(row => row.getAttribute('aria-label'))")
            assert [int(re.search(r"(\d+) pairs", label).group(1)) for label in labels] == pairs, (order, step)
            assert page.locator('[data-strong="true"]').count() == sum(pairs)
            page.get_by_role("button", name="the next step").click()
        share = parallel.efficiency(order, ranks, LENGTH, mask == "causal")
        assert f"worked {100 * share:.0f} % of the time" in page.locator(".formula").inner_text()
    page.locator('[data-rank="0"]').focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".where").inner_text() == "step 3 of 4"


@pytest.mark.browser
def test_the_pipeline(show) -> None:
    page = show(PipelineTimeline(softmax=4.0))
    module = (Path(pipeline.__file__).parents[1] / "widgets" / "js" / "pipeline.js").read_text()
    page.evaluate(
        """async (text) => { const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
           window.pipeline = await import(url); }""",
        module,
    )
    cases = []
    for blocks, consumers, buffers, mode in itertools.product((1, 5), (1, 2, 3), (1, 2, 3), pipeline.MODES):
        if buffers == 1 and (mode == "two-stage overlap" or (mode == "ping-pong" and consumers > 1)):
            continue
        for load, qk, soft, pv in ((2, 2, 2, 2), (0.5, 1, 3.5, 1.5), (4, 1, 0.5, 2)):
            arguments = {"blocks": blocks, "consumers": consumers, "buffers": buffers, "mode": mode}
            cases.append(arguments | {"load": load, "qk": qk, "softmax": soft, "pv": pv})
    computed = page.evaluate(
        "(all) => all.map(pipeline.simulate).map(found => [found, pipeline.idleFraction(found)])", cases
    )
    for arguments, (theirs, idle) in zip(cases, computed, strict=True):
        ours = pipeline.simulate(**arguments)
        assert [(s["warpgroup"], s["kind"], s["block"]) for s in theirs] == [s[:3] for s in ours], arguments
        times = [x for s in ours for x in (s.start, s.end)]
        assert [x for s in theirs for x in (s["start"], s["end"])] == pytest.approx(times)
        assert idle == pytest.approx(pipeline.idle_fraction(ours))
    page.get_by_label("how work overlaps").select_option("two-stage overlap")
    page.get_by_label("buffers").focus()
    page.keyboard.press("Home")
    assert "at least 2 buffers" in page.get_by_role("alert").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("alert").inner_text() == ""


BAD = [
    (lambda: PipelineTimeline(mode="fast"), "mode is 'fast'; choose one of 'many warps', 'multistage'"),
    (lambda: PipelineTimeline(mode="two-stage overlap", buffers=1), "buffers is 1; pass at least 2"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
