"""Training that is stopped and goes on: the same losses as without a stop, and no word from a file that is not whole."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from course_lib import gpt, runtime
from course_lib.gpt import __main__ as command_line

ROOT = Path(__file__).resolve().parents[2]
TOKENS = torch.randint(7, (400,), generator=torch.Generator().manual_seed(0))
SIZES = {"vocab_size": 7, "block_size": 8, "n_layer": 1, "n_head": 2, "n_embd": 8}
HOW = {
    "steps": 12,
    "batch": 2,
    "length": 8,
    "lr": 0.01,
    "warm_up": 3,
    "clip": 1.0,
    "every": 4,
    "validation": TOKENS[:100],
}


class Wrapper(torch.nn.Module):
    """Its weights go by the model's names with another one before them, as DistributedDataParallel's do."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)


def fresh(sizes=SIZES) -> gpt.GPT:
    torch.manual_seed(0)
    return gpt.GPT(gpt.ATTENTIONS["SDPA"], **sizes)


def fitted(path: Path | None = None, sizes=SIZES, tokens=TOKENS, **how) -> tuple[gpt.Run, gpt.GPT]:
    model = fresh(sizes)
    return gpt.fit(model, tokens, **HOW | how, checkpoint=path), model


def test_a_run_that_was_stopped_has_the_losses_of_one_that_was_not(tmp_path) -> None:
    path = tmp_path / "run.pt"
    straight, model = fitted()
    stopped, _ = fitted(path, watch=lambda step, loss: step == 5)
    assert len(stopped.losses) == 6
    torch.rand(5)  # what the process does otherwise does not matter
    resumed, again = fitted(path)
    assert resumed.losses == straight.losses
    assert resumed.validation[-2:] == straight.validation[-2:]
    assert all(torch.equal(x, y) for x, y in zip(model.parameters(), again.parameters()))
    assert fitted(path)[0].losses == straight.losses  # there is nothing left to do
    assert [p.name for p in tmp_path.iterdir()] == ["run.pt"]


def test_fp16_trains_with_a_scale_that_a_checkpoint_keeps(tmp_path) -> None:
    """The mean over many characters makes gradients that fp16 has no numbers for: without a scale an eighth of their norm is lost."""
    gradients = []
    for dtype in (torch.float32, torch.float16):
        model = fitted(steps=1, batch=4096, clip=None, dtype=dtype)[1]
        gradients.append(torch.cat([x.grad.flatten() for x in model.parameters()]))
    right, found = gradients
    assert (found - right).norm() < 0.02 * right.norm()

    path, half = tmp_path / "run.pt", {"dtype": torch.float16}
    straight, _ = fitted(path, **half)
    whole = gpt.load_checkpoint(path)
    path.unlink()
    fitted(path, **half, watch=lambda step, loss: step == 5)
    stopped = gpt.load_checkpoint(path)
    assert fitted(path, **half)[0].losses == straight.losses
    assert gpt.load_checkpoint(path)["scaler"] == whole["scaler"] != stopped["scaler"]


@pytest.mark.parametrize(
    "wrapped", [pytest.param(functools.partial(torch.compile, backend="eager"), marks=pytest.mark.weekly), Wrapper]
)
def test_a_wrapped_model_trains_and_its_checkpoint_is_that_of_the_model(tmp_path, wrapped) -> None:
    path = tmp_path / "run.pt"
    straight, plain = fitted()
    gpt.fit(wrapped(fresh()), TOKENS, **HOW, checkpoint=path, watch=lambda step, loss: step == 5)
    resumed, again = fitted(path)
    assert resumed.losses == pytest.approx(straight.losses, rel=1e-5)
    for x, y in zip(again.parameters(), plain.parameters()):
        torch.testing.assert_close(x, y)
    assert gpt.fit(wrapped(fresh()), TOKENS, **HOW, checkpoint=path).losses == resumed.losses
    idx = TOKENS[None, :5]
    assert torch.equal(gpt.generate(wrapped(again), idx, 5, cache="plain"), gpt.generate(again, idx, 5, cache="plain"))


@pytest.fixture
def slow(tmp_path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nfrom torch.nn.functional import scaled_dot_product_attention\n"
        "def attend(q, k, v):\n    time.sleep(0.05)\n    return scaled_dot_product_attention(q, k, v, is_causal=True)\n"
    )


def script(*more: str) -> list[str]:
    sizes = ["--steps", "40", "--batch", "2", "--length", "16", "--layers", "1", "--heads", "1", "--width", "16"]
    return [sys.executable, "-m", "course_lib.gpt", *sizes, "--every", "3", "--sample", "8", "--seven", *more]


def environment() -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "CUDA_VISIBLE_DEVICES": "",
    }


def run(folder: Path, *more: str) -> subprocess.CompletedProcess:
    return subprocess.run(script(*more), cwd=folder, env=environment(), capture_output=True, text=True, timeout=240)


