"""The capstone on a GPU: the same model trained with our attention and torch's, its steps at long contexts, and what it says.

Each recording takes its share of BUDGET seconds; what no longer fits is left out with a printed line. Those that need a
trained model take the one that ``capstone_losses`` leaves, or train it.
"""

import functools
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib import gpt, runtime
from course_lib.gpt.training import loss_of
from course_lib.instruments import measure

BUDGET = {"losses": 140.0, "backends": 60.0, "context": 80.0, "generation": 40.0}  # seconds
FEWEST, EARLY = 500, 100  # steps of a run, and before the early sample
SEEDS = 3
SMALL: dict[str, Any] = {"n_layer": 1, "n_head": 2, "n_embd": 32, "block_size": 32}
SMALL_RUN: dict[str, Any] = {"steps": 6, "batch": 2, "length": 32, "lr": 3e-3, "warm_up": 2, "clip": 1.0}
Sizes = dict[str, int]
SMALL_WIDTHS: tuple[Sizes, ...] = ({"n_layer": 1, "n_head": 2, "n_embd": 32},)
WIDTHS: tuple[Sizes, ...] = ({"n_layer": 6, "n_head": 6, "n_embd": 384}, {"n_layer": 4, "n_head": 8, "n_embd": 1024})
TOKENS, CONTEXTS = 65_536, (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
BACKENDS = {
    "SDPA flash": SDPBackend.FLASH_ATTENTION,
    "SDPA cuDNN": SDPBackend.CUDNN_ATTENTION,
    "SDPA efficient": SDPBackend.EFFICIENT_ATTENTION,
}
PROMPT = "\n\nACT I.\n\nSCENE I. "
# By ``small``: attention()'s first model, and the rows of its run.
_trained: dict[bool, tuple[gpt.GPT, list[dict[str, Any]]]] = {}
_early: dict[str, torch.Tensor] = {}  # the weights of that model after EARLY steps


def _log(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", flush=True)


def _backend(which: SDPBackend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel(which):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _none(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return v


FLASH: gpt.Attend = partial(_backend, SDPBackend.FLASH_ATTENTION)


# --- losses ---


def _dtype() -> torch.dtype:
    return torch.bfloat16 if runtime.mode() == "GPU" else torch.float32


def _model(attend: gpt.Attend, seed: int, sizes: dict[str, Any]) -> gpt.GPT:
    torch.manual_seed(seed)
    return gpt.GPT(attend, vocab_size=len(gpt.load_text(whole=True).letters), **sizes).to(runtime.device())


@functools.cache
def _plan(small: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sizes of the model and how it is trained: as many steps as all runs of both attentions have time for."""
    if small:
        return SMALL, SMALL_RUN
    probe = gpt.SERVER_RUN | {"steps": 30}
    text, seconds = gpt.load_text(whole=True), []
    for name in ("attention", "SDPA"):
        run = gpt.fit(_model(gpt.ATTENTIONS[name], 0, gpt.SERVER), text.train, **probe, dtype=_dtype())
        seconds.append(statistics.median(run.seconds[10:]))
    affordable = int(BUDGET["losses"] / (1.1 * SEEDS * sum(seconds))) // 100 * 100
    steps = max(FEWEST, min(gpt.SERVER_RUN["steps"], affordable))
    _log(f"{', '.join(f'{x * 1e3:.2f} ms' for x in seconds)} a step: {steps:,} steps of each run")
    return gpt.SERVER, gpt.SERVER_RUN | {"steps": steps}


def _run(
    name: str, attend: gpt.Attend, seed: int, small: bool, end: float, keep: bool = False
) -> tuple[list[dict[str, Any]], gpt.GPT]:
    """The rows of one run, which ends by the clock at ``end`` if it is not done, and its model; ``keep``: also what is sampled from."""
    sizes, how = _plan(small)
    text, begin = gpt.load_text(whole=True), time.perf_counter()
    model = _model(attend, seed, sizes)

    def watch(step: int, loss: float) -> bool:
        if keep and step + 1 == min(EARLY, how["steps"]):
            _early.update((key, x.clone()) for key, x in model.state_dict().items())
        return time.perf_counter() > end

    run = gpt.fit(
        model, text.train, **how, seed=seed, dtype=_dtype(), validation=text.validation, every=max(6, how["steps"] // 20),
        watch=watch,
    )  # fmt: skip
    passed = list(itertools.accumulate(run.seconds))
    rows, last = [], len(run.losses) - 1
    for part, found in (("train", list(enumerate(run.losses))), ("validation", run.validation)):
        for step, loss in found:
            if part == "validation" or step % 10 == 0 or step == last:
                row = {"attention": name, "seed": seed, "step": step, "part": part, "loss": round(loss, 6)}
                rows.append(row | {"seconds": round(passed[step], 4)})
    cut = "" if last + 1 == how["steps"] else f", cut at {last + 1} of {how['steps']} steps"
    _log(
        f"{name}, seed {seed}: loss {run.losses[-1]:.4f}, validation {run.validation[-1][1]:.4f}, "
        f"{statistics.median(run.seconds) * 1e3:.2f} ms a step, {time.perf_counter() - begin:.1f} s{cut}"
    )
    if keep:
        _trained[small] = model, rows
    return rows, model


def capstone_losses(small: bool = False) -> list[dict[str, Any]]:
    """attention() and SDPA, three seeds each in turns, from the same starts on the same batches: nats per character by step.

    A seed of both that would not fit into the budget is left out. ``small``: a tiny model, on a CPU too.
    """
    _plan(small)
    begin, rows = time.perf_counter(), []
    for seed in range(SEEDS):
        before = time.perf_counter()
        for name in ("attention", "SDPA"):
            first = seed == 0 and name == "attention"
            rows += _run(name, gpt.ATTENTIONS[name], seed, small, begin + 1.5 * BUDGET["losses"], first)[0]
        now = time.perf_counter()
        if now + (now - before) > begin + 1.2 * BUDGET["losses"] and seed + 1 < SEEDS:
            _log(f"the budget of {BUDGET['losses']:.0f} s ends: seeds from {seed + 1} on are left out")
            break
    return rows


def capstone_backends(small: bool = False) -> list[dict[str, Any]]:
    """Seed 0 of ``capstone_losses`` with SDPA again, each of its own kernels, and plain torch; the fields are the same."""
    _plan(small)
    end, rows = time.perf_counter() + BUDGET["backends"], []
    named: dict[str, gpt.Attend] = {"SDPA again": gpt.ATTENTIONS["SDPA"]}
    if runtime.mode() == "GPU":
        named |= {name: partial(_backend, which) for name, which in BACKENDS.items()}
    for name, attend in (named | {"plain": gpt.ATTENTIONS["plain"]}).items():
        if time.perf_counter() > end:
            _log(f"the budget of {BUDGET['backends']:.0f} s ends: {name} is left out")
            continue
        try:
            rows += _run(name, attend, 0, small, end)[0]
        except (RuntimeError, torch.OutOfMemoryError) as error:
            _log(f"{name} is left out: {error}")
        _clean()
    return rows


# --- what it says ---


def _trained_model(small: bool) -> tuple[gpt.GPT, list[dict[str, Any]]]:
    if small not in _trained:
        _run("attention", gpt.ATTENTIONS["attention"], 0, small, time.perf_counter() + BUDGET["losses"], True)
    return _trained[small]


def capstone_sample(small: bool = False) -> list[dict[str, Any]]:
    """What the model of attention()'s first seed writes from a fixed prompt, early and at the end, and what model that is.

    ``seconds`` of training before, ``validation`` the loss then, or the next one that was taken, in nats per character.
    """
    (model, run), text, new = _trained_model(small), gpt.load_text(whole=True), 40 if small else 1500
    validated = [row for row in run if row["part"] == "validation"]
    early = min(EARLY, run[-1]["step"] + 1)
    last = {key: x.clone() for key, x in model.state_dict().items()}
    prompt, rows = text.encode(PROMPT)[None].to(runtime.device()), []
    for steps, temperature, seed in ((early, 0.8, 0), (run[-1]["step"] + 1, 0.8, 0), (run[-1]["step"] + 1, 0.8, 1)):
        model.load_state_dict(_early if steps == early else last)
        found = next(row for row in validated if row["step"] + 1 >= steps)
        about = {"attention": "attention", "seed": 0, "step": steps - 1, "validation": found["loss"]}
        about |= {"seconds": found["seconds"], "parameters": model.parameter_count, "train_characters": len(text.train)}
        about |= {name: model.config[name] for name in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")}
        said = gpt.generate(model, prompt, new, cache="KVCache", temperature=temperature, seed=seed)
        words = text.decode(said)[len(PROMPT) :]
        about |= {"temperature": temperature, "sample_seed": seed, "prompt": PROMPT.strip(), "text": words}
        rows.append(about)
        _log(f"after {steps} steps: {rows[-1]['text'][:300]}")
    model.load_state_dict(last)
    return rows


def capstone_tokens(small: bool = False) -> list[dict[str, Any]]:
    """How many characters, drawn at temperature 1, are the same with a cache as without, by dtype."""
    model, text, new = _trained_model(small)[0], gpt.load_text(whole=True), 24 if small else 400
    kept, rows = {name: x.clone() for name, x in model.state_dict().items()}, []
    prompt = text.encode(PROMPT)[None].to(runtime.device())
    for dtype, cache in ((torch.float64, "plain"), (torch.float32, "KVCache"), (torch.bfloat16, "KVCache")):
        if dtype == torch.bfloat16 and runtime.mode() != "GPU":
            continue
        model.to(dtype).use(gpt.ATTENTIONS["plain" if dtype == torch.float64 else "attention"])
        without, with_it = (gpt.generate(model, prompt, new, cache=x, temperature=1.0) for x in (None, cache))
        same = int((without == with_it)[0, prompt.shape[1] :].int().cumprod(0).sum())
        row: dict[str, Any] = {
            "dtype": str(dtype).removeprefix("torch."),
            "cache": cache,
            "positions": "rotary",
            "window": 0,
        }
        rows.append(row | {"layers": model.config["n_layer"], "new": new, "same": same})
        _log(f"{row['dtype']}, {cache}: {same} of {new} characters are the same")
        model.float().load_state_dict(kept)
    model.use(gpt.ATTENTIONS["attention"])
    return rows


# --- long contexts ---


def capstone_context(small: bool = False) -> list[dict[str, Any]]:
    """Seconds and peak memory of a training step of 65,536 characters by context and width, and of its parts alone.

    attention(), SDPA, its FlashAttention-2, plain torch, and no attention at all (o is v), with bf16 autocast and AdamW. The parts,
    forward and backward: attention of all layers, and the matmuls of all layers; and AdamW. ``fits`` is False, and the numbers 0,
    where memory did not suffice.
    """
    widths = SMALL_WIDTHS if small else WIDTHS
    contexts, tokens = ((16, 32), 64) if small else (CONTEXTS, TOKENS)
    attends = {**gpt.ATTENTIONS, "none": _none} | ({"SDPA flash": FLASH} if runtime.mode() == "GPU" else {})
    end = time.perf_counter() + BUDGET["context"]
    rows: list[dict[str, Any]] = []
    matmuls = [_matmul_seconds(width, tokens, small) for width in widths]
    for t, (width, multiplied), (name, attend) in itertools.product(
        contexts, zip(widths, matmuls, strict=True), attends.items()
    ):
        if time.perf_counter() > end or (name == "plain" and t > 8192):
            _log(f"{name} at {t:,} of width {width['n_embd']} is left out")
            continue
        row = {**width, "t": t, "batch": tokens // t, "tokens": tokens, "attention": name, "matmul_seconds": multiplied}
        rows.append(row | _step(attend, width, t, tokens // t, small))
        _log(f"{width['n_embd']} wide, {t:,}, {name}: {rows[-1]['seconds'] * 1e3:.2f} ms a step")
    return rows


def _step(attend: gpt.Attend, width: Sizes, t: int, batch: int, small: bool) -> dict[str, Any]:
    try:
        return _measured_step(attend, width, t, batch, 1 if small else 5)
    except torch.OutOfMemoryError:
        return {"fits": False, "seconds": 0.0, "attention_seconds": 0.0, "optimiser_seconds": 0.0, "peak_bytes": 0}
    finally:
        _clean()


def _measured_step(attend: gpt.Attend, width: Sizes, t: int, batch: int, repeats: int) -> dict[str, Any]:
    device, dtype = runtime.device(), _dtype()
    before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
    model = _model(attend, 0, {**width, "block_size": t})
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    tokens = gpt.load_text(whole=True).train[: batch * (t + 1)].view(batch, t + 1).to(device)
    step, peak = partial(_trains, model, optimiser, tokens, dtype), 0
    whole = measure.seconds(step, repeats=repeats, warm_up=2, wall=True).median
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        step()
        peak = torch.cuda.max_memory_allocated() - before
    update = measure.seconds(optimiser.step, repeats=repeats).median
    shape, alone = (batch, width["n_head"], t, width["n_embd"] // width["n_head"]), 0.0
    del model, optimiser, step
    _clean()
    if attend is not _none:
        q, k, v, do = (torch.randn(shape, device=device, dtype=dtype).requires_grad_() for _ in range(4))
        call = partial(_attends, attend, q, k, v, do.detach())
        alone = measure.seconds(call, repeats=repeats, warm_up=2).median * width["n_layer"]
    return {"fits": True, "seconds": whole, "attention_seconds": alone, "optimiser_seconds": update, "peak_bytes": peak}


def _matmul_seconds(width: Sizes, tokens: int, small: bool) -> float:
    """Of the matmuls of all layers, forward and backward."""
    like: Any = {"device": runtime.device(), "dtype": _dtype()}
    c = width["n_embd"]
    found = 0.0
    for wide, out in ((c, 3 * c), (c, c), (c, 4 * c), (4 * c, c)):
        x, w = (torch.randn(rows, wide, **like).requires_grad_() for rows in (tokens, out))
        dy = torch.randn(tokens, out, **like)
        call = partial(_multiplies, x, w, dy)
        found += measure.seconds(call, repeats=1 if small else 9).median
    return found * width["n_layer"]


def _multiplies(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor) -> Any:
    return torch.autograd.grad(torch.nn.functional.linear(x, w), (x, w), dy)


def _trains(model: gpt.GPT, optimiser: torch.optim.Optimizer, tokens: torch.Tensor, dtype: torch.dtype) -> None:
    optimiser.zero_grad()
    loss_of(model, tokens, dtype).backward()
    optimiser.step()


def _attends(attend: gpt.Attend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor) -> Any:
    return torch.autograd.grad(attend(q, k, v), (q, k, v), do)


def _clean() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# --- generation ---


def capstone_generation(small: bool = False) -> list[dict[str, Any]]:
    """Seconds for one new character of each sequence, with KVCache and without, in bf16, and the bytes that a step has to read.

    Weights do not matter to the clock: both models of ``capstone_context`` are taken as they start.
    """
    end = time.perf_counter() + BUDGET["generation"]
    rows: list[dict[str, Any]] = []
    widths = SMALL_WIDTHS if small else WIDTHS
    cells = ((1, 16),) if small else ((1, 1024), (1, 4096), (1, 16_384), (1, 65_536), (16, 1024), (16, 4096))
    for width, (batch, context) in itertools.product(widths, cells):
        model = _model(gpt.ATTENTIONS["attention"], 0, {**width, "block_size": context})
        model = model.to(torch.bfloat16 if runtime.mode() == "GPU" else torch.float32)
        idx = gpt.load_text(whole=True).train[: batch * context].view(batch, context).to(runtime.device())
        size = model.lm_head.weight.element_size()
        kept = 2 * width["n_layer"] * batch * context * width["n_embd"] * size
        for how, new in (("cache", 4 if small else 48), ("no cache", 2 if small else 8)):
            if time.perf_counter() > end:
                _log(f"{how} at {batch} × {context:,} of width {width['n_embd']} is left out")
                continue
            following = gpt.stream(model, idx, cache="KVCache" if how == "cache" else None, room=new + 3)
            row: dict[str, Any] = {
                **width,
                "parameters": model.parameter_count,
                "batch": batch,
                "context": context,
                "how": how,
                "new": new,
            }
            rows.append(row | {"seconds": _each(following, new), "bytes": model.parameter_count * size + kept})
            _log(f"{width['n_embd']} wide, {batch} × {context:,}, {how}: {rows[-1]['seconds'] * 1e3:.3f} ms a step")
            del following
            _clean()
    return rows


def _each(following: Iterator[torch.Tensor], new: int) -> float:
    """Seconds by the wall clock from one character to the next, the first three apart."""
    wait: Callable[[], Any] = torch.cuda.synchronize if runtime.mode() == "GPU" else lambda: None
    for _ in range(3):
        next(following)
    wait()
    begin = time.perf_counter()
    for _ in range(new):
        next(following)
    wait()
    return (time.perf_counter() - begin) / new
