"""The number line on a static page, without a kernel or a network, in a real Chromium."""

import pytest
import torch

from course_lib.model.formats import FORMATS, bits, rounded
from course_lib.widgets.number import NumberLine


def kept(page) -> dict[str, str]:
    """What the table says that each format keeps."""
    return page.evaluate("""() => Object.fromEntries(
      [...document.querySelectorAll('tr[data-format]')].map(row => [row.dataset.format, row.querySelectorAll('td')[1].innerText])
    )""")


@pytest.mark.browser
def test_the_number_line_rounds_as_the_library_does(show) -> None:
    page = show(NumberLine(3.0, "fp16"))
    numbers = ["3.14", "2049", "2051", "-1e-7", "70000", "3e38", "1e-40", "0", "448", "464", "0.0146484375", "2.5e-3"]
    for text in numbers:
        page.get_by_label("number", exact=True).fill(text)
        shown = kept(page)
        for name in FORMATS:
            x = float(rounded(torch.tensor(float(text), dtype=torch.float64), name))
            words = shown[name].replace("−", "-").replace("∞", "inf")
            assert float(words) == pytest.approx(x, rel=1e-5, abs=0), (text, name)
        for name in FORMATS:
            if abs(float(text)) <= FORMATS[name].largest:
                page.get_by_label("format", exact=True).select_option(name)
                assert "".join(bits(float(text), name)) == "".join(page.locator(".bit").all_inner_texts()), (text, name)
    for text in ("", "abc", "1e999", "nan"):
        page.get_by_label("number", exact=True).fill(text)
        assert "type for example" in page.get_by_role("alert").inner_text()


@pytest.mark.browser
def test_bits_and_keys_walk_the_number_line(show) -> None:
    page = show(NumberLine(2048, "fp16"))
    value = page.get_by_label("number", exact=True)
    page.locator(".number").focus()
    page.keyboard.press("ArrowRight")
    assert value.input_value() == "2050"
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    assert value.input_value() == "2047"  # below a power of two the step is half as long
    page.keyboard.press("ArrowUp")
    assert value.input_value() == "4094"
    page.locator('[data-bit="0"]').click()
    assert value.input_value() == "-4094"
    page.locator('.tick[data-value="-4096"]').click()
    assert value.input_value() == "-4096"
    page.get_by_label("format", exact=True).select_option("e5m2")
    for bit in (2, 5):  # all exponent bits
        page.locator(f'[data-bit="{bit}"]').click()
    assert "stand for" in page.get_by_role("alert").inner_text() or value.input_value() != "-4096"
    assert page.locator(".course-clickable").bounding_box()["height"] <= 720
