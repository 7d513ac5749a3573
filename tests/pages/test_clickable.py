"""Clickable pictures on a static page, without a kernel or a network, in a real Chromium: they compute as the library does."""

import math
import re

import pytest
import torch

from course_lib import algorithms
from course_lib.kernels.kv_cache import KVCache
from course_lib.model import softmax
from course_lib.model.formats import FORMATS, bits, rounded
from course_lib.widgets.number import NumberLine
from course_lib.widgets.pages import NAMES, PagePicture
from course_lib.widgets.stepper import SoftmaxStepper
from course_lib.widgets.tiles import TileExplorer

pytestmark = pytest.mark.browser
Q, K, V = (torch.arange(32.0).reshape(8, 4).roll(i) / 16 for i in range(3))
ATTENTION = {
    "standard": algorithms.standard_attention,
    "V1": algorithms.flash_v1,
    "V2": algorithms.flash_v2,
}


def attention_picture() -> TileExplorer:
    return TileExplorer(ATTENTION, Q, K, V, block_m=2, block_n=2)


def matmul_picture() -> TileExplorer:
    a, b = torch.arange(16.0).reshape(4, 4), torch.eye(4) + 1
    return TileExplorer({"tiled": algorithms.tiled_matmul}, a, b, block_m=2, block_n=2, block_k=2)


def counters(view) -> dict[str, list[int]]:
    """What the table of a view shows: tensor -> [loads, bytes read, stores, bytes written]."""
    rows = view.locator("tr[data-tensor]").evaluate_all("""rows => rows.map(
      row => [row.dataset.tensor, [...row.querySelectorAll('td')].map(cell => cell.innerText)]
    )""")
    return {name: [int(cell.split(" = ")[0].replace(",", "") or 0) for cell in cells] for name, cells in rows}


def test_at_its_last_step_the_tile_explorer_has_counted_what_the_simulated_memory_counts(show) -> None:
    for picture in (attention_picture(), matmul_picture()):
        page = show(picture)
        for name, run in picture.runs.items():
            if len(picture.runs) > 1:
                page.get_by_label("algorithm", exact=True).select_option(label=name)
            page.locator(".tiles").focus()
            page.keyboard.press("End")
            traffic, trace = run.memory.traffic(), run.memory.trace
            for tensor, shown in counters(page.locator(".view")).items():
                count = {op: sum(e.op == op and e.tensor == tensor for e in trace) for op in ("load", "store")}
                bytes_ = traffic.reads.get(tensor, 0), traffic.writes.get(tensor, 0)
                assert shown == [count["load"], bytes_[0], count["store"], bytes_[1]], (name, tensor)
        page.close()


def test_a_click_on_a_tile_shows_its_terms_and_numbers(show) -> None:
    page = show(matmul_picture())
    page.locator('[data-tile="C:0,0"]').click()
    page.get_by_text("term 1: A(0,0)·B(0,0) = [1 2; 13 14]").wait_for()
    page.get_by_text("term 2: A(0,1)·B(1,0) = [5 5; 13 13]").wait_for()
    page.get_by_text("sum = [6 7; 26 27]").wait_for()

    page = show(TileExplorer({"V2": algorithms.flash_v2}, Q, K, V, block_m=2, block_n=2))
    page.locator('[data-tile="S:1,2"]').click()
    text = page.locator(".detail").inner_text()
    scores = (Q[2:4].double() @ K[4:6].double().T / 2).tolist()
    states = softmax.online_states(Q[2].double() @ K[:6].double().T / 2, 2)
    factor = float(torch.exp(states[1].m - states[2].m))
    for words in (
        f"{scores[0][0]:.2f}  {scores[0][1]:.2f}",
        f"m = {float(states[2].m):.3f}   l = {float(states[2].l):.3f}   old l and O × {factor:.3f}",
    ):
        assert words in text


def test_the_held_block_of_a_loop_order_stays_lit_while_the_others_stream_past(show) -> None:
    page = show(TileExplorer({"V1": algorithms.linear_v1, "V2": algorithms.linear_v2}, Q, K, V, block_m=2, block_n=2))
    for order, held, streams in (("V1", "K:1,0", "Q"), ("V2", "Q:1,0", "K")):
        page.get_by_label("algorithm", exact=True).select_option(label=order)
        page.locator(f'[data-tile="{held}"]').click()
        page.locator(".tiles").focus()
        page.keyboard.press("ArrowLeft")
        seen: set[str] = set()
        for _ in range(40):
            page.keyboard.press("ArrowRight")
            lit = page.locator(".cell.held").evaluate_all("all => all.map(cell => cell.dataset.tile)")
            seen |= {tile for tile in lit if held in lit and tile and tile[0] == streams}
        assert len(seen) == 4, (order, seen)
    page.get_by_label("algorithm", exact=True).select_option("both")
    page.locator(".tiles").focus()
    page.keyboard.press("End")
    assert [counters(page.locator(".view").nth(i))["O"][2] for i in (0, 1)] == [16, 4]


