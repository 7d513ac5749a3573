"""The pipeline simulation: closed forms, what hardware allows, and the page's own copy of it equal to the library's."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from course_lib import plots
from course_lib.model import pipeline
from course_lib.widgets.timeline import PipelineTimeline


def test_one_warpgroup_without_overlap_takes_the_sum_of_its_parts() -> None:
    for load, qk, soft, pv in ((3.0, 1.0, 2.0, 1.0), (0.5, 1.0, 1.0, 1.0)):
        work = qk + soft + pv
        alone = pipeline.simulate(5, 1, 1, load, qk, soft, pv)
        assert alone[-1].end == pytest.approx(5 * (load + work))  # one buffer: load, then work, each time
        ahead = pipeline.simulate(5, 1, 2, load, qk, soft, pv)
        assert ahead[-1].end == pytest.approx(load + 4 * max(load, work) + work)
        assert pipeline.idle_fraction(ahead) == pytest.approx(1 - 5 * (qk + pv) / ahead[-1].end)


def test_before_there_was_a_producer() -> None:
    """Each program alone waits for its copy; others fill its pauses. Copies issued ahead hide as well as a producer's."""
    for buffers in (1, 3):
        alone = pipeline.simulate(5, 1, buffers, 3.0, 1.0, 2.0, 1.0, "many warps")
        assert alone[-1].end == pytest.approx(5 * (3 + 4))
    idle = [pipeline.idle_fraction(pipeline.simulate(6, c, 3, 2, 1, 1, 1, "many warps")) for c in (1, 2, 3)]
    assert idle[0] > idle[1] > idle[2]
    for load in (1.0, 9.0):
        staged, produced = (pipeline.simulate(6, 2, 2, load, 1, 2, 1, mode) for mode in ("multistage", "none"))
        assert staged == produced
        meet = [s for s in staged if s.kind == "QK"]  # before each block
        assert all(a.start == b.start for a, b in zip(meet[::2], meet[1::2], strict=True))


def ping_pong(blocks: int) -> list[tuple[int, str, int]]:
    """P V of a block and Q Kᵀ of the next, then the other consumer."""
    order = [(c, kind, j) for j in range(blocks + 1) for c in (1, 2) for kind, j in (("PV", j - 1), ("QK", j))]
    return [work for work in order if 0 <= work[2] < blocks]


def test_in_the_order_of_ping_pong_the_timeline_is_that_of_ping_pong() -> None:
    for buffers, load, qk, soft, pv in ((2, 2.0, 1.0, 1.0, 1.0), (3, 0.5, 1.0, 3.0, 2.0)):
        found = pipeline.in_order(ping_pong(6), 6, buffers, load, qk, soft, pv)
        assert found == pipeline.simulate(6, 2, buffers, load, qk, soft, pv, "ping-pong")


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (ping_pong(3)[:-1], "order has 11 matmuls; pass each of the 12 once"),
        ([*ping_pong(3)[:-1], (1, "QK", 0)], "order has 12 matmuls; pass each of the 12 once"),
        (ping_pong(3)[::-1], "order lets PV of block 2 of warpgroup 2 wait for a matmul that comes later"),
        (
            [(c, k, j) for k in ("QK", "PV") for j in range(3) for c in (1, 2)],
            "order lets QK of block 2 of warpgroup 1 wait",
        ),
        (
            [(c, k, j) for c in (1, 2) for j in range(3) for k in ("QK", "PV")],
            "order lets QK of block 2 of warpgroup 1 wait",
        ),
    ],
)
def test_an_order_that_comes_to_no_end_is_refused(order, words) -> None:
    with pytest.raises(ValueError, match=words):
        pipeline.in_order(order, 3, 2, 1.0, 1.0, 1.0, 1.0)


TIME = st.sampled_from([0.5, 1.0, 2.0, 3.5])


@given(st.integers(1, 6), st.integers(1, 3), st.integers(2, 4), TIME, TIME, TIME, TIME, st.sampled_from(pipeline.MODES))
def test_a_timeline_keeps_to_what_hardware_allows(blocks, consumers, buffers, load, qk, soft, pv, mode) -> None:
    spans = pipeline.simulate(blocks, consumers, buffers, load, qk, soft, pv, mode)
    at = {(s.warpgroup, s.kind, s.block): s for s in spans}
    alone = mode == "many warps"
    ring = 1 if alone else buffers
    assert len(at) == blocks * ((consumers if alone else 1) + 3 * consumers)
    copies = sorted((s.start, s.end) for s in spans if s.kind == "load")
    assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(copies))
    for warpgroup, block in itertools.product(range(1, consumers + 1), range(blocks)):
        scores, weights, matmul = (at[warpgroup, kind, block] for kind in ("QK", "softmax", "PV"))
        owner = warpgroup if alone else 0
        assert at[owner, "load", block].end <= scores.start + 1e-9
        assert scores.end <= weights.start + 1e-9
        assert weights.end <= matmul.start + 1e-9
        if block + ring < blocks:
            assert matmul.end <= at[owner, "load", block + ring].start + 1e-9
    tensor = sorted((s.start, s.end) for s in spans if s.kind in ("QK", "PV"))
    assert tensor[-1][1] - tensor[0][0] >= consumers * blocks * (qk + pv) - 1e-6 or consumers == 1 or blocks == 1
    for warpgroup in range(1, consumers + 1):  # one accumulator: a warpgroup's P V never overlap
        mine = sorted((s.start, s.end) for s in spans if s.kind == "PV" and s.warpgroup == warpgroup)
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(mine))
    if mode == "ping-pong":
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(tensor))
    assert 0 <= pipeline.idle_fraction(spans) < 1


