"""The loop that trains a GPT: the same batches whatever the attention, and on from its last checkpoint if it was stopped."""

import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from course_lib import checks
from course_lib.gpt.checkpoints import CheckpointError, check_folder, check_same_run, load_checkpoint, save_checkpoint
from course_lib.gpt.model import GPT, Attend, check_characters, inner
from course_lib.instruments import measure

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
LAPTOP: dict[str, Any] = {"n_layer": 4, "n_head": 4, "n_embd": 64, "block_size": 64}
LAPTOP_RUN: dict[str, Any] = {"steps": 200, "batch": 16, "length": 64, "lr": 3e-3, "warm_up": 20, "clip": 1.0}
SERVER: dict[str, Any] = {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 1024}
SERVER_RUN: dict[str, Any] = {"steps": 2000, "batch": 32, "length": 1024, "lr": 1e-3, "warm_up": 100, "clip": 1.0}


class Run(NamedTuple):
    """The loss of each step, in nats a character, the seconds of each step, and (step, loss) on what was held out."""

    losses: list[float]
    seconds: list[float]
    validation: list[tuple[int, float]]


def learning_rate(step: int, *, steps: int, lr: float, warm_up: int) -> float:
    """Rises for ``warm_up`` steps to ``lr`` and falls along a cosine to a tenth of it; without warm-up it is constant."""
    if not warm_up:
        return lr
    if step < warm_up:
        return lr * (step + 1) / warm_up
    share = (step - warm_up) / max(1, steps - warm_up)
    return lr * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, share))))


