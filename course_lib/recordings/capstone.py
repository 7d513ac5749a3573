"""The capstone on a GPU: the same model trained with our attention and torch's, and what it says.

Each recording takes its share of BUDGET seconds; what no longer fits is left out with a printed line. Those that need a
trained model take the one that ``capstone_losses`` leaves, or train it.
"""

import functools
import gc
import itertools
import statistics
import time
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib import gpt, runtime

BUDGET = {"losses": 140.0, "backends": 60.0}  # seconds
FEWEST, EARLY = 500, 100  # steps of a run, and before the early sample
SEEDS = 3
SMALL: dict[str, Any] = {"n_layer": 1, "n_head": 2, "n_embd": 32, "block_size": 32}
SMALL_RUN: dict[str, Any] = {"steps": 6, "batch": 2, "length": 32, "lr": 3e-3, "warm_up": 2, "clip": 1.0}
BACKENDS = {
    "SDPA flash": SDPBackend.FLASH_ATTENTION,
    "SDPA cuDNN": SDPBackend.CUDNN_ATTENTION,
    "SDPA efficient": SDPBackend.EFFICIENT_ATTENTION,
}
# By ``small``: attention()'s first model, and the rows of its run.
_trained: dict[bool, tuple[gpt.GPT, list[dict[str, Any]]]] = {}
_early: dict[str, torch.Tensor] = {}  # the weights of that model after EARLY steps


def log(words: str) -> None:
    """Print a line with the time, at once: a recording takes minutes."""
    print(f"{time.strftime('%H:%M:%S')} {words}", flush=True)


def by_backend(which: SDPBackend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal SDPA by one of torch's own kernels. Raises RuntimeError where it does not take these."""
    with sdpa_kernel(which):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def own_dtype() -> torch.dtype:
    """bfloat16 on a GPU; elsewhere float32."""
    return torch.bfloat16 if runtime.mode() == "GPU" else torch.float32


def new_model(attend: gpt.Attend, seed: int, sizes: dict[str, Any]) -> gpt.GPT:
    """A model as ``seed`` draws it, on this machine's device."""
    torch.manual_seed(seed)
    return gpt.GPT(attend, vocab_size=len(gpt.load_text(whole=True).letters), **sizes).to(runtime.device())


def clean() -> None:
    """Give back the memory of what is gone: a later run may need all of it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# --- losses ---


@functools.cache
def _plan(small: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sizes of the model and how it is trained: as many steps as all runs of both attentions have time for."""
    if small:
        return SMALL, SMALL_RUN
    probe = gpt.SERVER_RUN | {"steps": 30}
    text, seconds = gpt.load_text(whole=True), []
    for name in ("attention", "SDPA"):
        run = gpt.fit(new_model(gpt.ATTENTIONS[name], 0, gpt.SERVER), text.train, **probe, dtype=own_dtype())
        seconds.append(statistics.median(run.seconds[10:]))
    affordable = int(BUDGET["losses"] / (1.1 * SEEDS * sum(seconds))) // 100 * 100
    steps = max(FEWEST, min(gpt.SERVER_RUN["steps"], affordable))
    log(f"{', '.join(f'{x * 1e3:.2f} ms' for x in seconds)} a step: {steps:,} steps of each run")
    return gpt.SERVER, gpt.SERVER_RUN | {"steps": steps}


def _run(
    name: str, attend: gpt.Attend, seed: int, small: bool, end: float, keep: bool = False
) -> tuple[list[dict[str, Any]], gpt.GPT]:
    """The rows of one run, which ends by the clock at ``end`` if it is not done, and its model; ``keep``: also what is sampled from."""
    sizes, how = _plan(small)
    text, begin = gpt.load_text(whole=True), time.perf_counter()
    model = new_model(attend, seed, sizes)

    def watch(step: int, loss: float) -> bool:
        if keep and step + 1 == min(EARLY, how["steps"]):
            _early.update((key, x.clone()) for key, x in model.state_dict().items())
        return time.perf_counter() > end

    run = gpt.fit(
        model, text.train, **how, seed=seed, dtype=own_dtype(), validation=text.validation, every=max(6, how["steps"] // 20),
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
    log(
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
            log(f"the budget of {BUDGET['losses']:.0f} s ends: seeds from {seed + 1} on are left out")
            break
    return rows


def capstone_backends(small: bool = False) -> list[dict[str, Any]]:
    """Seed 0 of ``capstone_losses`` with SDPA again, each of its own kernels, and plain torch; the fields are the same."""
    _plan(small)
    end, rows = time.perf_counter() + BUDGET["backends"], []
    named: dict[str, gpt.Attend] = {"SDPA again": gpt.ATTENTIONS["SDPA"]}
    if runtime.mode() == "GPU":
        named |= {name: partial(by_backend, which) for name, which in BACKENDS.items()}
    for name, attend in (named | {"plain": gpt.ATTENTIONS["plain"]}).items():
        if time.perf_counter() > end:
            log(f"the budget of {BUDGET['backends']:.0f} s ends: {name} is left out")
            continue
        try:
            rows += _run(name, attend, 0, small, end)[0]
        except (RuntimeError, torch.OutOfMemoryError) as error:
            log(f"{name} is left out: {error}")
        clean()
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
    prompt, rows = text.encode(gpt.PROMPT)[None].to(runtime.device()), []
    for steps, temperature, seed in ((early, 0.8, 0), (run[-1]["step"] + 1, 0.8, 0), (run[-1]["step"] + 1, 0.8, 1)):
        model.load_state_dict(_early if steps == early else last)
        found = next(row for row in validated if row["step"] + 1 >= steps)
        about = {"attention": "attention", "seed": 0, "step": steps - 1, "validation": found["loss"]}
        about |= {"seconds": found["seconds"], "parameters": model.parameter_count, "train_characters": len(text.train)}
        about |= {name: model.config[name] for name in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")}
        said = gpt.generate(model, prompt, new, cache="KVCache", temperature=temperature, seed=seed)
        words = text.decode(said)[len(gpt.PROMPT) :]
        about |= {"temperature": temperature, "sample_seed": seed, "prompt": gpt.PROMPT.strip(), "text": words}
        rows.append(about)
        log(f"after {steps} steps: {rows[-1]['text'][:300]}")
    model.load_state_dict(last)
    return rows
