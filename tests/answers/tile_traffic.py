import torch


def _loop(memory, A, B, C, bm, bn, strip, across, put):
    (m, n) = C.data.shape
    for i in range(0, m, bm):
        with memory.scope("strip"):
            a = strip(slice(i, i + bm))
            for j in range(0, n, bn):
                with memory.scope("tile"):
                    c = memory.tile("c", memory.matmul(a, across(slice(j, j + bn))))
                    put((slice(i, i + bm), slice(j, j + bn)), c)


def right_back_and_forth_freed_by_hand(memory, A, B, C, bm, bn):
    starts, held, b = list(range(0, B.data.shape[1], bn)), None, None
    for i in range(0, A.data.shape[0], bm):
        a = memory.load(A[i : i + bm])
        for j in starts:
            if held != j:  # else the last strip of B is still there
                if held is not None:
                    memory.free(str(B[:, held : held + bn]))
                held, b = j, memory.load(B[:, j : j + bn])
            memory.store(C[i : i + bm, j : j + bn], memory.tile("c", memory.matmul(a, b)))
            memory.free("c")
        memory.free(str(A[i : i + bm]))
        starts.reverse()


def wrong_b_loaded_but_read_by_data(memory, A, B, C, bm, bn):
    """of .data, say"""

    def across(cols):
        memory.load(B[:, cols])
        return B.data[:, cols]

    _loop(memory, A, B, C, bm, bn, lambda rows: memory.load(A[rows]), across, lambda at, c: memory.store(C[at], c))


def wrong_zeros_stored_and_c_written_by_data(memory, A, B, C, bm, bn):
    def put(at, c):
        memory.store(C[at], torch.zeros_like(c))
        C.data[at] = c

    _loop(memory, A, B, C, bm, bn, lambda rows: memory.load(A[rows]), lambda cols: memory.load(B[:, cols]), put)