def test_a_run_that_is_killed_goes_on_with_the_same_losses(tmp_path, slow, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as here:  # as the processes below are: without a GPU
        here.setattr(runtime, "mode", lambda: "interpreter")
        here.setattr(sys, "argv", script("--checkpoint", "whole.pt", "--losses", "whole.txt")[2:])
        assert command_line.main() == 0
    assert "which it has not read" in capsys.readouterr().out
    path = tmp_path / "capstone.pt"
    killed = subprocess.Popen(
        script("--attention", "slow:attend"), cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 120
    while not path.exists() and killed.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    done = len(gpt.load_checkpoint(path)["run"]["losses"])
    assert 3 <= done < 40
    resumed = run(tmp_path, "--losses", "resumed.txt")
    assert resumed.returncode == 0, resumed.stderr
    assert "going on from capstone.pt" in resumed.stdout
    assert (tmp_path / "resumed.txt").read_text() == (tmp_path / "whole.txt").read_text()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda x: x[:-1] + bytes([x[-1] ^ 1]), "is damaged: its checksum differs; delete it to begin anew"),
        (lambda x: x[:-100], r"is cut short, or has grown: [\d,]+ of [\d,]+ bytes"),
        (lambda x: b"", "is cut short: 0 bytes"),
        (lambda x: b"PK\x03\x04" + x[4:], "is no checkpoint of this course; pass another file"),
    ],
)
def test_what_is_no_whole_checkpoint_is_refused_and_left_as_it_is(tmp_path, damage, message) -> None:
    path = tmp_path / "run.pt"
    fitted(path)
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(gpt.CheckpointError, match=message):
        fitted(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"sizes": SIZES | {"n_embd": 16}}, "belongs to another run: n_embd is 8 there and 16 here"),
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"validation": None, "tokens": TOKENS.flip(0)}, "text is"),
    ],
)
def test_a_checkpoint_of_another_run_or_with_code_in_it_is_refused(tmp_path, other, message) -> None:
    path = tmp_path / "run.pt"
    fitted(path)
    with pytest.raises(gpt.CheckpointError, match=message):
        fitted(path, **other)
    gpt.save_checkpoint(path, {"settings": signal.Signals})
    with pytest.raises(gpt.CheckpointError, match="holds something other than"):
        gpt.load_checkpoint(path)


def test_a_folder_that_is_not_there_is_named_before_the_first_step(tmp_path, monkeypatch, capsys) -> None:
    steps = []
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fitted(tmp_path / "nowhere" / "run.pt", watch=lambda step, loss: steps.append(step))
    assert steps == []
    monkeypatch.chdir(tmp_path)
    for name in ("--checkpoint", "--losses"):
        monkeypatch.setattr(sys, "argv", script(name, "nowhere/run.pt")[2:])
        assert command_line.main() == 1
        said = capsys.readouterr()
        assert "nowhere" in said.err
        assert "training" not in said.err
    assert list(tmp_path.iterdir()) == []


def test_the_loss_on_held_out_text_is_the_mean_over_windows() -> None:
    model = fitted()[1]
    rows = torch.stack([TOKENS[i : i + 9] for i in range(0, 96, 8)])
    with torch.no_grad():
        mean = float(torch.nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()))
    assert gpt.evaluate(model, TOKENS[:100], batch=5, length=8) == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lr": 0}, "lr is 0"),
        ({"clip": -1}, "clip is -1"),
        ({"every": 0}, "every is 0"),
        ({"watch": 3}, "watch is 3"),
        ({"checkpoint": "run.pt"}, r"checkpoint is 'run.pt' \(str\); pass a Path"),
        ({"dtype": torch.int8}, "dtype is torch.int8"),
        ({"tokens": TOKENS.float()}, "tokens is torch.float32"),
        ({"tokens": TOKENS[:9]}, "tokens has 9 characters; pass at least 10"),
        (
            {"tokens": TOKENS + 1},
            "tokens has characters numbered 1 to 7, and the model has 7; pass numbers from 0 to 6",
        ),
        ({"validation": TOKENS - 1}, "validation has characters numbered -1 to 5, and the model has 7"),
        ({"model": torch.nn.Linear(2, 2)}, r"model is a Linear; pass a GPT"),
    ],
)
def test_what_is_refused(wrong, message) -> None:
    model = gpt.GPT(gpt.ATTENTIONS["SDPA"], **SIZES)
    before = [x.clone() for x in model.parameters()]
    with pytest.raises((TypeError, ValueError), match=message):
        gpt.fit(**{"model": model, "tokens": TOKENS} | HOW | wrong)
    assert all(map(torch.equal, before, model.parameters()))  # refused before the first step


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flash", "--attention is 'flash'; pass attention, SDPA, plain, or module:function"),
        ("nowhere:attend", "cannot be loaded: No module named 'nowhere'"),
        ("math:pi", "is no function"),
    ],
)
def test_an_attention_that_is_none(name, message) -> None:
    with pytest.raises(ValueError, match=message):
        command_line.attention_named(name)
