"""What is read out of the compiler's output, on lines as it writes them."""

from course_lib import assembly

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
