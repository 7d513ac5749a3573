"""The paged cache on a static page, without a kernel or a network, in a real Chromium: it pages as KVCache does."""

import math
import re

import pytest
import torch

from course_lib.kernels.kv_cache import KVCache
from course_lib.widgets.pages import NAMES, PagePicture


def tables_of(page) -> dict[str, list[int]]:
    return {name: [int(t) for t in page.locator(f'[data-slot^="{name},"]').all_text_contents()] for name in NAMES}


def said(page) -> str:
    return page.locator(".formula").first.inner_text()


@pytest.mark.browser
def test_it_takes_pages_as_the_cache_does(show) -> None:
    page = show(PagePicture("", page=4, pages=6))
    cache = KVCache(batch=3, heads_k=1, d=1, room=64, page=16, pages=6)
    token = torch.zeros(3, 1, 1, 1)
    for turn in "AAAAABBCCCCCB.CAAAABBBBA.ACC":
        if turn == ".":
            page.get_by_role("button", name="end B").click()
            cache.clear(1)
            continue
        page.get_by_role("button", name=f"{turn} + 1 token").click()
        for _ in range(4):  # a row of the picture is four of the cache
            cache.append(token, token, counts=[int(turn == name) for name in NAMES])
        held = [[n for n in row if n >= 0] for row in cache.block_table.tolist()]
        assert tables_of(page) == dict(zip(NAMES, held))
    last = int(cache.lengths[0]) // 4 - 1
    page.locator(f'[data-token="A,{last}"]').click()
    slot, number, row = map(
        int, re.search(r"= (\d+), table A\[\d+\] = page (\d+), row \d+ % 4 = (\d+)", said(page)).groups()
    )
    assert (slot, row, number) == (last // 4, last % 4, tables_of(page)["A"][last // 4])
    assert page.locator(f'[data-row="{number},{row}"]').text_content() == f"A{last}"


@pytest.mark.browser
def test_a_tail_that_is_not_masked_is_nan_until_it_is_full(show) -> None:
    page = show(PagePicture("AAAAAB"))
    result = page.locator(".formula").nth(1)
    assert ": 2, from 5 tokens and 3 rows" in result.inner_text()
    page.get_by_label("V masked, too").uncheck()
    assert ": NaN, from 5 tokens" in result.inner_text()
    for _ in range(3):
        page.get_by_role("button", name="A + 1 token").click()
    assert result.inner_text().endswith(": 3.5")
    page.locator('[data-token="B,0"]').focus()
    page.keyboard.press("Enter")
    assert said(page).startswith("token 0 of B: slot 0 // 4 = 0, table B[0] = page 2")
    assert ": NaN" in result.inner_text()
    assert page.locator(".course-clickable").bounding_box()["height"] <= 720


@pytest.mark.browser
def test_pages_run_out_and_come_back(show) -> None:
    page = show(PagePicture("AAAABBBBCCCCAAAABBBB", pages=5))
    page.get_by_role("button", name="C + 1 token").click()
    assert said(page) == "No page is free: end a sequence."
    page.get_by_role("button", name="end A").click()
    assert said(page).startswith("A has ended")
    page.get_by_role("button", name="C + 1 token").click()
    assert tables_of(page) == {"A": [], "B": [1, 4], "C": [2, 0]}
    page.get_by_label("V masked, too").uncheck()
    value = float(re.search(r"…: (\S+),", page.locator(".formula").nth(1).inner_text())[1])
    assert math.isclose(value, 2)  # what an ended sequence left is a number, and hides the bug
