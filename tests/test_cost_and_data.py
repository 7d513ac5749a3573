"""The cost model's known numbers, and the tables in data/ with their checks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import claims, cost, data, notebooks
from course_lib.tables import Table


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
        (lambda: data.gpu("A100"), ValueError, "gpu is 'A100'; choose one of 'T4', 'V100', 'A100-40'"),
        (
            lambda: data.gpu("T4").flops_per_s("bf16"),
            ValueError,
            "the T4 has no bf16 tensor-core rate; choose one of 'fp32', 'fp16'",
        ),
        (lambda: data.gpu("T4").flops_per_s("int4"), ValueError, "dtype is 'int4'; choose one of"),
        (lambda: data.reported("speed"), ValueError, "name is 'speed'; choose one of 'attention_gpu'"),
        (
            lambda: data.column(data.reported("intensity"), "fast"),
            ValueError,
            "column is 'fast'; choose one of 'n', 'd', 'standard'",
        ),
        (
            lambda: data.measured("nvidia-h200", "nothing"),
            ValueError,
            "no recording nvidia-h200/nothing; choose one of",
        ),
        (
            lambda: claims.verdict("C99", ("x", True)),
            ValueError,
            "claim is 'C99'; data/claims.csv has C1, C6, .* C15: add a row for a new one",
        ),
        (lambda: claims.verdict("C1"), ValueError, "no findings for C1"),
        (lambda: cost.element_bytes("fp12"), ValueError, "dtype is 'fp12'; choose one of"),
        (lambda: cost.attention_flops(0, 64), ValueError, "n is 0; pass a whole number of at least 1"),
        (lambda: cost.attention_flops(8, 6.4), TypeError, "d is 6.4"),
        (lambda: cost.flash_v2_traffic(8, 8, -1), ValueError, "block_m is -1"),
        (lambda: cost.flash_v1_traffic(8, 8, 0), ValueError, "block_n is 0"),
        (lambda: cost.flash_v1_blocks(0, 8), ValueError, "sram_elements is 0"),
        (lambda: cost.standard_matmul_traffic(1, 0, 1), ValueError, "n is 0"),
        (lambda: cost.attention_memory(8, 8, "fp32", "fast"), ValueError, "algorithm is 'fast'"),
        (lambda: Table(["a"], [[1, 2]]), ValueError, r"a row has 2 cells, but there are 1 headers"),
    ],
)
def test_bad_input(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("b,0,2.5", r"t.csv, line 3, field 'n': '0' \(is not a whole number of at least 1\)"),
        ("b,x,2.5", r"t.csv, line 3, field 'n': 'x' \(invalid literal"),
        ("b,1,-1", r"t.csv, line 3, field 'ms': '-1' \(is not a positive number\)"),
        ("b,1,nan", r"t.csv, line 3, field 'ms': 'nan' \(is not a positive number\)"),
        ("b,1,inf", r"t.csv, line 3, field 'ms': 'inf'"),
        (" ,1,2", r"t.csv, line 3, field 'name': ' ' \(is empty\)"),
        ("b,1", "t.csv, line 3: the row does not have 3 fields"),
        ("b,1,2,3", "t.csv, line 3: the row does not have 3 fields"),
        ("a,1,2", "t.csv, line 3, field 'name': 'a' stands in an earlier row, too"),
    ],
)
def test_a_broken_row_names_file_line_and_field(tmp_path, line: str, message: str) -> None:
    path = tmp_path / "t.csv"
    schema = {"name": data.as_text, "n": data.as_count, "ms": data.as_positive}
    path.write_text(f"name,n,ms\na,1,2.5\n{line}\n")
    with pytest.raises(data.DataError, match=message):
        data.read_table(path, schema, key="name")


def test_broken_headers_and_empty_tables(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,m\n")
    with pytest.raises(
        data.DataError, match=r"t.csv, line 1: the columns are \['name', 'm'\]; expected \['name', 'n'\]"
    ):
        data.read_table(path, {"name": data.as_text, "n": data.as_text}, key="name")
    path.write_text("name,n\n")
    with pytest.raises(data.DataError, match=r"t\.csv has no rows"):
        data.read_table(path, {"name": data.as_text, "n": data.as_text}, key="name")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"measured/gpu/t\.json, line 1: Expecting"),
        ('{"rows": [{"a": 1}]}', r"measured/gpu/t\.json, field 'provenance\.date': is missing"),
        ('{"provenance": PROVENANCE, "rows": []}', "field 'rows': is empty"),
        ('{"provenance": PROVENANCE, "rows": [{"a": 1}, {"b": 1}]}', r"row 1: has fields \['b'\]; expected \['a'\]"),
        ('{"provenance": PROVENANCE, "rows": [{"a": NaN}]}', "row 0, field 'a': nan is not a finite number"),
    ],
)
def test_a_broken_recording_names_file_and_field(tmp_path, monkeypatch, content: str, message: str) -> None:
    (tmp_path / "measured" / "gpu").mkdir(parents=True)
    provenance = '{"date": "d", "command": "c", "commit": "k", "device": "g", "versions": {"triton": "3"}}'
    (tmp_path / "measured" / "gpu" / "t.json").write_text(content.replace("PROVENANCE", provenance))
    monkeypatch.setattr(data, "DATA", tmp_path)
    with pytest.raises(data.DataError, match=message):
        data.measured("gpu", "t")


def test_every_table_and_recording_in_data_is_sound() -> None:
    for name in (
        "attention_gpu",
        "attention_error",
        "eight_bit_error",
        "fa3_forward",
        "full_stack",
        "intensity",
        "memory_prices",
        "sources",
    ):
        assert data.reported(name)
    recordings = list((data.DATA / "measured").glob("*/*.json"))
    assert recordings
    for path in recordings:
        assert data.measured(path.parent.name, path.stem).label.startswith("recorded 20")
    bench = data.measured("nvidia-h200", "forward_ladder")
    assert [bench.version(package) for package in ("torch", "cudnn")] == ["2.11.0", "9.19.0"]
    with pytest.raises(ValueError, match="package is 'numba'; choose one of"):
        bench.version("numba")
    known = {row["key"] for row in data.reported("sources")}
    assert {claim["source"] for claim in data.claims().values()} <= known, (
        "data/claims.csv, column source: a key of data/reported/sources.csv"
    )


def test_what_flash_attention_3_reports_stands_at_its_head_sizes() -> None:
    """740 TFLOP/s, three quarters of the peak, are for d = 256, which no page measures: named beside it or not at all."""
    assert {row["d"]: row["tflops"] for row in data.reported("fa3_forward")} == {64: 497, 128: 648}
    for path in notebooks.lectures():
        page = notebooks.prose(path)
        assert page.count("740 TFLOP/s") == len(re.findall(r"740 TFLOP/s[^.]*\$d\$ = 256", page)), path.stem
    assert "740 TFLOP/s" in notebooks.prose(notebooks.lecture("10"))


def test_verdicts_follow_from_their_findings() -> None:
    assert claims.verdict("C1", ("a", True), ("b", True)).word == "confirmed"
    assert claims.verdict("C1", ("a", True), ("b", False)).word == "true in part"
    assert claims.verdict("C1", ("a", False)).word == "refuted"
    assert "against: a < b" in repr(claims.verdict("C1", ("a < b", False)))
    assert "a &lt; b" in claims.verdict("C1", ("a < b", False))._repr_html_()


def test_tables_align_numbers_and_escape_html() -> None:
    table = Table(["name", "bytes"], [["a<b", 12345], ["c", 7]])
    assert repr(table).splitlines()[2:] == ["a<b   12,345", "c          7"]
    assert "a&lt;b" in table._repr_html_()
