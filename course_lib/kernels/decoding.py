"""Attention of one or a few queries a sequence over a cache of keys and values: decoding.

    o = decode(q, k_cache, v_cache, lengths)                               # cache [B, Hk, N, D], lengths int32 [B]
    o = decode(q, k_pages, v_pages, lengths, block_table=table)            # pages [P, Hk, page, D], table int32 [B, slots]

The query heads that share a head of keys are rows of one tile, so that K and V are read once for all of them. The keys of
a sequence are cut among ``splits`` programs, each of which leaves the attention of its part, O_s, and that part's log-sum-exp
L_s; a second kernel merges them, L = log Σ e^{L_s}, O = Σ e^{L_s - L} O_s. Nothing is added atomically: the same splits give the
same bits.
Source: Flash-Decoding (pytorch.org/blog/flash-decoding); pages: PagedAttention (arXiv 2309.06180).
"""

import functools
from typing import Any, NamedTuple

import torch

from course_lib import checks, runtime
from course_lib.kernels import LOG2E, fast_launch, tl, triton
from course_lib.kernels.arguments import autocast, in_float32
from course_lib.kernels.decoding_arguments import MOST_QUERIES, decode_options, refuse_gradients
from course_lib.kernels.launching import launch
from course_lib.kernels.portable.rows import _capped, _elements, _rows
from course_lib.kernels.portable.tiles import constants_of, strides_in_units
from course_lib.model.decoding import MOST_EVEN, MOST_SPLITS

_MOST_EVEN = tl.constexpr(MOST_EVEN)


