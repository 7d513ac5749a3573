"""A ring of processes against one process in float64, its messages against the formulas, and ranks that fail."""

import itertools
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from rule import definition

from course_lib import gpt, parallel
from course_lib.gpt.model import angles
from course_lib.instruments import measure
from course_lib.model import parallel as model

D = 16


# --- results and messages ---


# A case: order, causal, length, heads of queries, of keys, batch.


def _whole(case, dtype):
    _, _, length, heads, kv_heads, batch = case
    torch.manual_seed(length)
    return [torch.randn(batch, h, length, D).to(dtype) for h in (heads, kv_heads, kv_heads, heads)]


def _plain(case, dtype):
    *tensors, do = _whole(case, dtype)
    leaves = [x.requires_grad_() for x in tensors]
    o, _ = definition(*leaves, causal=case[1])
    return [o.detach(), *torch.autograd.grad(o, leaves, do)]


def _one(attend, rank, ranks, case, dtype):
    """o, dq, dk and dv of this rank, and its messages forward and backward."""
    *tensors, do = (parallel.shard(x, ranks, rank, case[0]) for x in _whole(case, dtype))
    leaves = [x.requires_grad_() for x in tensors]
    with parallel.sends() as forward:
        # The length may be left out, also where ranks hold different numbers of tokens.
        o = attend(*leaves, causal=case[1], **({} if case[2] % 2 else {"length": case[2]}))
    with parallel.sends() as backward:
        gradients = torch.autograd.grad(o, leaves, do)
    return [o, *gradients], list(map(tuple, forward)), list(map(tuple, backward))


def _ring(rank, ranks, cases, dtype):
    return [
        _one(
            lambda *x, order=case[0], **more: parallel.ring_attention(*x, order=order, **more), rank, ranks, case, dtype
        )
        for case in cases
    ]


def _ulysses(rank, ranks, cases, dtype):
    return [_one(parallel.ulysses_attention, rank, ranks, case, dtype) for case in cases]


def _compared(found, case, dtype):
    """Each result of all ranks within the rule: twice the error of plain attention in this dtype, and a floor."""
    rights, plains = (_plain(case, kind) for kind in (torch.float64, dtype))
    floor = 2e-6 if dtype == torch.float32 else 1e-14
    for i, (right, plain) in enumerate(zip(rights, plains)):
        whole = parallel.unshard([parts[i] for parts, _, _ in found], case[0])
        assert whole.dtype == dtype
        error = measure.max_error(whole, right)
        assert error <= 2 * measure.max_error(plain, right) + floor * max(1, float(right.abs().max())), (case, i, error)


