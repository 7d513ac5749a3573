"""What decoding costs: how the keys are cut, bytes to the byte, and the kernels as compiled without a GPU."""

import itertools

import pytest
import torch
from decoding_inputs import DEVICE, definition, inputs, paged, whole
from rule import COUNTS

from course_lib import algorithms, data
from course_lib.instruments import compiled
from course_lib.instruments.traffic import traffic
from course_lib.kernels import decoding
from course_lib.kernels.decoding import choose_splits, decode, wave_efficiency
from course_lib.model.decoding import cache_bytes, decode_traffic, keys_per_split

# --- how the keys are cut ---


def test_splits_by_waves() -> None:
    assert (
        choose_splits(8, 64, 132) == 16
    )  # one wave of 128; 14 and 15 have the longest split of 13, and 13 make a wave of 104
    assert choose_splits(1024, 64, 264) == 1
    assert choose_splits(8, 1, 264) == 1
    assert choose_splits(128, 64, 132) == 1
    assert choose_splits(1, 10_000, 264) == 121  # 95 % of 127, whose longest split 128 have, too
    assert wave_efficiency(8, 17, 132) == pytest.approx(136 / 264)
    for programs, blocks in itertools.product((1, 8, 100, 128, 140, 265), (1, 2, 30, 128, 2048)):
        chosen = choose_splits(programs, blocks, 264)
        best = max(wave_efficiency(programs, s, 264) for s in range(1, min(blocks, 128) + 1))
        assert 1 <= chosen <= min(blocks, 128)
        assert wave_efficiency(programs, chosen, 264) >= 0.75 * best
    for given_ in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1.5, 1, 1)):
        with pytest.raises((TypeError, ValueError), match="pass a whole number"):
            choose_splits(*given_)


def test_a_cache_in_bytes() -> None:
    assert cache_bytes(1, layers=32, heads_k=8, d=128) == 128 * 1024
    assert keys_per_split(1000, 7, 64) == 192
    with pytest.raises(ValueError, match="heads is 3 and heads_k is 2"):
        decode_traffic([1], 3, 2, 16, block_m=16, block_n=16)


def test_blocks_that_cut_a_page_in_parts_are_refused() -> None:
    x = torch.randn(12, 4)
    for page, block_n in ((3, 4), (16, 4)):
        with pytest.raises(ValueError, match=f"page is {page} and block_n is {block_n}; pass a multiple of page"):
            algorithms.split_decode(x[:1], x, x, 1, block_n, length=1, table=[0], page=page)
    with pytest.raises(ValueError, match="page is 0; pass a whole number of at least 1"):
        algorithms.split_decode(x[:1], x, x, 1, 4, table=[0], page=0)
    with pytest.raises(TypeError, match="block_n is '4'"):
        algorithms.split_decode(x[:1], x, x, 1, "4", table=[0], page=4)
    with pytest.raises(ValueError, match="page is 24 and block_n is 16; pass numbers of which one is a multiple"):
        decode_traffic([50], 1, 1, 16, block_m=16, block_n=16, page=24)
    table = [decode_traffic([50], 1, 1, 16, block_m=16, block_n=16, page=page).reads["table"] for page in (8, 32)]
    assert table == [7 * 4, 4 * 4]


# --- bytes ---