def test_keys_alone_are_enough(show) -> None:
    page = show(matmul_picture())
    page.keyboard.press("Tab")
    for key, step in (("ArrowRight", "1"), ("ArrowRight", "2"), ("ArrowLeft", "1")):
        page.keyboard.press(key)
        assert page.get_by_label("step", exact=True).input_value() == step
    page.keyboard.press("Space")
    page.get_by_text("❚❚ pause").wait_for()
    page.keyboard.press("Space")
    page.get_by_text("▶ play").wait_for()
    page.locator('[data-tile="C:0,1"]').focus()
    page.keyboard.press("Enter")
    page.get_by_text("term 1: A(0,0)·B(0,1)").wait_for()


def test_the_stepper_computes_as_the_library_does_and_asks_for_numbers(show) -> None:
    page = show(SoftmaxStepper([3, 2, 5, 1]))
    page.locator(".stepper").focus()
    for words in ("(3, 1.000)", "(3, 1.368)", "(5, 1.185)", "(5, 1.203)"):
        page.keyboard.press("ArrowRight")
        page.get_by_text(f"(m, ℓ) = {words}").wait_for()
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


def test_the_number_line_rounds_as_the_library_does(show) -> None:
    page = show(NumberLine(3.0, "fp16"))
    for text in ("3.14", "2049", "-1e-7", "70000", "3e38", "1e-40", "0", "464", "0.0146484375"):
        page.get_by_label("number", exact=True).fill(text)
        shown = page.evaluate("""() => Object.fromEntries([...document.querySelectorAll('tr[data-format]')]
          .map(row => [row.dataset.format, row.querySelectorAll('td')[1].innerText]))""")
        for name, form in FORMATS.items():
            x = float(rounded(torch.tensor(float(text), dtype=torch.float64), name))
            words = shown[name].replace("−", "-").replace("∞", "inf")
            assert float(words) == pytest.approx(x, rel=1e-5, abs=0), (text, name)
            if abs(float(text)) <= form.largest:
                page.get_by_label("format", exact=True).select_option(name)
                assert "".join(bits(float(text), name)) == "".join(page.locator(".bit").all_inner_texts()), (text, name)
    for text in ("", "abc", "1e999", "nan"):
        page.get_by_label("number", exact=True).fill(text)
        assert "type for example" in page.get_by_role("alert").inner_text()


def pages_of(page) -> dict[str, list[int]]:
    return {name: [int(t) for t in page.locator(f'[data-slot^="{name},"]').all_text_contents()] for name in NAMES}


def test_the_paged_cache_takes_pages_as_the_cache_does(show) -> None:
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
        assert pages_of(page) == dict(zip(NAMES, held))
    last = int(cache.lengths[0]) // 4 - 1
    page.locator(f'[data-token="A,{last}"]').click()
    said = re.search(
        r"= (\d+), table A\[\d+\] = page (\d+), row \d+ % 4 = (\d+)", page.locator(".formula").first.inner_text()
    )
    slot, number, row = map(int, said.groups())  # type: ignore[union-attr]
    assert (slot, row, number) == (last // 4, last % 4, pages_of(page)["A"][last // 4])


def test_an_unmasked_tail_is_nan_and_hides_behind_what_an_ended_sequence_left(show) -> None:
    page = show(PagePicture("AAAAAB"))
    result = page.locator(".formula").nth(1)
    assert ": 2, from 5 tokens and 3 rows" in result.inner_text()
    page.get_by_label("V masked, too").uncheck()
    assert ": NaN, from 5 tokens" in result.inner_text()

    page = show(PagePicture("AAAABBBBCCCCAAAABBBB", pages=5))
    page.get_by_role("button", name="C + 1 token").click()
    assert page.locator(".formula").first.inner_text() == "No page is free: end a sequence."
    page.get_by_role("button", name="end A").click()
    page.get_by_role("button", name="C + 1 token").click()
    assert pages_of(page) == {"A": [], "B": [1, 4], "C": [2, 0]}
    page.get_by_label("V masked, too").uncheck()
    assert math.isclose(float(re.search(r"…: (\S+),", page.locator(".formula").nth(1).inner_text())[1]), 2)
