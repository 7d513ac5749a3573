"""The simulated memory: capacity, counters, scopes and the trace."""

import pytest
import torch

from course_lib.model.memory import Memory, SRAMOverflow


def test_loads_and_stores_are_counted_in_bytes_of_the_tensors_dtype() -> None:
    memory = Memory()
    A, C = memory.hbm("A", torch.randn(6, 4).half()), memory.hbm_empty("C", (6, 4), torch.float32)
    memory.store(C[0:2], memory.load(A[0:2]))
    memory.store(C[2:6, 1:3], memory.load(A[2:6, 1:3]))
    traffic = memory.traffic()
    assert (traffic.reads, traffic.writes) == ({"A": (8 + 8) * 2}, {"C": (8 + 8) * 4})
    assert (traffic.total_bytes, traffic.read_bytes) == (96, 32)
    torch.testing.assert_close(C.data[2:6, 1:3], A.data[2:6, 1:3].float())
    assert bool(C.data[2:, 0].isnan().all())  # what was never written shows
    memory.load(A[:])[:] = 5  # a loaded tile is a copy
    assert not (A.data == 5).any()


def test_capacity_is_exact_and_the_message_names_what_is_resident() -> None:
    memory = Memory(sram_bytes=100)
    A = memory.hbm("A", torch.ones(10, 2))
    memory.load(A[0:5])
    memory.tile("acc", torch.ones(10))
    memory.tile("acc", torch.ones(15))  # replaces the old one
    assert memory.resident_bytes == 100
    with pytest.raises(
        SRAMOverflow, match=r"l needs 4 B, but SRAM has 100 B and holds A\[0:5, 0:2\] 40 B, acc 60 B: 4 B too many"
    ):
        memory.tile("l", torch.ones(1))
    memory.free("acc")
    memory.tile("l", torch.ones(1))
    assert memory.resident_bytes == 44


def test_scopes_free_what_came_inside_them_even_after_an_error() -> None:
    memory = Memory(sram_bytes=100)
    A = memory.hbm("A", torch.ones(10, 2))
    memory.tile("outer", torch.ones(2))
    with memory.scope("loop"):
        memory.load(A[0:5])
        with memory.scope("inner"):
            memory.load(A[5:6])
            memory.tile("a", torch.ones(2))
            memory.free("a")  # not freed twice
            assert memory.resident_bytes == 56
        assert memory.resident_bytes == 48
    assert memory.resident_bytes == 8
    with pytest.raises(SRAMOverflow), memory.scope("too much"):
        memory.load(A[0:5])
        memory.load(A[0:10])
    assert memory.resident_bytes == 8
    assert memory.peak_bytes == 64


def test_the_trace_is_the_source_of_all_counts() -> None:
    memory = Memory(sram_bytes=1000)
    A, C = memory.hbm("A", torch.ones(4, 2)), memory.hbm_empty("C", (4, 4))
    with memory.scope("rows"):
        a = memory.load(A[0:4])
        memory.store(C[:], memory.tile("P", memory.matmul(a, a.T)))
        memory.work(7, "softmax")
    assert [event.op for event in memory.trace] == ["load", "compute", "tile", "store", "compute", "free", "free"]
    assert [event.step for event in memory.trace] == list(range(7))
    store = memory.trace[3]
    assert (store.tensor, store.rows, store.cols, store.bytes, store.sram_bytes) == ("C", (0, 4), (0, 4), 64, 96)
    assert store.scope == ("rows",)
    assert memory.flops() == (2 * 4 * 4 * 2, 7)
    assert sum(event.bytes for event in memory.trace if event.op == "load") == memory.traffic().read_bytes
    assert repr(memory.table()).splitlines()[-1].split() == ["total", "8", "32", "16", "64"]


BAD = [
    (lambda m, a: m.hbm("A", torch.ones(2)), ValueError, "HBM already holds a tensor named 'A'"),
    (lambda m, a: m.hbm("B", torch.ones(2, 2, 2)), ValueError, r"B has shape \[2, 2, 2\]"),
    (lambda m, a: m.hbm("B", torch.tensor([torch.nan])), ValueError, "B contains NaN"),
    (lambda m, a: m.work(5, "softmaks"), ValueError, "kind is 'softmaks'"),
    (lambda m, a: m.hbm_empty("B", (2, 0)), ValueError, "shape of B is 0"),
    (lambda m, a: m.free("b"), KeyError, "no tile named 'b' is in SRAM"),
    (lambda m, a: m.load(a[12:14]), IndexError, "rows 12:14 of A, which has 10"),
    (lambda m, a: m.load(a[0:4:2]), IndexError, "rows 0:4 of A"),
    (lambda m, a: m.load(a[0, 0, 0]), IndexError, r"A has 2 dimension\(s\) but the index has 3"),
    (lambda m, a: m.store(a[0:2], torch.ones(3, 2)), ValueError, r"the tile has shape \[3, 2\] but A\[0:2, 0:2\] has"),
    (lambda m, a: m.hbm_empty("S", (2**16, 2**16)), ValueError, r"S \[65536, 65536\] takes 17,179,869,184 B,"),
    (lambda m, a: Memory().load(a[0:2]), ValueError, r"A\[0:2, 0:2\] belongs to another Memory"),
]


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda m, a: m.hbm("A", torch.ones(2)), ValueError, "HBM already holds a tensor named 'A'"),
        (lambda m, a: m.load(a[5:5]), IndexError, "A has 10 rows; pass a contiguous"),
        (lambda m, a: m.load(a[12:14]), IndexError, "A has 10 rows"),
        (lambda m, a: m.load(a[0:4:2]), IndexError, "A has 10 rows"),
        (
            lambda m, a: m.store(a[0:2], torch.ones(3, 2)),
            ValueError,
            r"the tile is \[3, 2\] but A\[0:2, 0:2\] is \[2, 2\]",
        ),
        (lambda m, a: m.load(a), TypeError, "pass a View"),
        (lambda m, a: Memory().load(a[0:2]), ValueError, r"A\[0:2, 0:2\] belongs to another Memory"),
    ],
)
def test_bad_use(act, error, message) -> None:
    memory = Memory()
    with pytest.raises(error, match=message):
        act(memory, memory.hbm("A", torch.ones(10, 2)))