def loss_of(model: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Nats a character of rows [B, length + 1], each character after those before it; autocast for a 16-bit ``dtype``."""
    with torch.autocast(rows.device.type, dtype, enabled=dtype in (torch.float16, torch.bfloat16)):
        scores = model(rows[:, :-1])
    scores = scores if scores.dtype == torch.float64 else scores.float()
    return nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())


def evaluate(
    model: nn.Module,
    tokens: torch.Tensor,
    *,
    batch: int,
    length: int,
    most: int = 32,
    dtype: torch.dtype = torch.float32,
) -> float:
    """The mean loss, in nats a character, over the first ``most`` batches of the windows that ``tokens`` falls into."""
    _check(model, batch, length, dtype, tokens=tokens)
    checks.positive_int("most", most)
    count = min(most * batch, (len(tokens) - 1) // length)
    rows = tokens[: count * length + 1].to(next(model.parameters()).device).unfold(0, length + 1, length)
    with torch.no_grad():
        sums = [loss_of(model, part, dtype).double() * len(part) for part in rows.split(batch)]
    return float(torch.stack(sums).sum()) / count


def fit(
    model: GPT,
    tokens: torch.Tensor,
    *,
    steps: int,
    batch: int,
    length: int,
    lr: float,
    warm_up: int = 0,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    clip: float | None = None,
    validation: torch.Tensor | None = None,
    every: int = 100,
    checkpoint: Path | None = None,
    watch: Callable[[int, float], Any] | None = None,
) -> Run:
    """Train ``model`` on rows of ``length`` + 1 characters of ``tokens`` [n], drawn by ``seed`` alone, with AdamW.

    ``model`` may be wrapped (torch.compile, DistributedDataParallel): a checkpoint is the GPT's. ``dtype`` float16 or bfloat16 means
    autocast; in float16 the loss is scaled, and a step whose gradients overflow is left out. ``clip`` bounds the gradient's norm.
    ``validation`` is evaluated each ``every`` steps and at the end, when the ``checkpoint`` is written, too: one that is there is gone
    on from, and the losses are those of a run that was never stopped, to the bit where the attention's gradients are (on a Hopper GPU
    ``attention`` adds them up in any order). ``watch(step, loss)`` is called after each step; if it returns True, training ends there.
    Raises ValueError for a text of no more than one row, CheckpointError for a checkpoint that is damaged or another run's,
    FileNotFoundError for one in a folder that is not there, TypeError or ValueError for other arguments.
    """
    inside = inner(model)
    _check(model, batch, length, dtype, tokens=tokens, **({} if validation is None else {"validation": validation}))
    checks.positive_int("steps", steps)
    checks.number("lr", lr, above=0)
    checks.positive_int("every", every)
    for name, value in (("warm_up", warm_up), ("seed", seed)):
        checks.whole(name, value, 0, most=2**31)
    if clip is not None:
        checks.number("clip", clip, above=0)
    if watch is not None:
        checks.function("watch", watch)
    if checkpoint is not None:
        checks.instance("checkpoint", checkpoint, Path, "Path('capstone.pt')")
        check_folder("checkpoint", checkpoint)
    device = next(model.parameters()).device
    held = hashlib.sha256(tokens.cpu().numpy().tobytes()).hexdigest()[:16] if checkpoint else ""
    asked = {"steps": steps, "batch": batch, "length": length, "lr": lr, "warm_up": warm_up, "seed": seed, "clip": clip}
    settings = inside.config | asked | {"dtype": str(dtype), "text": held}
    tokens = tokens.to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, fused=device.type == "cuda")
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    order, run = torch.Generator().manual_seed(seed), Run([], [], [])
    if checkpoint is not None and checkpoint.exists():
        run = _resumed(checkpoint, settings, inside, optimiser, scaler, order)
    columns = torch.arange(length + 1, device=device)
    bar = measure.progress(range(len(run.losses), steps), "training")
    for step in bar:
        begin = time.perf_counter()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, steps=steps, lr=lr, warm_up=warm_up)
        starts = torch.randint(len(tokens) - length - 1, (batch, 1), generator=order, device="cpu").to(device)
        loss = loss_of(model, tokens[starts + columns], dtype)
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        if clip is not None:
            scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimiser)
        scaler.update()
        run.losses.append(loss.item())
        run.seconds.append(time.perf_counter() - begin)
        if hasattr(bar, "set_postfix_str"):
            bar.set_postfix_str(f"loss {run.losses[-1]:.3f}", refresh=False)
        ends = watch is not None and watch(step, run.losses[-1]) is True
        if ends or (step + 1) % every == 0 or step + 1 == steps:
            if validation is not None:
                run.validation.append((step, evaluate(model, validation, batch=batch, length=length, dtype=dtype)))
            if checkpoint is not None:
                kept = {"model": inside.state_dict(), "optimiser": optimiser.state_dict(), "order": order.get_state()}
                kept |= {"scaler": scaler.state_dict(), "settings": settings, "run": run._asdict()}
                save_checkpoint(checkpoint, kept)
        if ends:
            break
    return run


def _resumed(
    path: Path,
    settings: dict[str, Any],
    model: GPT,
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    order: torch.Generator,
) -> Run:
    """What was done before the checkpoint; puts all else back to where it was."""
    state = load_checkpoint(path)
    if not {"settings", "model", "optimiser", "order", "run"} <= set(state):
        raise CheckpointError(f"{path} holds no run of fit; pass another file")
    check_same_run(path, state["settings"], settings)
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state["model"], "_orig_mod.")  # of a compiled model, once
    model.load_state_dict(state["model"])
    if state.get("scaler"):  # older checkpoints have none
        scaler.load_state_dict(state["scaler"])
    optimiser.load_state_dict(state["optimiser"])
    order.set_state(state["order"])
    done = state["run"]
    return Run(done["losses"], done["seconds"], [(step, loss) for step, loss in done["validation"]])


def _check(model: nn.Module, batch: int, length: int, dtype: torch.dtype, **texts: torch.Tensor) -> None:
    for name, value in (("batch", batch), ("length", length)):
        checks.whole(name, value, 1, most=2**16)
    checks.one_of("dtype", dtype, DTYPES)
    for name, text in texts.items():
        if checks.readable(name, text).dtype != torch.int64 or text.dim() != 1:
            raise TypeError(f"{name} is {text.dtype} {list(text.shape)}; pass numbers of characters, int64 [n]")
        if len(text) < length + 2:
            raise ValueError(f"{name} has {len(text)} characters; pass at least {length + 2} (length + 2)")
        check_characters(name, text, model)


def train(
    attend: Attend,
    text: str,
    *,
    steps: int,
    batch: int,
    length: int,
    width: int,
    heads: int,
    layers: int,
    lr: float,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    compiled: bool = False,
) -> Run:
    """Train a small GPT with learned positions on ``text``, as ``fit`` does, from a fixed start: only ``attend`` differs between runs.

    Raises TypeError or ValueError as ``GPT`` and ``fit`` do.
    """
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    sizes: dict[str, Any] = {"n_layer": layers, "n_head": heads, "n_embd": width, "positions": "learned", "tied": False}
    with torch.random.fork_rng(), torch.device("cpu"):
        torch.manual_seed(0)
        model = GPT(attend, vocab_size=len(letters), block_size=length, **sizes).to(device)
        tokens = torch.tensor([number[letter] for letter in text])
    trained = torch.compile(model, fullgraph=True) if compiled else model
    return fit(trained, tokens, steps=steps, batch=batch, length=length, lr=lr, dtype=dtype)  # type: ignore[arg-type]