@pytest.mark.parametrize("page", [None, 16])
@pytest.mark.parametrize(
    ("length", "splits", "group", "n_q"), [(1, 1, 1, 1), (100, 1, 4, 1), (200, 3, 4, 2), (70, 5, 1, 8), (64, 4, 8, 1)]
)
def test_the_simulated_memory_moves_what_the_model_says(length, splits, group, n_q, page) -> None:
    n_q, d = min(n_q, length), 16
    q, k, v = (torch.randn(rows, d, dtype=torch.float32) for rows in (group * n_q, 256, 256))
    table = [5, 0, 3, 8, 1, 15, 2, 4, 9, 14, 13, 7, 6, 12, 10, 11] if page else None
    run = algorithms.split_decode(q, k, v, splits, 32, length=length, table=table, n_q=n_q)
    options = {"splits": splits, "n_q": n_q, "page": page, "block_m": group * n_q, "block_n": 32}
    assert run.memory.traffic() == decode_traffic([length], group, 1, d, "fp32", **options)
    rows = torch.tensor([table[t // 16] * 16 + t % 16 for t in range(length)]) if page else torch.arange(length)
    right = definition(
        q.double().view(1, group, n_q, d), k[rows].double()[None, None], v[rows].double()[None, None], [length]
    )[0]
    torch.testing.assert_close(run.output.double(), right.view(group * n_q, d), atol=1e-6, rtol=1e-6)


@pytest.mark.kernel
@COUNTS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("heads", "heads_k", "n_q", "d", "splits", "page"),
    [
        (4, 1, 1, 64, 3, None),
        (4, 2, 3, 32, 4, 16),
        (2, 2, 1, 40, 1, 256),
        (8, 1, 8, 64, 2, 64),
        (4, 2, 2, 64, None, 32),
    ],
)
def test_the_kernels_move_what_the_model_says(heads, heads_k, n_q, d, splits, page, dtype) -> None:
    lengths = [300, 0, 2, 97]
    q, k, v = inputs(lengths, heads, heads_k, n_q, d, dtype)
    cache = (k, v, None) if page is None else paged(k, v, lengths, page)
    tile = decoding.tile_of(q, heads // heads_k)
    count = splits or decoding.splits_for(q, heads_k, sum(lengths) // 4, even=True)
    predicted = decode_traffic(
        lengths, heads, heads_k, d, dtype, block_m=tile.block_m, block_n=tile.block_n, splits=count, n_q=n_q, page=page, even=splits is None
    )  # fmt: skip
    assert traffic(decode, q, *cache[:2], whole(*lengths), block_table=cache[2], splits=splits) == predicted


# --- compiled without a GPU ---


@pytest.mark.kernel
def test_it_compiles_without_spills_and_copies_16_bytes_at_a_time() -> None:
    def meta(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype, device="meta")

    q, k, pages = meta(2, 32, 1, 128), meta(2, 8, 4096, 128), meta(99, 8, 16, 128)
    lengths, table, numbers = meta(2, dtype=torch.int32), meta(2, 32, dtype=torch.int32), (0.1, 0.0)
    few = (decoding.launch_decode, (meta(2, 32, 8, 128), pages, pages, lengths, table, True, -8, *numbers, 1, 0), {})
    one = (decoding.launch_decode, (q, k, k, lengths, None, False, -1, *numbers, 1, 0), {})
    merged = (decoding.launch_decode, (q, k, k, lengths, None, False, -1, *numbers, 32, 0), {})
    reports = [*compiled.inspect_all([few, merged], 90), *compiled.inspect_all([one], 80)]
    assert [report.kernel for report in reports] == ["decode_kernel", "merge_kernel", "decode_kernel"]
    for report in reports:
        assert report.spilled_bytes == 0
        assert report.load_bytes[0] == 16
        assert report.kernel == "merge_kernel" or (report.count("cp.async.cg") > 0 and report.mma > 0)


@pytest.mark.kernel
def test_one_program_fits_on_an_sm_of_an_h200() -> None:
    """Without pages and with them: lecture 08 names the number and the bytes of shared memory."""
    q, k, pages = (
        torch.empty(s, dtype=torch.bfloat16, device="meta")
        for s in ((2, 32, 1, 128), (2, 8, 4096, 128), (99, 8, 16, 128))
    )
    lengths, table = (torch.empty(s, dtype=torch.int32, device="meta") for s in (2, (2, 32)))
    calls = [
        (decoding.launch_decode, (q, x, x, lengths, t, False, -1, 0.1, 0.0, 1, 0), {})
        for x, t in ((k, None), (pages, table))
    ]
    plain, paged_ = compiled.inspect_all(calls, 90)
    assert plain.shared_bytes == 139_264
    for report in (plain, paged_):
        assert report.spilled_bytes == 0
        assert data.gpu("H200").shared_kib_per_sm * 1024 // (report.shared_bytes + 1024) == 1  # 1 KiB is the system's
    assert decoding.tile_of(q.new_empty(q.shape, device=DEVICE), 4).places == 1