def _messages(case, ranks, rank, dtype):
    """The sends of a rank in both passes by the formula, as (to, bytes): K, V, and after the next K and V their dK and dV."""
    order, causal, length, _, kv_heads, _ = case
    forward, backward = [], []
    for x in model.ring_bytes(order, ranks, rank, length, kv_heads, D, dtype, causal):
        forward += [((rank + 1) % ranks, x.keys_values // 2)] * 2 * (x.keys_values > 0)
    before = 0, 0
    for step, x in enumerate([*model.ring_bytes(order, ranks, rank, length, kv_heads, D, dtype, causal, True), None]):
        backward += [((rank + 1) % ranks, x.keys_values // 2)] * 2 * (x.keys_values > 0) if x else []
        backward += [before] * 2 * (before[1] > 0)
        source = (rank - step) % ranks
        goes_on = model.hops(order, ranks, source, length, causal) > step
        before = ((rank + 1) % ranks if goes_on else source, x.gradients // 2) if x else before
    return forward, backward


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_a_ring_gives_what_one_process_gives_in_float64(ranks) -> None:
    # 24 divides; 17 does not; of 3 tokens some ranks have none. Two heads of keys, and four or two of queries.
    lengths = ((24, 4), (17, 2), (3, 4))
    cases = [(*case, n, h, 2, 2) for *case, (n, h) in itertools.product(model.ORDERS, (False, True), lengths)]
    found = parallel.run(_ring, ranks, ranks, cases, torch.float64)
    for case, parts in zip(cases, zip(*found)):
        _compared(parts, case, torch.float64)


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.weekly)])
def test_a_ring_of_kernels_gives_the_same_and_sends_the_bytes_of_the_formula(ranks) -> None:
    cases = [("zigzag", False, 16, 2, 1, 1), *((order, True, n, 2, 1, 1) for order in model.ORDERS for n in (16, 19))]
    found = parallel.run(_ring, ranks, ranks, cases, torch.float32, limit=300)
    for case, parts in zip(cases, zip(*found)):
        _compared(parts, case, torch.float32)
        for rank, (_, forward, backward) in enumerate(parts):
            assert (forward, backward) == _messages(case, ranks, rank, torch.float32), (case, rank)


@pytest.mark.parametrize("ranks", [1, 4])
def test_ulysses_gives_the_same_and_sends_the_bytes_of_the_formula(ranks) -> None:
    cases = [("contiguous", causal, n, 4, h, 2) for causal in (False, True) for n in (16, 19) for h in (4, 2, 1)]
    found = parallel.run(_ulysses, ranks, ranks, cases, torch.float64)
    for case, parts in zip(cases, zip(*found)):
        _compared(parts, case, torch.float64)
        for rank, (_, *passes) in enumerate(parts):
            for backward, sent in zip((False, True), passes):
                right = sum(model.ulysses_bytes(ranks, rank, case[2], 4, case[4], D, torch.float64, backward))
                assert sum(x for _, x in sent) == 2 * right, (case, rank, backward)  # a batch of two


def _decoded(rank, ranks, cuts, q, k, v):
    """This rank's keys are those from a cut to the next."""
    mine = [x[:, :, cuts[rank] : cuts[rank + 1]] for x in (k, v)]
    with parallel.sends() as sent:
        o = parallel.decode(q, *mine)
    return o, sum(x.bytes for x in sent)


@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 8), (torch.float32, 4)])
def test_a_query_sees_a_cache_that_is_cut_among_ranks(dtype, size) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, h, n, D, dtype=dtype) for h, n in ((4, 1), (2, 300), (2, 300)))
    right, plain = definition(*(x.double() for x in (q, k, v)))[0], definition(q, k, v)[0]
    for cuts in ((0, 300), (0, 150, 300), (0, 260, 260, 300)):  # the second of three has no key
        ranks = len(cuts) - 1
        found = parallel.run(_decoded, ranks, ranks, cuts, q, k, v)
        assert all(torch.equal(o, found[0][0]) for o, _ in found)
        assert measure.max_error(found[0][0], right) <= 2 * measure.max_error(plain, right) + (
            2e-6 if size == 4 else 1e-14
        )
        sent = 2 * model.decode_bytes(ranks, 4, D, dtype, sums=size)  # a batch of two
        assert [sent] * ranks == [x for _, x in found]


def _trained(rank, ranks):
    """The gradients of a GPT's weights from a sequence that zigzag order deals out; without ``ranks``, from the whole one."""
    torch.manual_seed(0)
    line, n = torch.randint(20, (2, 17)), 16
    net = gpt.GPT(gpt.ATTENTIONS["SDPA"], vocab_size=20, block_size=n, n_layer=2, n_head=2, n_embd=32).double()
    mine = model.positions("zigzag", ranks, rank, n) if ranks else torch.arange(n)
    if ranks:
        net.use(lambda q, k, v: parallel.ring_attention(q, k, v, causal=True))
    x = net.transformer["wte"](line[:, mine])
    turn = [x[mine] for x in angles(0, n, 16, x)]
    for layer in net.blocks:
        x = layer(x, turn, None)
    scores = net.lm_head(net.transformer["ln_f"](x))
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), line[:, mine + 1].flatten(), reduction="sum")
    (loss / (2 * n)).backward()
    found = [x.grad for x in net.parameters()]
    if ranks:
        for x in found:
            torch.distributed.all_reduce(x)
    return found


def test_a_gpt_trains_on_tokens_that_are_dealt_out() -> None:
    for found in parallel.run(_trained, 4, 4):
        torch.testing.assert_close(found, _trained(0, 0), atol=1e-12, rtol=1e-9)


# --- ranks that fail ---


