"""What decoding costs: how the keys are cut, bytes to the byte, and the kernels as compiled without a GPU."""

import itertools

import pytest
import torch
from decoding_inputs import DEVICE, inputs, paged, whole
from rule import COUNTS

from course_lib import algorithms, data
from course_lib.instruments import compiled
from course_lib.instruments.traffic import traffic
from course_lib.kernels import decoding
from course_lib.kernels.decoding import choose_splits, decode, wave_efficiency
from course_lib.model import reference
from course_lib.model.decoding import cache_bytes, decode_traffic, even_splits, keys_per_split

# --- how the keys are cut ---


def test_splits_by_waves() -> None:
    # One wave of 128; 14 and 15 have the longest split of 13, and 13 make a wave of 104.
    assert choose_splits(8, 64, 132) == 16
    assert choose_splits(1024, 64, 264) == choose_splits(8, 1, 264) == choose_splits(128, 64, 132) == 1
    assert wave_efficiency(8, 17, 132) == pytest.approx(136 / 264)
    for programs, blocks in itertools.product((1, 8, 100, 128, 140, 265), (1, 2, 30, 128, 2048)):
        chosen = choose_splits(programs, blocks, 264)
        best = max(wave_efficiency(programs, s, 264) for s in range(1, min(blocks, 128) + 1))
        assert 1 <= chosen <= min(blocks, 128)
        assert wave_efficiency(programs, chosen, 264) >= 0.75 * best
    with pytest.raises(ValueError, match="pass a whole number"):
        choose_splits(0, 1, 1)


def test_even_splits_are_no_more_than_there_are_programs_for() -> None:
    assert even_splits([4096] * 63 + [65_536], 4, 64) == (2048, [2] * 63 + [32])
    for lengths, splits in itertools.product(([0], [0, 0], [1, 10**6], [64, 65, 63, 4096], [7] * 100), (1, 2, 5, 128)):
        each, counts = even_splits(lengths, splits, 64)
        assert sum(counts) <= len(lengths) * (splits + 1)
        assert all(1 <= count <= 32 and count * each >= length for length, count in zip(lengths, counts))


def test_a_cache_in_bytes() -> None:
    assert cache_bytes(1, layers=32, heads_k=8, d=128) == 128 * 1024
    assert keys_per_split(1000, 7, 64) == 192


def test_the_table_is_read_for_each_page_or_for_each_block_of_pages() -> None:
    table = [decode_traffic([50], 1, 1, 16, block_m=16, block_n=16, page=page).reads["table"] for page in (8, 32)]
    assert table == [7 * 4, 4 * 4]


@pytest.mark.parametrize(("length", "splits", "group"), [(1, 1, 1), (100, 1, 4), (200, 3, 4), (70, 5, 1), (64, 4, 8)])
def test_the_simulated_memory_moves_what_the_model_says(length, splits, group) -> None:
    q, k, v = (torch.randn(rows, 16) for rows in (group, length, length))
    run = algorithms.split_decode(q, k, v, splits, 32)
    assert run.memory.traffic() == decode_traffic(
        [length], group, 1, 16, "fp32", splits=splits, block_m=group, block_n=32
    )
    torch.testing.assert_close(run.output.double(), reference.attention(q, k, v), atol=1e-6, rtol=1e-6)


@pytest.mark.kernel
@COUNTS
@pytest.mark.parametrize(
    ("heads", "heads_k", "n_q", "d", "splits", "page", "dtype"),
    [
        (4, 1, 1, 64, 3, None, torch.float32),
        (4, 2, 3, 32, 4, 16, torch.float16),
        (2, 2, 1, 40, 1, 256, torch.float16),
        (8, 1, 8, 64, 2, 64, torch.float32),
        (4, 2, 2, 64, None, 32, torch.float16),
    ],
)
def test_the_kernels_move_what_the_model_says(heads, heads_k, n_q, d, splits, page, dtype) -> None:
    lengths = [300, 0, 2, 97]
    q, k, v = inputs(lengths, heads, heads_k, n_q, d, dtype)
    cache = (k, v, None) if page is None else paged(k, v, lengths, page)
    tile = decoding.tile_of(q, heads // heads_k)
    count = splits or decoding.splits_for(q, heads_k, sum(lengths) // 4, even=True)
    options = {"block_m": tile.block_m, "block_n": tile.block_n, "splits": count, "n_q": n_q, "page": page}
    predicted = decode_traffic(lengths, heads, heads_k, d, dtype, even=splits is None, **options)
    assert traffic(decode, q, *cache[:2], whole(*lengths), block_table=cache[2], splits=splits) == predicted


@pytest.mark.kernel
def test_compiled_it_spills_nothing_copies_16_bytes_at_a_time_and_fits_an_sm_once() -> None:
    """Lecture 08 names the programs on an SM of an H200 and the bytes of shared memory."""

    def meta(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype, device="meta")

    q, k, pages = meta(2, 32, 1, 128), meta(2, 8, 4096, 128), meta(99, 8, 16, 128)
    lengths, table = meta(2, dtype=torch.int32), meta(2, 32, dtype=torch.int32)
    calls = [
        (decoding.launch_decode, (q, x, x, lengths, t, False, -1, 0.1, 0.0, splits, 0), {})
        for x, t, splits in ((k, None, 1), (pages, table, 1), (k, None, 32))
    ]
    plain, paged_, _ = reports = compiled.inspect_all(calls, 90)
    assert [report.kernel for report in reports] == ["decode_kernel", "decode_kernel", "merge_kernel"]
    assert [(report.spilled_bytes, report.load_bytes[0]) for report in reports] == [(0, 16)] * 3
    assert plain.shared_bytes == 139_264
    for report in (plain, paged_):
        assert report.count("cp.async.cg") > 0
        assert report.wgmma + report.mma > 0
        assert data.gpu("H200").shared_kib_per_sm * 1024 // (report.shared_bytes + 1024) == 1  # 1 KiB is the system's
    assert decoding.tile_of(q.new_empty(q.shape, device=DEVICE), 4).places == 1
