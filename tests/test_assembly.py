"""What is read out of the compiler's output, on lines as it writes them."""

import pytest

from course_lib import assembly, runtime

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


@pytest.mark.skipif(runtime.lane() == "no kernels", reason="no assembler here")
def test_the_assembler_tells_of_waits_that_it_adds() -> None:
    assert not assembly.ptxas_report(WGMMA.replace("HERE", ""), 90).serialised_wgmma
    touched = WGMMA.replace("HERE", "add.f32 %f0, %f0, %f1;")  # of a product that is under way
    assert assembly.ptxas_report(touched, 90).serialised_wgmma
