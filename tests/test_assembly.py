"""What is read out of the compiler's output, on lines as it writes them."""

import pytest

from course_lib import runtime
from course_lib.instruments import assembly

PTX = """
\t.reg .b32 %r<20>;
$L__BB0_1:
\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
\tld.global.b16 { %rs1 }, [ %rd2 ];
\t@!%p2 cp.async.cg.shared.global [ %r5 + 0 ], [ %rd3 + 0 ], 0x10, %r6;
\tcp.async.ca.shared.global [ %r5 ], [ %rd3 ], 0x4;
\tld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];
\t{ ex2.approx.ftz.f32 %f1, %f2; ex2.approx.ftz.f32 %f3, %f4; }
\twgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 1;
\tfence.proxy.async.shared::cta;
\t// mul.f32 in a comment is not an instruction: no mul.f32;
\tret;
"""


def test_widths_of_loads_from_hbm() -> None:
    assert assembly.load_bytes(PTX) == [16, 4, 2]
    assert assembly.load_bytes("ret;") == []


def test_opcodes_are_counted_predicated_and_inline() -> None:
    found = assembly.opcodes(PTX)
    assert found["ex2.approx.ftz.f32"] == 2
    assert found["ld.global.v4.b32"] == 1
    assert found["cp.async.cg.shared.global"] == 1
    assert found["wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"] == 1
    assert "mul.f32" not in found


def test_the_grid_of_warps() -> None:
    assert (
        assembly.warp_grid("#mma = #ttg.nvidia_mma<{versionMajor = 3, warpsPerCTA = [4, 1], instrShape = [16]}>")
        == "4×1"
    )
    assert assembly.warp_grid("#blocked") == ""


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


@pytest.mark.skipif(runtime.mode() == "no kernels", reason="no assembler here")
def test_the_assembler_tells_of_waits_that_it_adds() -> None:
    assert not assembly.ptxas_report(WGMMA.replace("HERE", ""), 90).serialised_wgmma
    touched = WGMMA.replace("HERE", "add.f32 %f0, %f0, %f1;")  # of a matmul that is under way
    assert assembly.ptxas_report(touched, 90).serialised_wgmma


@pytest.mark.parametrize(
    "program",
    [
        "\n.L_x_1:\n A ;\n.L_x_2:\n QGMMA ;\n HGMMA ;\n HGMMA ;\n DEPBAR.LE gsb0, 0x1 ;\n FADD ;\n MUFU.EX2 ;\n MUFU.EX2 ;\n"
        " DEPBAR.LE gsb0, 0x0 ;\n BRA `(.L_x_2) ;\n MUFU.EX2 ;\n BRA `(.L_x_1) ;",
        "\n$L__BB0_1:\n\tex2.approx.ftz.f32 a, b; ex2.approx.f32 a, b;\n\twgmma.wait_group.sync.aligned 0;\n"
        "\twgmma.mma_async.sync.aligned.m64 x;\n\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 1;\n"
        "\t@%p1 bra \t$L__BB0_1;\n\tex2.approx x;",
    ],
)
def test_the_order_in_the_loop(program) -> None:
    product = "1 × QGMMA, 2 × HGMMA, wait(1), 2 × MUFU.EX2" if "GMMA ;" in program else "1 × wgmma, wait(1), 2 × ex2"
    assert assembly.order_in_loop(program) == f"{product}, wait(0)"
    with pytest.raises(ValueError, match="program has no loop with wgmma and powers of two"):
        assembly.order_in_loop(program.replace("EX2", "").replace("ex2", ""))


def test_what_cannot_be_disassembled_is_said_so(tmp_path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "k.cubin").write_text("no machine code")
    with pytest.raises(assembly.CompileError, match="nvdisasm: "):
        assembly.disassembled(tmp_path / "k.cubin")
