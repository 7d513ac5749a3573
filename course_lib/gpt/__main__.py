"""Train a GPT on Shakespeare with an attention of your choice, on this GPU or CPU, and let it talk.

python -m course_lib.gpt                                  # attention() on a GPU, SDPA without one; goes on from capstone.pt
python -m course_lib.gpt --attention my_file:my_attention # a function of yours: (q, k, v) [B, H, N, D] -> o, causal
"""

import argparse
import math
import pkgutil
import sys
from pathlib import Path
from typing import Any

import torch

from course_lib import gpt, runtime
from course_lib.gpt.checkpoints import check_folder


def arguments() -> argparse.Namespace:
    gpu = runtime.mode() == "GPU"
    sizes, run = (gpt.SERVER, gpt.SERVER_RUN) if gpu else (gpt.LAPTOP, gpt.LAPTOP_RUN)
    parser = argparse.ArgumentParser(prog="python -m course_lib.gpt", description="Train a small GPT on Shakespeare.")
    add = parser.add_argument
    add("--attention", default="attention" if gpu else "SDPA", help=f"{', '.join(gpt.ATTENTIONS)}, or module:function")
    add("--steps", type=int, default=run["steps"])
    add("--batch", type=int, default=run["batch"], help="rows of a step")
    add("--length", type=int, default=run["length"], help="characters of a row")
    add("--layers", type=int, default=sizes["n_layer"])
    add("--heads", type=int, default=sizes["n_head"])
    add("--width", type=int, default=sizes["n_embd"])
    add("--lr", type=float, default=run["lr"])
    add("--seed", type=int, default=0, help="of the start and of the batches")
    add("--seven", action="store_true", default=not gpu, help="seven plays of the 37 (the default without a GPU)")
    add("--checkpoint", type=Path, default=Path("capstone.pt"), help="written each --every steps, and gone on from")
    add("--every", type=int, default=100, help="steps between two checkpoints")
    add("--sample", type=int, default=500, help="characters to write at the end")
    add("--losses", type=Path, help="write the loss of each step to this file")
    return parser.parse_args()


def attention_named(name: str) -> gpt.Attend:
    """One of the library's, or 'module:function'. Raises ValueError for a name that is neither."""
    if name in gpt.ATTENTIONS:
        return gpt.ATTENTIONS[name]
    if ":" not in name:
        raise ValueError(f"--attention is {name!r}; pass {', '.join(gpt.ATTENTIONS)}, or module:function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"--attention is {name!r}, which cannot be loaded: {error}") from None
    if not callable(found):
        raise ValueError(f"--attention is {name!r}, which is no function")
    return found  # type: ignore[no-any-return]


def trained(asked: argparse.Namespace) -> tuple[gpt.GPT, gpt.Run, gpt.Text]:
    """The model behind the last step, on the device that there is."""
    check_folder("--checkpoint", asked.checkpoint)
    if asked.losses:
        check_folder("--losses", asked.losses)
    device, text = runtime.device(), gpt.load_text(whole=not asked.seven)
    torch.manual_seed(asked.seed)
    sizes: dict[str, Any] = {"n_layer": asked.layers, "n_head": asked.heads, "n_embd": asked.width}
    model = gpt.GPT(
        attention_named(asked.attention), vocab_size=len(text.letters), block_size=asked.length, **sizes
    ).to(device)
    print(
        f"{model.parameter_count:,} parameters, {len(text.train):,} characters to train on, {asked.attention}, {device}"
    )
    if asked.checkpoint.exists():
        print(f"going on from {asked.checkpoint}")
    run = gpt.fit(
        model, text.train, steps=asked.steps, batch=asked.batch, length=asked.length, lr=asked.lr,
        warm_up=min(100, asked.steps // 10), seed=asked.seed, clip=1.0, validation=text.validation,
        dtype=torch.bfloat16 if device.type == "cuda" else torch.float32, every=asked.every, checkpoint=asked.checkpoint,
    )  # fmt: skip
    return model, run, text


def main() -> int:
    asked = arguments()
    try:
        model, run, text = trained(asked)
        if asked.losses:
            asked.losses.write_text("".join(f"{loss!r}\n" for loss in run.losses), encoding="utf-8")
        (step, validation), first = run.validation[-1], math.log(len(text.letters))
        print(
            f"loss {run.losses[0]:.3f} (ln {len(text.letters)} = {first:.3f}) -> {run.losses[-1]:.3f} after {step + 1} steps"
        )
        print(f"on {', '.join(text.held_out)}, which it has not read: {validation:.3f} nats per character")
        if not math.isfinite(validation):
            raise ValueError(f"the loss is {validation}: begin anew with a smaller --lr, and another --checkpoint")
        if asked.sample:
            prompt = text.encode(gpt.PROMPT)[None].to(runtime.device())
            said = gpt.generate(
                model, prompt, asked.sample, cache="plain", temperature=0.8, seed=asked.seed, progress=True
            )
            print(text.decode(said))
    except (ValueError, TypeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nstopped; the same command goes on from {asked.checkpoint}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