def test_ranks_are_processes_whose_words_come_in_order(capsys) -> None:
    numbers = {"here": torch.arange(3.0, requires_grad=True)}

    def work(rank):
        print(f"rank {rank}, process {os.getpid()}")
        return os.getpid(), numbers["here"] * rank

    found = parallel.run(work, 3)
    pids = [pid for pid, _ in found]
    assert len({os.getpid(), *pids}) == 4
    assert [x.tolist() for _, x in found] == [[0, 0, 0], [0, 1, 2], [0, 2, 4]]
    assert not any(x.requires_grad for _, x in found)
    assert capsys.readouterr().out.splitlines() == [f"rank {rank}, process {pid}" for rank, pid in enumerate(pids)]


def _failing(rank, folder, how):
    (folder / str(rank)).write_text(str(os.getpid()))
    if how == "lost":
        torch.distributed.recv(torch.empty(1), src=(rank + 1) % 3)
    if rank == 1 and how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and how == "raises":
        raise LookupError("no such token")
    if rank == 1 and how == "leaves":
        os._exit(0)
    x = torch.randn(1, 1, 4, D)
    return parallel.ring_attention(x, x, x)


@pytest.mark.parametrize(
    ("how", "rank", "message"),
    [
        ("killed", 1, r"rank 1 was killed by signal 9 \(SIGKILL\); the other ranks were ended"),
        (
            "raises",
            1,
            r"(?s)rank 1 ended with code 1 and without a result; the .*\nTraceback.*LookupError: no such token",
        ),
        ("leaves", 1, "rank 1 ended with code 0 and without a result; the other ranks were ended"),
        ("lost", 0, r"ranks 0, 1, 2 were not done after 2 s and ended; does each message have a receiver"),
    ],
)
def test_a_rank_that_fails_ends_all_and_is_named(tmp_path, how, rank, message) -> None:
    begin = time.monotonic()
    with pytest.raises(parallel.RankError, match=message) as caught:
        parallel.run(_failing, 3, tmp_path, how, limit=2 if how == "lost" else 60)
    assert time.monotonic() - begin < 30
    assert caught.value.rank == rank
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)


def test_no_rank_outlives_the_process_that_asked(tmp_path) -> None:
    asking = os.fork()
    if asking == 0:
        parallel.run(_failing, 3, tmp_path, "lost")
        os._exit(0)
    while len([path for path in tmp_path.iterdir() if path.read_text()]) < 3:
        time.sleep(0.02)
    os.kill(asking, signal.SIGKILL)
    os.waitpid(asking, 0)
    pids = [int(path.read_text()) for path in tmp_path.iterdir()]
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in pids)


def _runs(pid):
    """Whether the process is there, and no more than an entry that its new parent has not read."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_what_cannot_be_done_is_refused() -> None:
    x = torch.randn(1, 2, 6, D)
    with pytest.raises(ValueError, match=r"there is no process group; call this inside parallel\.run"):
        parallel.ring_attention(x, x, x)
    with pytest.raises(ValueError, match=r"ranks is 64, but this machine has \d+ GPUs"):
        parallel.run(_ring, 64, backend="nccl")
    with pytest.raises(ValueError, match=r"parts\[0\] has 4 tokens of 6, and in contiguous order rank 0 of 2 owns 3"):
        parallel.unshard([x[:, :, :4], x[:, :, 4:]], "contiguous")
    for refused in parallel.run(_refusals, 2):
        for found, words in zip(refused, REFUSED, strict=True):
            assert found.startswith(words)


REFUSED = [
    "rank 0 has 4 tokens of q and 4 of k, but of 10 it owns 5 in contiguous order; pass shard(x, 2, 0, 'contiguous')",
    "order is 'ring'; choose one of 'contiguous', 'zigzag', 'striped'",
    "q has 3 heads for 2 ranks; pass a multiple, or call ring_attention",
    "q has 6 new tokens, and nothing masks them among themselves; pass one at a time",
]


def _refusals(rank):
    x, found = torch.randn(1, 2, 6, D), []
    for call in (
        lambda: parallel.ring_attention(*[x[:, :, : 4 + 2 * rank]] * 3, order="contiguous"),
        lambda: parallel.ring_attention(x, x, x, order="ring"),
        lambda: parallel.ulysses_attention(*[torch.randn(1, 3, 6, D)] * 3),
        lambda: parallel.decode(x, x, x),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are compared
            call()
        found.append(str(caught.value))
    return found
