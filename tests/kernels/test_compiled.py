"""What the compiler says, with no GPU: shared memory, registers, spills, matrix instructions."""

import functools
from pathlib import Path

import pytest
import torch

from course_lib import attention, data
from course_lib.instruments import compiled, measure
from course_lib.instruments.compiled import inspect, matrix
from course_lib.kernels import portable
from course_lib.kernels.matmul import tiled_matmul
from course_lib.kernels.online import flash_online

pytestmark = pytest.mark.kernel
M = matrix(1024, 64)


def test_hopper_uses_wgmma_and_ampere_uses_mma() -> None:
    hopper, ampere = inspect(flash_online, M, M, M, arch=90), inspect(flash_online, M, M, M, arch=80)
    assert (hopper.wgmma > 0, hopper.mma) == (True, 0)
    assert (ampere.mma > 0, ampere.wgmma) == (True, 0)
    # Q, K and V tiles of 64×64 fp16 numbers in flight: at least three, and all of them fit everywhere.
    for report in (hopper, ampere):
        assert report.shared_bytes >= 3 * 64 * 64 * 2
        assert report.spilled_bytes == 0
        assert 32 <= report.registers <= 255
        assert report.fits(data.gpu("A100-40"))
        assert (report.kernel, report.threads) == ("online_kernel", 128)


def test_larger_tiles_take_more_shared_memory_until_they_do_not_fit() -> None:
    d128 = [matrix(1024, 128)] * 3
    calls = [(flash_online, d128, {"block_m": m, "block_n": n}) for m, n in ((16, 16), (64, 64), (64, 128))]
    sizes = [report.shared_bytes for report in compiled.inspect_all(calls, arch=80)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > data.gpu("RTX 4090").shared_bytes_per_block


def test_the_second_answer_comes_from_the_cache(monkeypatch) -> None:
    first = inspect(tiled_matmul, M, matrix(64, 32), block_m=16, block_n=16, block_k=16)
    monkeypatch.setattr(compiled, "_compile_in_child", lambda *_: pytest.fail("compiled again"))
    assert inspect(tiled_matmul, M, matrix(64, 32), block_m=16, block_n=16, block_k=16) == first
    with pytest.raises(pytest.fail.Exception, match="compiled again"):
        inspect(tiled_matmul, M, matrix(64, 32), block_m=16, block_n=16, block_k=32)


def test_many_kernels_show_how_far_they_are_and_what_is_compiled_is_kept(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    report, bars, asked = inspect(flash_online, M, M, M), [], []
    monkeypatch.setattr(measure, "progress", lambda items, label: bars.append(len(items)) or items)

    def compile_one(call, arch):
        asked.append(call[2]["block_m"])
        return compiled.CompileError("refused") if asked[-1] == 128 else report

    monkeypatch.setattr(compiled, "_compile_in_child", compile_one)
    calls = [(flash_online, (M, M, M), {"block_m": m}) for m in (16, 32, 128)]
    for _ in range(2):
        with pytest.raises(compiled.CompileError, match="refused"):
            compiled.inspect_all(calls)
    assert (asked, bars) == ([16, 32, 128, 128], [3])  # the second time one is missing: no bar for one


def test_a_broken_or_unwritable_cache_costs_time_only(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "flash-attention-course"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for broken in ("{broken", "[]", '{"key": 3}', '{"key": [1, 2]}', "[" * 100_000):
        (folder / "compiled.json").write_text(broken)
        assert compiled._read_cache() == {}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "flash-attention-course" / "compiled.json"))
    compiled._write_cache({"key": [1]})
    assert compiled._read_cache() == {}


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="arch is 70; choose one of 80, 90"):
        inspect(flash_online, M, M, M, arch=70)
    with pytest.raises(ValueError, match="block_m is 20; pass a power of two"):
        inspect(flash_online, M, M, M, block_m=20)
    with pytest.raises(ValueError, match="q has head dimension 64 but k has 32"):
        inspect(flash_online, M, matrix(8, 32), matrix(8, 32))
    with pytest.raises(ValueError, match="rows is 0"):
        matrix(0, 4)
    with pytest.raises(TypeError, match="dtype is 'fp16'"):
        matrix(4, 4, "fp16")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="launcher is 3"):
        inspect(3, M)  # type: ignore[arg-type]
    for launcher in (lambda x: x, functools.partial(flash_online, M)):
        with pytest.raises(ValueError, match="which another process cannot import"):
            inspect(launcher, M)
    assert M.dtype == torch.float16


def strided(d: int, stride: int) -> torch.Tensor:
    return torch.empty(1, 2, 256, stride, dtype=torch.float16, device="meta")[..., :d]


def test_loads_are_as_wide_as_strides_allow() -> None:
    shapes = [(64, 72), (40, 40), (64, 65)]
    options = {"causal": False, "offset": 0, "scale": 0.125, "softcap": 0.0}
    calls = [(portable.launch_forward, (strided(*shape),) * 3, options) for shape in shapes]
    assert [report.load_bytes[0] for report in compiled.inspect_all(calls)] == [16, 16, 2]


def test_an_answer_depends_on_the_kernels_file_even_if_the_launcher_is_elsewhere(monkeypatch) -> None:
    arguments = (attention.launch_forward, (M,), {}, 90)
    key, read = compiled._key(*arguments), Path.read_text
    assert compiled._key(*arguments) == key
    monkeypatch.setattr(
        Path, "read_text", lambda path, **how: read(path, **how) + "#" * (path.match("portable/forward.py"))
    )
    assert compiled._key(*arguments) != key


def test_a_launcher_that_launches_nothing_is_said_so() -> None:
    with pytest.raises(ValueError, match="launcher is matrix, which launched no kernel"):
        inspect(matrix, 4, 4)
