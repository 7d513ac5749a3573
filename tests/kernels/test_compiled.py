"""What the compiler says, with no GPU: shared memory, registers, spills, matrix instructions, the order in a loop."""

import pytest
import torch

from course_lib import data
from course_lib.instruments import assembly, compiled
from course_lib.instruments.compiled import inspect, matrix
from course_lib.kernels import portable
from course_lib.kernels.online import flash_online

pytestmark = pytest.mark.kernel
M = matrix(1024, 64)


@pytest.mark.parametrize("arch", [90, 80])
def test_hopper_uses_wgmma_and_ampere_uses_mma(arch) -> None:
    report = inspect(flash_online, M, M, M, arch=arch)
    assert (report.wgmma > 0, report.mma > 0) == (arch == 90, arch == 80)
    # Q, K and V tiles of 64×64 fp16 numbers in flight: at least three, and all of them fit everywhere.
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


def test_loads_are_as_wide_as_strides_allow() -> None:
    x = {stride: torch.empty(1, 2, 256, stride, dtype=torch.float16, device="meta") for stride in (72, 40, 65)}
    options = {"causal": False, "offset": 0, "scale": 0.125, "softcap": 0.0}
    calls = [
        (portable.launch_forward, (x[stride][..., :d],) * 3, options) for d, stride in ((64, 72), (40, 40), (64, 65))
    ]
    assert [report.load_bytes[0] for report in compiled.inspect_all(calls)] == [16, 16, 2]


@pytest.mark.parametrize("writable", [True, pytest.param(False, marks=pytest.mark.weekly)])
def test_a_broken_or_unwritable_cache_costs_time_only(writable, tmp_path, monkeypatch) -> None:
    (tmp_path / "flash-attention-course").mkdir()
    kept = tmp_path / "flash-attention-course" / "compiled.json"
    kept.write_text("{broken")
    report = inspect(flash_online, M, M, M)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path if writable else kept))
    assert inspect(flash_online, M, M, M).shared_bytes == report.shared_bytes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inspect(flash_online, M, M, M, arch=70), "arch is 70; choose one of 80, 90"),
        (lambda: inspect(flash_online, M, M, M, block_m=20), "block_m is 20; pass a power of two"),
        (lambda: inspect(flash_online, M, matrix(8, 32), matrix(8, 32)), "q has head dimension 64 but k has 32"),
        (lambda: matrix(0, 4), "rows is 0"),
        (lambda: matrix(4, 4, "fp16"), "dtype is 'fp16'"),
        (lambda: inspect(3, M), "launcher is 3"),
        (lambda: inspect(lambda x: x, M), "which another process cannot import"),
        (lambda: inspect(matrix, 4, 4), "launcher is matrix, which launched no kernel"),
    ],
)
def test_bad_input(call, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


# --- read out of the compiler's output, on lines as it writes them ---

PTX = """
\t.reg .b32 %r<20>;
$L__BB0_1:
\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
\tld.global.b16 { %rs1 }, [ %rd2 ];
\t@!%p2 cp.async.cg.shared.global [ %r5 + 0 ], [ %rd3 + 0 ], 0x10, %r6;
\tcp.async.ca.shared.global [ %r5 ], [ %rd3 ], 0x4;
\tld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];
\t{ ex2.approx.ftz.f32 %f1, %f2; ex2.approx.ftz.f32 %f3, %f4; }
\t// mul.f32 in a comment is not an instruction: no mul.f32;
\tret;
"""


def test_opcodes_and_the_widths_of_loads_from_hbm() -> None:
    assert assembly.load_bytes(PTX) == [16, 4, 2]
    found = assembly.opcodes(PTX)
    opcodes = ("ex2.approx.ftz.f32", "ld.global.v4.b32", "cp.async.cg.shared.global", "mul.f32")
    assert [found[opcode] for opcode in opcodes] == [2, 1, 1, 0]


WGMMA = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 d)
{
 .reg .f32 %f<4>; .reg .b64 %rd<2>;
 ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [d];
 mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;
 wgmma.commit_group.sync.aligned;
 HERE
 wgmma.wait_group.sync.aligned 0;
 st.global.f32 [%rd0], %f0; st.global.f32 [%rd0+4], %f1; st.global.f32 [%rd0+8], %f2; st.global.f32 [%rd0+12], %f3;
 ret;
}
"""


def test_the_assembler_tells_of_waits_that_it_adds() -> None:
    assert not assembly.ptxas_report(WGMMA.replace("HERE", ""), 90).serialised_wgmma
    touched = WGMMA.replace("HERE", "add.f32 %f0, %f0, %f1;")  # of a matmul that is under way
    assert assembly.ptxas_report(touched, 90).serialised_wgmma


@pytest.mark.parametrize(
    ("program", "order"),
    [
        (
            "\n.L_x_1:\n A ;\n.L_x_2:\n QGMMA ;\n HGMMA ;\n HGMMA ;\n DEPBAR.LE gsb0, 0x1 ;\n FADD ;\n MUFU.EX2 ;\n"
            " MUFU.EX2 ;\n DEPBAR.LE gsb0, 0x0 ;\n BRA `(.L_x_2) ;\n MUFU.EX2 ;\n BRA `(.L_x_1) ;",
            "1 × QGMMA, 2 × HGMMA, wait(1), 2 × MUFU.EX2, wait(0)",
        ),
        (
            "\n$L__BB0_1:\n\tex2.approx.ftz.f32 a, b; ex2.approx.f32 a, b;\n\twgmma.wait_group.sync.aligned 0;\n"
            "\twgmma.mma_async.sync.aligned.m64 x;\n\twgmma.commit_group.sync.aligned;\n"
            "\twgmma.wait_group.sync.aligned 1;\n\t@%p1 bra \t$L__BB0_1;\n\tex2.approx x;",
            "1 × wgmma, wait(1), 2 × ex2, wait(0)",
        ),
    ],
)
def test_the_order_in_the_loop(program, order) -> None:
    assert assembly.order_in_loop(program) == order
    with pytest.raises(ValueError, match="program has no loop with wgmma and powers of two"):
        assembly.order_in_loop(program.replace("EX2", "").replace("ex2", ""))
