"""The clickable pictures on a static page, without a kernel or a network, in a real Chromium; and what Python gives them."""

import json
import re

import pytest
import torch
from browsing import browser, show  # noqa: F401 - fixtures

from course_lib import algorithms, notebooks, pages, softmax
from course_lib.formats import FORMATS, bits, rounded
from course_lib.quantize import butterflies
from course_lib.widgets.butterfly import Butterfly
from course_lib.widgets.number import NumberLine
from course_lib.widgets.stepper import SoftmaxStepper
from course_lib.widgets.tiles import TileExplorer
from course_lib.widgets.timeline import PipelineTimeline

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
    shown = {}
    for row in view.locator("tr[data-tensor]").all():
        cells = [cell.inner_text().split(" = ")[0].replace(",", "") for cell in row.locator("td").all()]
        shown[row.get_attribute("data-tensor")] = [int(cell or 0) for cell in cells]
    return shown


# --- the tile explorer ---


@pytest.mark.browser
def test_every_counter_is_the_traces_at_the_last_step(show) -> None:  # noqa: F811
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
def test_a_click_on_a_tile_of_c_brings_its_terms_in_one_by_one(show) -> None:  # noqa: F811
    page = show(matmul_picture())
    page.locator('[data-tile="C:0,0"]').click()
    page.get_by_text("term 1: A(0,0)·B(0,0) = [1 2; 13 14]").wait_for()
    assert page.get_by_text("term 2:").count() == 0
    for tile, lit in (("A:0,1", True), ("B:1,0", True), ("A:1,0", False), ("B:0,1", False)):
        assert ("needed" in page.locator(f'[data-tile="{tile}"]').get_attribute("class")) == lit
    page.get_by_text("term 2: A(0,1)·B(1,0) = [5 5; 13 13]").wait_for()
    page.get_by_text("sum = [6 7; 26 27]").wait_for()


@pytest.mark.browser
def test_the_held_block_stays_lit_while_the_others_stream_past(show) -> None:  # noqa: F811
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
def test_a_click_on_a_block_of_s_shows_its_numbers(show) -> None:  # noqa: F811
    picture = TileExplorer({"V2": algorithms.flash_v2}, Q, K, V, block_m=2, block_n=2)
    page = show(picture)
    page.locator('[data-tile="S:1,2"]').click()
    text = page.locator(".detail").inner_text()
    scores = (Q[2:4].double() @ K[4:6].double().T / 2).tolist()
    assert "S(1,2) = Q1 K2ᵀ / √d" in text
    states = softmax.online_states((Q[2].double() @ K[:6].double().T / 2).tolist(), 2)
    factor = float(softmax.correction([states[1].m], [states[2].m])[0])
    for words in (
        f"{scores[0][0]:.2f}  {scores[0][1]:.2f}",
        f"m = {float(states[2].m):.3f}   l = {float(states[2].l):.3f}   old l and O × {factor:.3f}",
    ):
        assert words in text


@pytest.mark.browser
def test_side_by_side_steps_both(show) -> None:  # noqa: F811
    page = show(TileExplorer({"V1": algorithms.linear_v1, "V2": algorithms.linear_v2}, Q, K, V, block_m=2, block_n=2))
    page.get_by_label("algorithm", exact=True).select_option("both")
    page.locator(".tiles").focus()
    page.keyboard.press("End")
    first, second = (counters(page.locator(".view").nth(i))["O"] for i in (0, 1))
    assert (first[2], second[2]) == (16, 4)
    assert page.locator(".course-clickable").bounding_box()["height"] <= 720


@pytest.mark.browser
def test_keys_alone_are_enough(show) -> None:  # noqa: F811
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


# --- the softmax stepper ---


@pytest.mark.browser
def test_the_stepper_ends_at_five_and_1203_by_keys(show) -> None:  # noqa: F811
    page = show(SoftmaxStepper([3, 2, 5, 1]))
    page.locator(".stepper").focus()
    for words in ("(3, 1.000)", "(3, 1.368)", "(5, 1.185)", "(5, 1.203)"):
        page.keyboard.press("ArrowRight")
        page.get_by_text(f"(m, l) = {words}").wait_for()
    weights = [float(x.get_attribute("data-weight")) for x in page.locator("[data-weight]").all()]
    assert weights == pytest.approx([0.135, 0.050, 1.0, 0.018])