@triton.jit
def _page_numbers(table_ptr, start, end, pages, PAGE: tl.constexpr, BLOCK_N: tl.constexpr):
    """The page of each key start … start + BLOCK_N, [BLOCK_N], from one load for each page; 0 for one that is none."""
    COUNT: tl.constexpr = BLOCK_N // PAGE if PAGE < BLOCK_N else 1
    slot = start // PAGE + tl.arange(0, COUNT)
    page = tl.load(table_ptr + slot, mask=slot * PAGE < end, other=0)
    there = (page >= 0) & (page < pages)
    page = tl.broadcast_to(tl.where(there, page, 0)[:, None], [COUNT, BLOCK_N // COUNT])
    there = tl.broadcast_to(there[:, None], [COUNT, BLOCK_N // COUNT])
    return tl.reshape(page, [BLOCK_N]), tl.reshape(there, [BLOCK_N])


@triton.jit
def _page_rows(ptr, page, seen, start, stride_b, stride_n, D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
               PAGE: tl.constexpr):  # fmt: skip
    """The rows of these keys, [BLOCK_N, BLOCK_D]; what is not ``seen`` is not read, since it may be NaN, and is 0."""
    row, dims = (start + tl.arange(0, BLOCK_N)) % PAGE, tl.arange(0, BLOCK_D)
    if PAGE > 128:  # its rows may lie 2^31 elements apart and more
        row = row.to(tl.int64)
    at = page.to(tl.int64) * stride_b + row * stride_n
    return tl.load(ptr + at[:, None] + dims[None, :], mask=seen[:, None] & (dims[None, :] < D), other=0.0)


@triton.jit
def _even_splits(lengths_ptr, batch, n_k, splits, BATCH: tl.constexpr, BLOCK_N: tl.constexpr):
    """(Blocks of keys of a split, splits of each sequence [BATCH]): about batch · splits in all, equally long, the rest of a sequence less.

    A sequence has one split at least, and MOST_EVEN at most; in all there are at most batch · (splits + 1).
    """
    b = tl.arange(0, BATCH)
    length = tl.load(lengths_ptr + b, mask=b < batch, other=0)
    blocks = tl.cdiv(tl.maximum(0, tl.minimum(length, n_k)), BLOCK_N)
    each = tl.cdiv(tl.sum(blocks.to(tl.int64), 0), batch * splits).to(tl.int32)
    each = tl.maximum(1, tl.maximum(each, tl.cdiv(tl.max(blocks, 0), _MOST_EVEN)))
    return each, tl.where(b < batch, tl.maximum(1, tl.cdiv(blocks, each)), 0)


@triton.jit
def _splits_of(b, lengths_ptr, batch, n_k, splits, BATCH: tl.constexpr, BLOCK_N: tl.constexpr):
    """(The first split of sequence b, how many it has)."""
    if BATCH == 0:
        return b * splits, splits
    else:
        _, counts = _even_splits(lengths_ptr, batch, n_k, splits, BATCH, BLOCK_N)
        sequence = tl.arange(0, BATCH)
        first = tl.sum(tl.where(sequence < b, counts, 0), 0)
        return first, tl.sum(tl.where(sequence == b, counts, 0), 0)


@triton.jit(do_not_specialize=["batch", "n_q", "n_k", "offset", "splits", "slots", "pages"])
def decode_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, O_s_ptr, L_s_ptr,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    batch, heads_k, group, n_q, n_k, offset, splits, slots, pages, scale, softcap,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, UNIT: tl.constexpr,
    PAGE: tl.constexpr, LENGTHS: tl.constexpr, SPLIT: tl.constexpr, BATCH: tl.constexpr, CAUSAL: tl.constexpr,
    SOFTCAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One program: one split of the keys of one head of K and V, and a tile of the queries that share that head.

    Row r of the tile is query r % n_q of head r // n_q of the group. Query i sees the keys before length + offset + i + 1.
    """
    q_b, q_h, q_n = _elements(q_b, q_h, q_n, UNIT)
    k_b, k_h, k_n = _elements(k_b, k_h, k_n, UNIT)
    v_b, v_h, v_n = _elements(v_b, v_h, v_n, UNIT)
    tiles = tl.cdiv(group * n_q, BLOCK_M)
    part, place = tl.program_id(0) // (heads_k * tiles), tl.program_id(0) % (heads_k * tiles)
    tile, h_k = place % tiles, (place // tiles).to(tl.int64)
    if BATCH == 0:  # as many splits for each sequence
        b, split = part // splits, part % splits
    else:
        blocks, counts = _even_splits(lengths_ptr, batch, n_k, splits, BATCH, BLOCK_N)
        before = tl.cumsum(counts, 0) <= part  # sequences whose splits come before this one
        b, split = tl.sum(before.to(tl.int32), 0), part - tl.sum(tl.where(before, counts, 0), 0)
        if b >= batch:
            return
    b = b.to(tl.int64)

    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    inside, i, dims = rows < group * n_q, rows % n_q, tl.arange(0, BLOCK_D)
    h = h_k * group + rows // n_q
    at = b * q_b + h * q_h + i * q_n
    q = tl.load(q_ptr + at[:, None] + dims[None, :], mask=inside[:, None] & (dims[None, :] < D), other=0.0)

    length = n_k
    if LENGTHS:
        given = tl.load(lengths_ptr + b)
        length = tl.maximum(0, tl.minimum(given, n_k))  # nothing beyond the cache is read, whatever the length says
    end = tl.maximum(0, tl.minimum(length, length + offset + n_q))
    if BATCH == 0:
        blocks = tl.cdiv(tl.cdiv(end, BLOCK_N), splits)  # of the keys in use, not of those that there is room for
    each = blocks * BLOCK_N
    begin = tl.minimum(split * each, end)
    end = tl.minimum(begin + each, end)
    table_ptr += b * slots
    k_ptr += h_k * k_h
    v_ptr += h_k * v_h
    if PAGE == 0:
        k_ptr += b * k_b
        v_ptr += b * v_b

    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    for start in range(begin, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        if PAGE == 0:
            k = _rows(k_ptr, start, BLOCK_N, end, k_n, D, BLOCK_D, True)  # [BLOCK_N, BLOCK_D]
        else:
            page, there = _page_numbers(table_ptr, start, end, pages, PAGE, BLOCK_N)
            k = _page_rows(k_ptr, page, there & (keys < end), start, k_b, k_n, D, BLOCK_N, BLOCK_D, PAGE)
        s, _ = _capped(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale, softcap, SOFTCAP)  # [BLOCK_M, BLOCK_N]
        if PAGE > 0:
            s = tl.where(there[None, :], s, float("nan"))  # an invalid page gives NaN
        seen = keys[None, :] < end
        if CAUSAL:
            seen = seen & (keys[None, :] <= length + offset + i[:, None])
        s = tl.where(seen, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # a row may see none of these keys
        p = tl.exp2(s - shift[:, None])
        correction = tl.exp2(m - shift)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None]
        if PAGE == 0:
            v = _rows(v_ptr, start, BLOCK_N, end, v_n, D, BLOCK_D, True)
        else:
            v = _page_rows(v_ptr, page, there & (keys < end), start, v_b, v_n, D, BLOCK_N, BLOCK_D, PAGE)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision=PRECISION)
        m = m_new

    l = tl.where(l == 0, 1.0, l)  # a row that saw no key: its acc is 0 and its L is -inf
    inverse = 1 / l
    acc = acc * inverse[:, None]
    lse = (m + tl.log2(l)) / LOG2E
    if LENGTHS:  # a length that the cache does not have shows
        lse = tl.where(given == length, lse, float("nan"))
        acc = tl.where(given == length, acc, float("nan"))
    row = ((part if SPLIT else b).to(tl.int64) * heads_k * group + h) * n_q + i
    if SPLIT:
        tl.store(L_s_ptr + row, lse, mask=inside)
        written = inside & (lse != -float("inf"))  # the merge does not read the others
        tl.store(O_s_ptr + row[:, None] * D + dims[None, :], acc, mask=written[:, None] & (dims[None, :] < D))
    else:
        tl.store(L_ptr + row, lse, mask=inside)
        acc = acc.to(o_ptr.dtype.element_ty)
        tl.store(o_ptr + row[:, None] * D + dims[None, :], acc, mask=inside[:, None] & (dims[None, :] < D))


@triton.jit(do_not_specialize=["batch", "rows", "n_k", "splits"])
def merge_kernel(
    O_s_ptr, L_s_ptr, lengths_ptr, o_ptr, L_ptr, batch, rows, n_k, splits,
    D: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr, BATCH: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One program: one row of the result, L = log Σ e^{L_s} and O = Σ e^{L_s - L} O_s. A sequence has ``rows`` of them.

    L_s is a natural logarithm; -inf: no key seen.
    """
    row = tl.program_id(0).to(tl.int64)
    b, s, dims = row // rows, tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    first, splits = _splits_of(b, lengths_ptr, batch, n_k, splits, BATCH, BLOCK_N)
    at = (first + s) * rows + row % rows
    lse = tl.load(L_s_ptr + at, mask=s < splits, other=-float("inf"))  # [BLOCK_S]
    there = lse != -float("inf")  # a NaN counts as there, and shows
    inside = there[:, None] & (dims[None, :] < D)  # [BLOCK_S, BLOCK_D]
    o_s = tl.load(O_s_ptr + at[:, None] * D + dims[None, :], mask=inside, other=0.0)
    m = tl.max(lse, 0)
    weight = tl.exp2((lse - tl.where(m == -float("inf"), 0.0, m)) * LOG2E)
    total = tl.sum(weight, 0)
    total = tl.where(total == 0, 1.0, total)  # no split has seen a key
    o = tl.sum(weight[:, None] * o_s, 0) / total
    tl.store(o_ptr + row * D + dims, o.to(o_ptr.dtype.element_ty), mask=dims < D)
    tl.store(L_ptr + row, m + tl.log2(total) / LOG2E)


# --- how the work is cut ---


class Tile(NamedTuple):
    """Rows of queries, keys of a block, warps and pipeline stages of a program; how many programs keep an SM's share of the memory busy."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    places: int


SHORTEST = 128  # keys that a split has at least: below, its partial result is not small beside its K and V
LARGEST_EVEN = 1024  # sequences whose lengths a program goes through to find its own
FULL = 0.95  # of the fullest waves: the least that ``choose_splits`` takes
WAVES = 4  # of programs, where sequences differ in length


def tile_of(q: torch.Tensor, group: int, paged: bool = False) -> Tile:
    """The tile for q [B, H, Nq, D] whose heads share one of K and V in groups of ``group``: the fastest of a sweep on an H200.

    For few rows a program takes all of an SM: its blocks are large enough for the SM's share of the memory's bandwidth, and programs
    that end one by one leave less of a GPU idle than three at a time.
    """
    block_d = max(16, triton.next_power_of_2(q.shape[3]))
    rows = max(16, triton.next_power_of_2(group * q.shape[2]))
    if q.dtype == torch.float32:
        block = 32 if block_d <= 64 else 16
        return Tile(min(rows, block), block, 4 if block_d <= 128 else 8, 1, 2)
    block_m = min(rows, 64 if block_d <= 128 else 32)
    gpu = runtime.mode() == "GPU"
    roomy = not gpu or runtime.architecture(q.device) in (80, 90, 100, 103)  # others have 100 KiB of shared memory
    block_n = max(32, min(256, (2**18 if roomy else 2**17) // (block_m * block_d)))
    stages = 1 if not gpu else 5 if paged else 3  # page numbers are loaded two stages before what is in the pages
    under_way = 2 * 2 * block_n * block_d * q.element_size()  # bytes of two blocks of K and of V
    warps = 8 if block_m == 64 or block_n == 256 or (paged and block_m == 16) else 4
    return Tile(block_m, block_n, warps, stages, 1 if under_way >= 2**17 else 2)


def wave_efficiency(programs: int, splits: int, places: int) -> float:
    """The share of a GPU's places that work, averaged over the waves, with ``programs`` · ``splits`` programs; 0 to 1.

    ``places`` is how many programs the GPU runs at once. Raises TypeError or ValueError for what is no positive number.
    """
    for name, value in (("programs", programs), ("splits", splits), ("places", places)):
        checks.positive_int(name, value)
    return programs * splits / (-(-programs * splits // places) * places)


def choose_splits(programs: int, blocks: int, places: int, most: int = MOST_SPLITS) -> int:
    """How many splits of the keys: the fewest whose waves are at least 95 % as full as those of the best count.

    ``programs`` is what a launch has without splitting (batch · heads of K and V · tiles of queries), ``blocks`` how many blocks of keys
    can be dealt out, ``places`` how many programs the GPU runs at once. Counts that leave the longest split as long as one split fewer
    did are passed over. Raises TypeError or ValueError for what is no positive number.
    Source: FlashAttention-3's hopper/heuristics.h, where it is 85 %.
    """
    checks.whole("most", most, 1, MOST_SPLITS)
    checks.positive_int("blocks", blocks)
    useful = [s for s in range(1, min(blocks, most) + 1) if s == 1 or -(-blocks // s) < -(-blocks // (s - 1))]
    best = max(wave_efficiency(programs, s, places) for s in useful)
    return next(s for s in useful if wave_efficiency(programs, s, places) >= FULL * best)


_chosen = functools.lru_cache(choose_splits)


def splits_for(q: torch.Tensor, heads_k: int, keys: int, even: bool = False) -> int:
    """The splits of each sequence for q [B, H, Nq, D] on its GPU: ``choose_splits`` if all have ``keys`` keys.

    ``even``: their mean number where the lengths differ and ``keys`` is their mean; enough for WAVES waves, so that the last one is short.
    """
    b, h, n_q, _ = q.shape
    tile = tile_of(q, h // heads_k)
    blocks = max(1, keys // max(SHORTEST, tile.block_n))
    programs = max(1, b * heads_k * triton.cdiv(h // heads_k * n_q, tile.block_m))
    places = tile.places * runtime.multiprocessors(q.device)
    if even:
        return max(1, min(triton.cdiv(WAVES * places, programs), blocks // 4, MOST_EVEN))
    return _chosen(programs, blocks, places)


def uneven(batch: int, longest: int, total: int) -> bool:
    """Whether sequences of ``total`` keys in all differ so much in length that the longest would keep the others waiting."""
    return 1 < batch <= LARGEST_EVEN and 4 * batch * longest > 5 * total


def pays(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether ``attention`` of q [B, H, Nq, D] and k [B, Hk, Nk, D] is better off here: few queries, keys enough for two splits.

    A block of queries would be mostly empty, K and V would be read for each head of q, and few programs would read them.
    """
    return q.shape[2] <= MOST_QUERIES and k.shape[2] >= 2 * SHORTEST


# --- launches ---


@in_float32
def launch_decode(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor | None, table: torch.Tensor | None,
    causal: bool, offset: int, scale: float, softcap: float, splits: int, keys: int, even: bool = False, lse: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(o, L) for arguments that ``decode`` or ``attention`` has checked; query i sees the keys before length + offset + i + 1.

    0 ``splits``: as many as ``splits_for`` finds for ``keys``. ``even``: batch · splits in all, of which a long sequence has more.
    Not ``lse``: (o, o), and L in memory that goes with the partial results, since the host pays for each piece.
    """
    (b, h, n_q, d), h_k = q.shape, k.shape[1]
    if q.numel() == 0:
        return empty_results(q)
    splits = splits or splits_for(q, h_k, keys, even)
    split = even or splits > 1
    page, slots, room = 0, 0, k.shape[2]
    if table is not None:
        page, slots = k.shape[2], table.shape[1]
        room = page * slots
    tile, constants = tile_of(q, h // h_k, table is not None), constants_of(q, causal, softcap)
    batch, parts = (max(128, triton.next_power_of_2(b)), b * (splits + 1)) if even else (0, b * splits)
    o = torch.empty_like(q, memory_format=torch.contiguous_format)
    if split:
        rows, merged = parts * h * n_q, b * h * n_q
        O_s, L_s, L = q.new_empty(rows * (d + 1) + merged, dtype=torch.float32).split((rows * d, rows, merged))
    if lse or not split:
        L = q.new_empty(q.shape[:3], dtype=torch.float32)
    if not split:
        O_s, L_s = o, L
    unit, strides = strides_in_units(q, k, v)
    numbers = q if lengths is None else lengths
    launch(
        decode_kernel, (parts * h_k * triton.cdiv(h // h_k * n_q, tile.block_m),),
        q, k, v, numbers, q if table is None else table, o, L, O_s, L_s,
        *strides, b, h_k, h // h_k, n_q, room, max(-(room + n_q), min(offset, room)), splits, slots, k.shape[0], scale, softcap,
        BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, num_warps=tile.num_warps, num_stages=tile.num_stages,
        UNIT=unit, PAGE=page, LENGTHS=lengths is not None, SPLIT=split, BATCH=batch, **constants,
    )  # fmt: skip
    if split:
        block_s = MOST_EVEN if even else triton.next_power_of_2(splits)
        launch(
            merge_kernel, (b * h * n_q,), O_s, L_s, numbers, o, L, b, h * n_q, room, splits,
            D=d, BLOCK_S=block_s, BLOCK_D=constants["BLOCK_D"], BATCH=batch, BLOCK_N=tile.block_n,
            num_warps=8 if block_s * constants["BLOCK_D"] > 2**13 else 4,
        )  # fmt: skip
    return o, L if lse else o


def empty_results(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """o like q, contiguous, and L [B, H, Nq] in float32, without numbers."""
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:3], dtype=torch.float32)


_operator = torch.library.custom_op("course::decode", launch_decode, mutates_args=())


@_operator.register_fake
def _(q, k, v, lengths, table, causal, offset, scale, softcap, splits, keys, even=False, lse=True):  # type: ignore[no-untyped-def]
    return empty_results(q)


def decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor | None = None,
    *,
    block_table: torch.Tensor | None = None,
    splits: int | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    longest: int | None = None,
    total: int | None = None,
    check: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The attention of the last Nq tokens of each sequence, 1 to 8, over all of its keys so far; without gradients.

    q [B, H, Nq, D] -> [B, H, Nq, D] in q's dtype; dtypes, strides, D and autocast as of ``attention``, H a multiple of Hk. The cache
    is k_cache and v_cache [B, Hk, N, D], or, with a ``block_table`` [B, slots], pages [P, Hk, page, D]: token t of sequence b is row
    t % page of page block_table[b, t // page]; a page has 16, 32, 64 … tokens.
    ``lengths`` [B] says how many keys each sequence has, its new tokens among them, None: all that there is room for. Query i
    is token length - Nq + i and sees the keys up to its own; one before the first token, as in an empty sequence, gives 0 and
    L = -inf. What lies beyond a length is never read. Lengths and table are int32, contiguous, on q's device.
    ``splits`` programs, 1 to 128, share the keys of a sequence; unless given, ``choose_splits`` does for ``longest`` keys, by
    default the longest of ``lengths`` if these are on the CPU, and the cache's room if they are on a GPU. If ``total``, the keys of all
    sequences, says that their lengths differ much, a long one gets more splits than a short one; known by itself on the CPU.
    So without ``splits`` the last bits of a sequence may depend on the others of its batch. ``scale`` is 1/√D unless
    given. ``return_lse``: also L [B, H, Nq] in float32, the natural log-sum-exp of each row of scores.

    Raises TypeError or ValueError before any launch. Numbers of lengths and table are looked at where that costs no waiting: on
    the CPU always, on a GPU with ``check``, which waits for it. Unchecked, a page number or a length out of range reads nothing
    outside the cache, and makes the sequence NaN.
    """
    q, k_cache, v_cache = autocast(q, k_cache, v_cache)
    arguments = q, k_cache, v_cache, lengths, block_table
    if splits is not None:
        splits = checks.whole("splits", splits, 1, MOST_SPLITS)
    if longest is not None:
        longest = checks.whole("longest", longest, 0)
    if total is not None:
        total = checks.whole("total", total, 0)
    if return_lse is not False:
        checks.truth("return_lse", return_lse)
    if check is not False:
        checks.truth("check", check)
    kind = None if torch.compiler.is_compiling() else fast_launch.kinds(*arguments)
    fast = kind is not None and q.is_cuda and not check
    key = (kind, scale, type(scale)) if fast else None
    plan = _plans.get(key)
    if plan is None:
        causal, scale, seen = decode_options(*arguments, scale, check)
        if seen is not None:
            longest, total = max(seen, default=0) if longest is None else longest, sum(seen)
        plan = _Plan((causal, -q.shape[2], scale, 0.0))
        if fast:
            if len(_plans) >= fast_launch.MOST:
                _plans.clear()
            _plans[key] = plan
    if torch.is_grad_enabled() and (q.requires_grad or k_cache.requires_grad or v_cache.requires_grad):
        refuse_gradients(q=q, k_cache=k_cache, v_cache=v_cache)
    if longest is None:
        longest = k_cache.shape[2] * (1 if block_table is None else block_table.shape[1])
    even = lengths is not None and total is not None and splits is None and uneven(q.shape[0], longest, total)
    keys = total // q.shape[0] if even else longest  # type: ignore[operator]
    if kind is None:
        o, L = _operator(*arguments, *plan.options, splits or 0, keys, even)
    else:
        o, L = plan.launch(splits, keys, even, return_lse, q, k_cache)((), arguments)
    return (o, L) if return_lse else o


class _Plan:
    """What the arguments of calls alike mean, and the launches that serve them, by how the keys are cut."""

    def __init__(self, options: tuple[bool, int, float, float]) -> None:
        self.options = options
        self.launches: dict[Any, fast_launch.Replayed] = {}

    def launch(
        self, splits: int | None, keys: int, even: bool, lse: bool, q: torch.Tensor, k: torch.Tensor
    ) -> fast_launch.Replayed:
        cut = (splits, even, lse) if splits else (None, even, lse, keys // SHORTEST)
        found = self.launches.get(cut)
        if found is None:
            found = self.launches.get(chosen := (splits or splits_for(q, k.shape[1], keys, even), even, lse))
            found = found or fast_launch.Replayed(launch_decode, (*self.options, chosen[0], 0, even, lse))
            self.launches[cut] = self.launches[chosen] = found
        return found


_plans: dict[Any, _Plan] = {}
