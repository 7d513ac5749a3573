"""The cost model's known numbers, and the tables in data/ with their checks."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib import claims, data
from course_lib.model import cost
from course_lib.show.tables import Table


def test_the_reported_memory_reproduces_exactly() -> None:
    for row in data.reported("attention_gpu"):
        for algorithm, column in (("standard", "pytorch_mb"), ("flash", "flash_mb")):
            assert cost.attention_memory(row["n"], row["d"], "fp32", algorithm) / 2**20 == row[column]


@given(st.integers(1, 500), st.integers(1, 64), st.integers(1, 600))
def test_no_algorithm_beats_the_compulsory_traffic(n: int, d: int, block: int) -> None:
    least = cost.compulsory_traffic(n, d).total_bytes
    assert cost.flash_v2_traffic(n, d, block).total_bytes >= least
    assert cost.flash_v1_traffic(n, d, block).total_bytes > least
    assert cost.standard_attention_traffic(n, d, block_m=block).total_bytes > least
    if block >= n:
        assert cost.flash_v2_traffic(n, d, block).total_bytes == least


SIZE = st.integers(1, 90)


@given(SIZE, SIZE, SIZE, st.booleans(), st.integers(1, 9))
def test_the_closed_forms_are_the_sums_over_all_blocks(n, block_m, block_n, causal, split) -> None:
    blocks = []  # rows, keys they meet, blocks of keys they meet
    for start in range(0, n, block_m):
        rows = min(block_m, n - start)
        seen = [j for j in range(0, n, block_n) if not causal or j < start + rows]
        blocks.append((rows, sum(min(block_n, n - j) for j in seen), len(seen)))
    each = -(-len(blocks) // split)
    programs = [max(keys for _, keys, _ in blocks[i : i + each]) for i in range(0, len(blocks), each)]
    visits = sum(r * b for r, _, b in blocks)
    v1 = cost.flash_v1_traffic(n, 3, block_n, block_m=block_m, causal=causal, split=split)
    assert v1.reads == {"Q": 12 * visits, "K": 12 * sum(programs), "V": 12 * sum(programs)} | v1.writes
    assert v1.writes == {"O": 12 * visits, "l": 4 * visits, "m": 4 * visits}
    v2 = cost.flash_v2_traffic(n, 3, block_m, block_n=block_n, causal=causal)
    assert v2.reads["K"] == v2.reads["V"] == 12 * sum(keys for _, keys, _ in blocks)
    found = cost.attention_operations("V2", n, 3, block_m, block_n, causal)
    assert found.exp == sum(r * keys for r, keys, _ in blocks) + visits
    backward = cost.backward_traffic("two passes", n, 3, block_m, block_n, causal=causal)
    assert backward.reads["Q"] == 12 * (visits + n)
    assert backward.reads["K"] == 12 * (n + sum(keys for _, keys, _ in blocks))


@pytest.mark.parametrize("n", [10**9, 10**18 + 1, 10**400])
def test_the_closed_forms_are_exact_at_any_length_and_as_fast(n) -> None:
    assert cost.flash_v1_traffic(n, 4, 1, block_m=1).reads["Q"] == 16 * n * n
    assert cost.flash_v2_traffic(n, 4, 3).reads["K"] == 16 * n * -(-n // 3)
    causal = cost.flash_v2_traffic(n, 4, 1, block_n=1, causal=True)
    assert causal.reads["K"] == 16 * (n * (n + 1) // 2)
    assert cost.attention_operations("V1", n, 4, 1, 1, causal=True).divide == n * (n + 1) // 2
    assert cost.backward_traffic("outer loop over K/V", n, 4, 1, 1, causal=True).reads["Q"] == 16 * (n * (n + 1) // 2)
    assert cost.tiled_matmul_traffic(n, n, n, 3, 3).reads["A"] == 4 * n * n * -(-n // 3)
    assert cost.flash_v1_blocks(12 * n + 1, 3) == (3, n + 1)


def test_block_sizes_of_the_paper() -> None:
    assert cost.flash_v1_blocks(24_576, 64) == (64, 96)
    assert cost.flash_v1_blocks(24_577, 64) == (64, 97)
    assert cost.flash_v1_blocks(1000, 64) == (4, 4)


def test_an_a100_as_the_papers_give_it() -> None:
    a100 = data.gpu("A100-40")
    assert a100.sram_bytes == 108 * 192 * 1024
    assert a100.sram_bytes_per_s == pytest.approx(19e12, rel=0.05)
    assert data.gpu("T4").sram_bytes_per_s == pytest.approx(40 * 64 * 1.59e9)  # Turing: half as many bytes a cycle
    assert a100.hbm_bytes_per_s == pytest.approx(1.555e12)
    assert a100.ridge("fp16") == pytest.approx(312e12 / 1.555e12)


def test_every_gpu_that_the_course_names_is_there() -> None:
    named = ["T4", "V100", "A100-40", "A100-80", "RTX 3090", "RTX 4090", "L40S", "H100", "H200", "B200"]
    assert list(data.gpus()) == named
    for gpu in data.gpus().values():
        assert gpu.shared_kib_per_block <= gpu.shared_kib_per_sm <= gpu.l1_kib_per_sm
        assert gpu.sram_bytes < gpu.hbm_gb * 1e9


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: data.gpu("T4").flops_per_s("bf16"), ValueError, "the T4 has no bf16 tensor-core rate"),
        (lambda: data.link("USB"), ValueError, "link is 'USB'; choose one of 'NVLink 3', 'NVLink 4'"),
        (lambda: claims.verdict("C99", ("x", True)), ValueError, "claim is 'C99'; data/claims.csv has C1"),
        (lambda: claims.verdict("C1"), ValueError, "no findings for C1"),
        (lambda: cost.compulsory_traffic(8, 8).times(-1), ValueError, "count is -1"),
        (lambda: Table(["a"], [[1, 2]]), ValueError, r"a row has 2 cells, but there are 1 headers"),
    ],
)
def test_bad_input(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("b,0,2.5", "t.csv, line 3, field 'n': '0' is not a positive number"),
        ("b,x,2.5", "t.csv, line 3, field 'n': 'x' is not a positive number"),
        ("b,1,nan", "t.csv, line 3, field 'ms': 'nan' is not a positive number"),
        (" ,1,2", "t.csv, line 3, field 'name': ' ' is empty"),
        ("b,1,2,3", "t.csv, line 3: the row does not have 3 fields"),
        ("a,1,2", "t.csv, line 3, field 'name': 'a' stands in an earlier row, too"),
    ],
)
def test_a_broken_row_names_file_line_and_field(tmp_path, line: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"name,n,ms\na,1,2.5\n{line}\n")
    with pytest.raises(data.DataError, match=message):
        data.read_table(path, key="name")


def test_a_table_that_is_none_names_the_file(tmp_path) -> None:
    path = tmp_path / "t.csv"
    for content, message in (
        ("name\ncafé\n".encode("latin-1"), r"t\.csv is not UTF-8"),
        (b"name,n\n", r"t\.csv has no rows"),
    ):
        path.write_bytes(content)
        with pytest.raises(data.DataError, match=message):
            data.read_table(path, key="name")
    for where, key in (("t.csv", "name"), (path, "m")):
        with pytest.raises((TypeError, ValueError), match=r"^(path|key) is"):
            data.read_table(where, key=key)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"measured/gpu/t\.json, line 1: Expecting"),
        ('{"rows": [{"a": 1}]}', r"measured/gpu/t\.json, field 'provenance\.date': is missing"),
        ('{"provenance": PROVENANCE, "rows": []}', "field 'rows': is empty"),
        ('{"provenance": PROVENANCE, "rows": [{"a": 1}, {"b": 1}]}', r"row 1: has fields \['b'\]; expected \['a'\]"),
        ('{"provenance": PROVENANCE, "rows": [{"a": NaN}]}', "row 0, field 'a': nan is not a finite number"),
        ('{"provenance": PROVENANCE, "rows": [{"a": 1}, {"a": -0.5}]}', "row 1, field 'a': -0.5 is below 0"),
        ('{"provenance": PROVENANCE, "rows": [{"a": null}]}', "row 0, field 'a': None is no text and no number"),
        ('{"provenance": [1], "rows": [{"a": 1}]}', "holds no provenance and rows"),
        ('{"provenance": {"date": 5}, "rows": [{"a": 1}]}', r"field 'provenance\.date': is missing"),
        ("null", "holds no provenance and rows"),
        ("\udce9", r"measured/gpu/t\.json: 'utf-8' codec can't decode"),
        ('{"rows": ' + "9" * 5000 + "}", r"measured/gpu/t\.json: Exceeds the limit"),
    ],
)
def test_a_broken_recording_names_file_and_field(tmp_path, monkeypatch, content: str, message: str) -> None:
    (tmp_path / "measured" / "gpu").mkdir(parents=True)
    provenance = '{"date": "d", "command": "c", "commit": "k", "device": "g", "versions": {"triton": "3"}}'
    content = content.replace("PROVENANCE", provenance)
    (tmp_path / "measured" / "gpu" / "t.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    monkeypatch.setattr(data, "DATA", tmp_path)
    with pytest.raises(data.DataError, match=message):
        data.measured("gpu", "t")


@pytest.mark.parametrize(
    ("device", "name"),
    [("gpu", "../../t"), ("../measured/gpu", "t"), ("..", "t"), ("gpu", "/t"), ("", "t"), ("gpu", "")],
)
def test_a_recording_is_a_file_in_its_folder_and_no_other(tmp_path, monkeypatch, device: str, name: str) -> None:
    (tmp_path / "measured" / "gpu").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "measured", tmp_path / "measured" / "gpu"):
        (folder / "t.json").write_text("{}")
    monkeypatch.setattr(data, "DATA", tmp_path)
    with pytest.raises(ValueError, match=rf"no recording {re.escape(device)}/{re.escape(name)}; choose one of gpu/t"):
        data.measured(device, name)


def test_every_table_and_recording_in_data_is_sound() -> None:
    for name in (
        "attention_gpu",
        "attention_error",
        "eight_bit_error",
        "fa3_ablation",
        "fa3_forward",
        "full_stack",
        "intensity",
        "sources",
    ):
        assert data.reported(name)
    recordings = list((data.DATA / "measured").glob("*/*.json"))
    assert recordings
    for path in recordings:
        assert data.measured(path.parent.name, path.stem).label.startswith("recorded 20")
    bench = data.measured("nvidia-h200", "forward_ladder")
    assert [bench.version(package) for package in ("torch", "cudnn")] == ["2.11.0", "9.19.0"]
    with pytest.raises(ValueError, match="package is 'numba'"):
        bench.version("numba")
    known = {row["key"] for row in data.reported("sources")}
    assert {claim["source"] for claim in data.claims().values()} <= known, (
        "data/claims.csv, column source: a key of data/reported/sources.csv"
    )


def test_what_was_read_once_is_changed_by_nobody() -> None:
    bench = data.measured("nvidia-h200", "forward_ladder")
    found = [bench.provenance, bench.provenance["versions"], bench.rows[0], data.reported("sources")[0]]
    for mapping in [*found, data.claims(), data.claims()["C1"], data.gpus(), data.links()]:
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["key"] = "another"
    for rows in (bench.rows, data.reported("sources")):
        with pytest.raises(TypeError, match="does not support item assignment"):
            rows[0] = {}


def test_verdicts_follow_from_their_findings() -> None:
    assert claims.verdict("C1", ("a", True), ("b", True)).word == "confirmed"
    assert claims.verdict("C1", ("a", True), ("b", False)).word == "true in part"
    assert claims.verdict("C1", ("a", False)).word == "refuted"
    assert "against: a < b" in repr(claims.verdict("C1", ("a < b", False)))
    assert "a &lt; b" in claims.verdict("C1", ("a < b", False))._repr_html_()


@pytest.mark.parametrize("finding", ["ab", ("a",), ("a", True, "b"), (1, True), ("a", "no"), ("a", None), ("a", 1)])
def test_a_finding_is_a_text_and_a_truth(finding) -> None:
    with pytest.raises(TypeError, match="finding 1"):
        claims.verdict("C1", ("a", True), finding)
    assert claims.verdict("C1", ("a", torch.tensor(1) > 2), ("b", np.float64(1) > 2)).word == "refuted"


@pytest.mark.parametrize(
    ("headers", "rows", "message"),
    [
        ("ab", [[1, 2]], "headers is 'ab'"),
        (["a", "b"], ["ab"], r"rows\[0\] is 'ab'"),
        (["a", 1], [[1, 2]], "headers holds 1"),
        (["a"], 3, "rows is 3"),
    ],
)
def test_a_table_takes_lists_of_cells(headers, rows, message) -> None:
    with pytest.raises(TypeError, match=message):
        Table(headers, rows)


def test_tables_align_numbers_and_escape_html() -> None:
    table = Table(["name", "bytes"], [["a<b", 12345], ["c", 7]])
    assert repr(table).splitlines()[2:] == ["a<b   12,345", "c          7"]
    assert "a&lt;b" in table._repr_html_()