@pytest.mark.browser
def test_the_stepper_computes_as_the_library_does(show) -> None:  # noqa: F811
    page = show(SoftmaxStepper())
    for text, block in (("1, 1", 1), ("-50 -40 -30", 2), ("7 6 5 4 3 2 1", 4), ("0.5,1e3,-2", 1), ("4", 8)):
        page.get_by_label("scores", exact=True).fill(text)
        page.get_by_label("block size").select_option(str(block))
        page.locator(".stepper").focus()
        page.keyboard.press("End")
        last = softmax.online_states([float(x) for x in text.replace(",", " ").split()], block)[-1]
        assert f"{float(last.l):.3f})" in page.locator(".formula").inner_text()
    page.get_by_label("scores", exact=True).fill("−3; −2")  # a real minus sign, as the page prints it
    assert page.get_by_role("alert").inner_text() == ""
    for text in ("", "1, abc", "1, nan", ",".join("1" * 25)):
        page.get_by_label("scores", exact=True).fill(text)
        assert "type" in page.get_by_role("alert").inner_text()


# --- the number line ---


def kept(page) -> dict[str, str]:
    """What the table says that each format keeps."""
    return {
        row.get_attribute("data-format"): row.locator("td").nth(1).inner_text()
        for row in page.locator("tr[data-format]").all()
    }


@pytest.mark.browser
def test_the_number_line_rounds_as_the_library_does(show) -> None:  # noqa: F811
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
def test_bits_and_keys_walk_the_number_line(show) -> None:  # noqa: F811
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


# --- the rotation ---


def numbers_of(page, column: int) -> list[float]:
    return [float(t.replace("−", "-")) for t in page.locator(f'[data-cell^="{column},"] text').all_text_contents()]


@pytest.mark.browser
def test_the_rotation_computes_as_the_library_does(show) -> None:  # noqa: F811
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
def test_what_a_number_is_made_of_adds_up(show) -> None:  # noqa: F811
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


# --- pages ---


@pytest.mark.browser
def test_a_lecture_as_a_page_works_without_kernel_and_network(show) -> None:  # noqa: F811
    path = next(p for p in notebooks.lectures() if p.name.startswith("03"))
    text = pages.page(path)
    assert not [words for words in ("<script src", "<link rel='stylesheet'", 'src="http', "@import") if words in text]
    page = show(text=text)
    assert page.locator("math").count() > 10
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator('[data-tile="C:0,0"]').click()
    page.get_by_text("term 2: A(0,1)·B(1,0)").wait_for()
    assert page.get_by_text("Its controls need a kernel").count() >= 3


# --- what Python refuses ---


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TileExplorer({}), ValueError, "algorithms is empty; pass at least one"),
        (lambda: TileExplorer({"V1": algorithms.flash_v1}, Q, K, V, block_m=0, block_n=2), ValueError, "block_m is 0"),
        (
            lambda: TileExplorer({"V1": algorithms.flash_v1}, *[torch.ones(512, 4)] * 3, block_m=8, block_n=8),
            ValueError,
            "V1 has .* events, more than 20,000; pass smaller matrices or larger blocks",
        ),
        (lambda: NumberLine(3, "fp12"), ValueError, "format is 'fp12'; choose one of"),
        (lambda: NumberLine(float("inf")), ValueError, "start is inf; pass a finite number"),
        (lambda: SoftmaxStepper([]), ValueError, "empty"),
        (lambda: SoftmaxStepper([1, float("nan")]), ValueError, "NaN"),
        (lambda: SoftmaxStepper([1] * 25), ValueError, "scores has 25 numbers; pass at most 24"),
        (lambda: SoftmaxStepper([1], block=3), ValueError, "block is 3; choose one of 1, 2, 4, 8"),
        (lambda: Butterfly([1, 2, 3]), ValueError, "row has 3 numbers; pass 2, 4, 8 or 16"),
        (lambda: Butterfly([1, 2], outlier=2), ValueError, "outlier is 2; pass the index of a number"),
        (lambda: PipelineTimeline(stages=0), ValueError, "stages is 0"),
        (lambda: PipelineTimeline(mode="fast"), ValueError, "mode is 'fast'; choose one of"),
        (lambda: PipelineTimeline(load=0), ValueError, "load is 0; pass a duration above 0"),
        (lambda: PipelineTimeline(mode="two-stage overlap", stages=1), ValueError, "stages is 1; pass at least 2"),
        (lambda: PipelineTimeline(speed=2), TypeError, "no argument named 'speed'; choose from blocks, consumers"),
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
