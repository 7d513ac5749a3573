"""The rotation on a static page, without a kernel or a network, in a real Chromium."""

import re

import pytest
import torch

from course_lib.model.quantize import butterflies
from course_lib.widgets.butterfly import Butterfly


def numbers_of(page, column: int) -> list[float]:
    return [float(t.replace("−", "-")) for t in page.locator(f'[data-cell^="{column},"] text').all_text_contents()]


@pytest.mark.browser
def test_the_rotation_computes_as_the_library_does(show) -> None:
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
    check()
    page.get_by_label("size of an outlier").fill("9")
    row[5] = 2000
    check()
    page.get_by_role("button", name="new signs").click()
    flipped = torch.tensor(numbers_of(page, 1)) * row
    assert torch.equal(flipped.abs(), row.square())
    page.get_by_role("button", name="all signs +").click()
    signs.fill_(1)
    check()
    assert page.locator(".course-clickable").bounding_box()["height"] <= 720


@pytest.mark.browser
def test_what_a_number_is_made_of_adds_up(show) -> None:
    page = show(Butterfly())
    for cell in ("2,1", "3,2", "4,5", "4,7"):
        page.locator(f'[data-cell="{cell}"]').click()
        value, terms, root = re.fullmatch(
            r"(.*) = \((.*)\) / √(\d)", page.locator(".formula").inner_text().replace("−", "-")
        ).groups()
        assert sum(float(t.replace(" ", "")) for t in re.findall(r"[+-]? ?[\d.]+", terms)) / int(
            root
        ) ** 0.5 == pytest.approx(float(value), rel=6e-3, abs=0.02)
    page.locator('[data-cell="4,0"]').focus()
    for key in ("ArrowDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert page.locator('[data-cell="3,1"]').evaluate("node => node === document.activeElement")
    assert page.locator(".formula").inner_text().startswith(page.locator('[data-cell="3,1"] text').text_content())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Butterfly([1, 2, 3]), ValueError, "row has 3 numbers; pass 2, 4, 8 or 16"),
        (lambda: Butterfly([1, 2], outlier=2), ValueError, "outlier is 2; pass a whole number from 0 to 1"),
    ],
)
def test_bad_input(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()