@pytest.mark.parametrize("mode", pipeline.MODES)
@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_the_unit_of_time_does_not_matter(mode, unit) -> None:
    times = [1.5, 1.0, 3.0, 0.5]
    plain, scaled = (pipeline.simulate(4, 2, 3, *(t * u for t in times), mode) for u in (1.0, unit))
    assert [s[:3] for s in scaled] == [s[:3] for s in plain]
    assert [s.end for s in scaled] == pytest.approx([s.end * unit for s in plain])


def test_taking_turns_keeps_the_tensor_cores_busier() -> None:
    plain, turns = (pipeline.simulate(12, 2, 2, 1, 1, 2, 1, mode) for mode in ("none", "ping-pong"))
    # In step, both wait for both softmaxes: of 2 + 2 + 2 units a block the tensor cores work 4. The first load takes 1.
    assert pipeline.idle_fraction(plain) == pytest.approx(1 - 12 * 4 / (1 + 12 * 6))
    assert pipeline.idle_fraction(turns) < 0.15


@pytest.mark.parametrize("mode", pipeline.MODES)
def test_the_still_picture_halves_a_lane_only_where_two_pieces_run_at_once(mode) -> None:
    spans, ax = pipeline.simulate(6, 2, 3, 2, 1, 1, 1, mode), Figure().subplots()
    plots.timeline(ax, spans, pipeline.idle_fraction(spans))
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == ["copies", "consumer 1", "consumer 2", "tensor cores"]
    boxes = [box for bars in ax.containers for box in bars]
    work = [box for box in boxes if box.get_y() < 2.5]
    assert {round(box.get_height(), 6) for box in work} == ({0.4, 0.8} if mode == "two-stage overlap" else {0.8})
    assert len(boxes) - len(work) == sum(span.kind in pipeline.TENSOR for span in spans)


@pytest.mark.browser
def test_the_page_simulates_as_the_library_does(show) -> None:
    page = show(PipelineTimeline())
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
        assert [x for s in theirs for x in (s["start"], s["end"])] == pytest.approx(
            [x for s in ours for x in (s.start, s.end)]
        )
        assert idle == pytest.approx(pipeline.idle_fraction(ours))


@pytest.mark.browser
def test_the_timeline_answers_to_its_sliders(show) -> None:
    page = show(PipelineTimeline(softmax=4.0))
    before = page.locator(".formula").inner_text()
    page.get_by_label("how work overlaps").select_option("ping-pong")
    assert page.locator(".formula").inner_text() != before
    page.get_by_label("how work overlaps").select_option("two-stage overlap")
    page.get_by_label("buffers").focus()
    page.keyboard.press("Home")
    assert "at least 2 buffers" in page.get_by_role("alert").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("alert").inner_text() == ""


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60), st.integers(1, 9))
def test_loads_of_workers(work, workers) -> None:
    for queue in (False, True):
        busy = pipeline.loads(work, workers, queue)
        assert sum(busy) == pytest.approx(sum(work))
        assert len(busy) == workers
    # Whoever took the longest load's last piece was free first: it is over the mean by no more than that piece.
    assert max(pipeline.loads(work, workers, True)) <= sum(work) / workers + max(work) + 1e-9
    assert pipeline.loads([3, 1, 1, 1], 2, False) == [4, 2]
    assert pipeline.loads([3, 1, 1, 1], 2, True) == [3, 3]
    # Chosen ahead: the first has the 2 in hand when it begins its 3, so that it ends at 5, where the second is free at 1.
    assert pipeline.loads([3, 1, 2, 1], 2, True, ahead=True) == [5, 2]
    assert pipeline.loads([3, 1, 2, 1], 2, True) == [4, 3]
    busy = pipeline.loads(work, workers, True, ahead=True)
    assert sum(busy) == pytest.approx(sum(work))
    assert max(busy) <= sum(work) / workers + 2 * max(work) + 1e-9  # at most one piece waits in hand


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="spans has 0 entries"):
        pipeline.idle_fraction([])
    for length in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"piece 1 of work is {length}; pass a finite number of at least 0"):
            pipeline.loads([1.0, length], 2, True)
    for arguments, error, message in (
        ({"buffers": 0}, ValueError, "buffers is 0; pass a whole number of at least 1"),
        ({"mode": "fast"}, ValueError, "mode is 'fast'; choose one of 'many warps', 'multistage'"),
        ({"load": 0}, ValueError, "load is 0; pass a finite number above 0"),
        ({"mode": "two-stage overlap", "buffers": 1}, ValueError, "buffers is 1; pass at least 2"),
        ({"speed": 2}, TypeError, "no argument named 'speed'"),
    ):
        with pytest.raises(error, match=message):
            PipelineTimeline(**arguments)
