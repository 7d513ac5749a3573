"""Lecture 10's figures: the ring's model, the places of a tile, kernels that the page shows and the compiler's word on them."""

import pytest

from course_lib import runtime
from course_lib.figures import kernel_pieces, machinery, tile_pictures
from course_lib.kernels.hopper import pieces
from course_lib.show import style

compiled_here = pytest.mark.skipif(runtime.mode() == "no kernels", reason="no compiler here")


@pytest.mark.parametrize("buffers", [1, 2, 3, 6])
def test_the_model_of_the_ring_keeps_its_buffers_and_the_bandwidth(buffers) -> None:
    ways = machinery.trips(buffers, 50_000)
    assert all(ways[n][0] == ways[n - buffers][1] for n in range(buffers, len(ways)))  # a buffer holds one tile
    late = [end for _, end in ways if end > 10_000]
    rate = 132 * machinery.TILE * (len(late) - 1) / (late[-1] - late[0])
    assert rate == pytest.approx(min(4800, buffers * machinery.ring_rates()[1]), rel=0.02)


def test_swizzling_loses_no_piece_and_spreads_every_read_over_all_banks() -> None:
    for row in range(64):
        assert sorted(tile_pictures.swizzled(row, piece) for piece in range(8)) == list(range(8))
    for piece in range(8):
        assert tile_pictures.cycles(tile_pictures.below_each_other, piece) == 8
        assert tile_pictures.cycles(tile_pictures.swizzled, piece) == 1


def test_a_drawn_barrier_ends_with_nothing_missing_and_begins_with_an_arrival() -> None:
    first, *_, last = tile_pictures.STATES
    assert (first.arrivals, first.missing) == (1, 0)
    assert (last.arrivals, last.missing, last.landed) == (0, 0, 1.0)
    assert all(s.missing == machinery.TILE * (1 - s.landed) for s in tile_pictures.STATES if not s.arrivals)


def test_listings_mark_the_lines_that_are_new() -> None:
    """A word that leaves the library's source makes its listing raise; here, that they mark few lines of many."""
    for listing, new in ((kernel_pieces.ring_code, 4), (kernel_pieces.ring_loops, 3), (kernel_pieces.matmul_code, 5)):
        lines = listing().data.splitlines()
        assert sum(line.startswith("+ ") for line in lines) == new
    assert "launch(tma_kernel" in kernel_pieces.copy_launch().data
    assert pieces.tma_kernel.fn.__name__ in kernel_pieces.copy_code().data
    assert "barriers(BUFFERS, READERS)" in kernel_pieces.ring_making().data
    assert "gl.warp_specialize(" in kernel_pieces.ring_start().data


@pytest.mark.kernel
@compiled_here
def test_the_sum_of_registers_says_what_spills() -> None:
    rows = kernel_pieces.spills().rows
    assert [fate == "spills" for *_, fate, _ in rows] == [total + 20 > most for _, _, _, total, most, _, _ in rows]
    assert sum(fate == "spills" for *_, fate, _ in rows) == 2


def test_the_ring_is_drawn_for_every_number_of_buffers() -> None:
    for buffers in (1, 8):
        png, words = style.render(
            machinery.ring, size=machinery.RING["size"], axes=machinery.RING["axes"], buffers=buffers
        )
        assert png.startswith(b"\x89PNG")
        assert words.startswith(f"{buffers} buffer")
