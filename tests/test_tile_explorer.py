"""The tile explorer on a static page, without a kernel or a network, in a real Chromium."""

import json
import math

import pytest
import torch

from course_lib import algorithms
from course_lib.model import softmax
from course_lib.widgets.tiles import TileExplorer

Q, K, V = (torch.arange(32.0).reshape(8, 4).roll(i) / 16 for i in range(3))
ATTENTION = {
    "standard": algorithms.standard_attention,
    "lite": algorithms.lite_attention,
    "online": algorithms.online_attention,
    "linear V1": algorithms.linear_v1,
    "linear V2": algorithms.linear_v2,
    "V1": algorithms.flash_v1,
    "running": algorithms.flash_running,
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


@pytest.mark.browser
def test_every_counter_is_the_traces_at_the_last_step(show) -> None:
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


@pytest.mark.browser
def test_a_click_on_a_tile_of_c_brings_its_terms_in_one_by_one(show) -> None:
    page = show(matmul_picture())
    page.locator('[data-tile="C:0,0"]').click()
    page.get_by_text("term 1: A(0,0)·B(0,0) = [1 2; 13 14]").wait_for()
    assert page.get_by_text("term 2:").count() == 0
    for tile, lit in (("A:0,1", True), ("B:1,0", True), ("A:1,0", False), ("B:0,1", False)):
        assert ("needed" in page.locator(f'[data-tile="{tile}"]').get_attribute("class")) == lit
    page.get_by_text("term 2: A(0,1)·B(1,0) = [5 5; 13 13]").wait_for()
    page.get_by_text("sum = [6 7; 26 27]").wait_for()


@pytest.mark.browser
def test_the_held_block_stays_lit_while_the_others_stream_past(show) -> None:
    page = show(TileExplorer({"V1": algorithms.linear_v1, "V2": algorithms.linear_v2}, Q, K, V, block_m=2, block_n=2))
    for order, held, streams in (("V1", "K:1,0", "Q"), ("V2", "Q:1,0", "K")):
        page.get_by_label("algorithm", exact=True).select_option(label=order)
        page.locator(f'[data-tile="{held}"]').click()
        page.locator(".tiles").focus()
        page.keyboard.press("ArrowLeft")
        seen = set()
        for _ in range(40):
            page.keyboard.press("ArrowRight")
            lit = {box.get_attribute("data-tile") for box in page.locator(".cell.held").all()}
            if held in lit:
                seen |= {tile for tile in lit if tile and tile[0] == streams}
        assert len(seen) == 4, (order, seen)


@pytest.mark.browser
def test_a_click_on_a_block_of_s_shows_its_numbers(show) -> None:
    picture = TileExplorer({"V2": algorithms.flash_v2}, Q, K, V, block_m=2, block_n=2)
    page = show(picture)
    page.locator('[data-tile="S:1,2"]').click()
    text = page.locator(".detail").inner_text()
    scores = (Q[2:4].double() @ K[4:6].double().T / 2).tolist()
    assert "S(1,2) = Q1 K2ᵀ / √d" in text
    states = softmax.online_states(Q[2].double() @ K[:6].double().T / 2, 2)
    factor = math.exp(states[1].m - states[2].m)
    for words in (
        f"{scores[0][0]:.2f}  {scores[0][1]:.2f}",
        f"m = {float(states[2].m):.3f}   l = {float(states[2].l):.3f}   old l and O × {factor:.3f}",
    ):
        assert words in text


@pytest.mark.browser
def test_side_by_side_steps_both(show) -> None:
    page = show(TileExplorer({"V1": algorithms.linear_v1, "V2": algorithms.linear_v2}, Q, K, V, block_m=2, block_n=2))
    page.get_by_label("algorithm", exact=True).select_option("both")
    page.locator(".tiles").focus()
    page.keyboard.press("End")
    first, second = (counters(page.locator(".view").nth(i))["O"] for i in (0, 1))
    assert (first[2], second[2]) == (16, 4)
    assert page.locator(".course-clickable").bounding_box()["height"] <= 720


@pytest.mark.browser
def test_keys_alone_are_enough(show) -> None:
    page = show(matmul_picture())
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.get_by_label("step", exact=True).input_value() == "2"
    page.keyboard.press("ArrowLeft")
    assert page.get_by_label("step", exact=True).input_value() == "1"
    page.keyboard.press("Space")
    page.get_by_text("❚❚ pause").wait_for()
    page.keyboard.press("Space")
    page.get_by_text("▶ play").wait_for()
    page.locator('[data-tile="C:0,1"]').focus()
    page.keyboard.press("Enter")
    page.get_by_text("term 1: A(0,0)·B(0,1)").wait_for()


def test_a_click_on_a_loaded_tile_leads_to_a_step_at_which_it_is_on_the_chip() -> None:
    for picture in (attention_picture(), matmul_picture()):
        for run in picture.data["runs"]:
            held: set[str] = set()
            at = [set(held)]
            for op, name, *_ in run["events"]:
                if op == 0:
                    held |= {name}
                if op == 3:
                    held -= {name}
                at.append(set(held))
            for key, target in run["targets"].items():
                names = {name for name, keys in run["places"].items() if key in keys}
                loaded = {e[1] for e in run["events"] if e[0] == 0}
                if names & loaded and key[0] not in "CS":
                    assert names & at[target["begin"]], (run["name"], key)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: TileExplorer({"V1": algorithms.flash_v1}, *[torch.ones(512, 4)] * 3, block_m=8, block_n=8),
            ValueError,
            "V1 takes .* steps; pass smaller matrices",
        ),
    ],
)
def test_bad_input(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


def test_data_is_json_and_cannot_end_its_script() -> None:
    picture = matmul_picture()
    assert json.loads(json.dumps(dict(picture.data)))["runs"][0]["name"] == "tiled"
    picture = TileExplorer(
        {"</script>": algorithms.tiled_matmul}, torch.eye(2), torch.eye(2), block_m=2, block_n=2, block_k=2
    )
    assert picture.page_html().count("</script>") == 1
