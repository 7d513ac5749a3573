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
from course_lib.gpt import training

ROOT = Path(__file__).resolve().parents[1]
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


WRAPPERS = {"compiled": functools.partial(torch.compile, backend="eager"), "wrapped": Wrapper}


def fresh(sizes=SIZES) -> gpt.GPT:
    torch.manual_seed(0)
    return gpt.GPT(gpt.ATTENTIONS["SDPA"], **sizes)


def fitted(path: Path | None = None, sizes=SIZES, **how) -> tuple[gpt.Run, gpt.GPT]:
    model = fresh(sizes)
    return gpt.fit(model, TOKENS, **HOW | how, checkpoint=path), model


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
    del stopped["scaler"]  # as checkpoints were before
    gpt.save_checkpoint(path, stopped)
    assert fitted(path, **half)[0].losses == pytest.approx(straight.losses, rel=1e-3)


def test_the_default_device_changes_no_number(tmp_path) -> None:
    """A default device on which nothing can be read: whatever fit makes there shows."""
    sizes = {"steps": 3, "batch": 2, "length": 8, "width": 8, "heads": 2, "layers": 1, "lr": 0.01}
    models = [fitted(steps=1)[1] for _ in range(2)]
    runs = [gpt.fit(models[0], TOKENS, **HOW).losses, gpt.train(gpt.ATTENTIONS["SDPA"], "abcd" * 40, **sizes).losses]
    with torch.device("meta"):
        again = gpt.fit(models[1], TOKENS, **HOW, checkpoint=tmp_path / "run.pt").losses
        assert [again, gpt.train(gpt.ATTENTIONS["SDPA"], "abcd" * 40, **sizes).losses] == runs
        assert gpt.fit(models[1], TOKENS, **HOW, checkpoint=tmp_path / "run.pt").losses == again


@pytest.mark.parametrize("wrapped", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapped_model_trains_and_its_checkpoint_is_that_of_the_model(tmp_path, wrapped) -> None:
    path = tmp_path / "run.pt"
    straight, plain = fitted()
    gpt.fit(wrapped(fresh()), TOKENS, **HOW, checkpoint=path, watch=lambda step, loss: step == 5)
    resumed, again = fitted(path)
    assert resumed.losses == pytest.approx(straight.losses, rel=1e-5)
    for x, y in zip(again.parameters(), plain.parameters()):
        torch.testing.assert_close(x, y)
    assert gpt.fit(wrapped(fresh()), TOKENS, **HOW, checkpoint=path).losses == resumed.losses
    with pytest.raises(ValueError, match="tokens has characters numbered 1 to 7, and the model has 7"):
        gpt.fit(wrapped(fresh()), TOKENS + 1, **HOW)
    idx = TOKENS[None, :5]
    assert torch.equal(gpt.generate(wrapped(again), idx, 5, cache="plain"), gpt.generate(again, idx, 5, cache="plain"))


def test_a_checkpoint_that_a_compiled_model_left_under_its_own_names_is_gone_on_from(tmp_path) -> None:
    path = tmp_path / "run.pt"
    straight, _ = fitted(path, watch=lambda step, loss: step == 5)
    state = gpt.load_checkpoint(path)
    state["model"] = {f"_orig_mod.{name}": x for name, x in state["model"].items()}
    gpt.save_checkpoint(path, state)
    assert fitted(path)[0].losses[:6] == straight.losses


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


def test_a_run_that_is_killed_goes_on_with_the_same_losses_and_a_damaged_file_is_refused(
    tmp_path, slow, monkeypatch, capsys
) -> None:
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
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(sys, "argv", script()[2:])
    assert command_line.main() == 1
    assert "capstone.pt is damaged: its checksum differs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda x: x[:-1] + bytes([x[-1] ^ 1]), "is damaged: its checksum differs; delete it to begin anew"),
        (lambda x: x[:-100], r"is cut short, or has grown: [\d,]+ of [\d,]+ bytes"),
        (lambda x: x + b"\n", "is cut short, or has grown"),
        (lambda x: x[:40], "is cut short: 40 bytes"),
        (lambda x: b"", "is cut short: 0 bytes"),
        (lambda x: b"PK\x03\x04" + x[4:], "is no checkpoint of this course; pass another file"),
        (lambda x: b"loss 1.5\n", "is no checkpoint of this course"),
        (lambda x: x[:20] + b"\xff" * 8 + x[28:], "is cut short"),
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
        ({"steps": 13}, "steps is 12 there and 13 here"),
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"lr": 0.02}, "lr is 0.01 there and 0.02 here"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, other, message) -> None:
    fitted(tmp_path / "run.pt")
    with pytest.raises(gpt.CheckpointError, match=message):
        fitted(tmp_path / "run.pt", **other)


def test_a_checkpoint_of_another_text_or_with_code_in_it_is_refused(tmp_path) -> None:
    path = tmp_path / "run.pt"
    fitted(path)
    with pytest.raises(gpt.CheckpointError, match="text is"):
        gpt.fit(gpt.GPT(gpt.ATTENTIONS["SDPA"], **SIZES), TOKENS.flip(0), **HOW, checkpoint=path)
    gpt.save_checkpoint(path, {"settings": signal.Signals})
    with pytest.raises(gpt.CheckpointError, match="holds something other than"):
        gpt.load_checkpoint(path)
    gpt.save_checkpoint(path, {"step": 3})
    with pytest.raises(gpt.CheckpointError, match="holds no run"):
        fitted(path)


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


def test_the_rate_rises_and_falls() -> None:
    rates = [training.learning_rate(step, steps=100, lr=1.0, warm_up=10) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0.1 < rates[-1] < 0.11
    assert training.learning_rate(50, steps=100, lr=1.0, warm_up=0) == 1.0


def test_the_loss_on_held_out_text_is_the_mean_over_windows() -> None:
    model = fitted()[1]
    rows = torch.stack([TOKENS[i : i + 9] for i in range(0, 96, 8)])
    with torch.no_grad():
        mean = float(training.loss_of(model, rows, torch.float32))
    assert gpt.evaluate(model, TOKENS[:100], batch=5, length=8) == pytest.approx(mean, rel=1e-5)
    with torch.no_grad():
        first = float(training.loss_of(model, rows[:5], torch.float32))
    assert gpt.evaluate(model, TOKENS[:100], batch=5, length=8, most=1) == pytest.approx(first, rel=1e-5)
    with pytest.raises(ValueError, match="tokens has characters numbered 3 to 9, and the model has 7"):
        gpt.evaluate(model, TOKENS[:100] + 3, batch=5, length=8)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lr": 0}, "lr is 0"),
        ({"clip": -1}, "clip is -1"),
        ({"warm_up": -1}, "warm_up is -1"),
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
        ({"validation": TOKENS.float()}, "validation is torch.float32"),
        ({"validation": TOKENS[:9]}, "validation has 9 characters; pass at least 10"),
        ({"validation": TOKENS - 1}, "validation has characters numbered -1 to 5, and the model has 7"),
        ({"model": torch.nn.Linear(2, 2)}, r"model is a Linear; pass a GPT"),
        ({"model": torch.nn.Sequential(fresh(), torch.nn.Linear(7, 7))}, r"model is a Sequential; pass a GPT"),
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
        ("slow:time", "is no function"),
    ],
)
def test_an_attention_that_is_none(tmp_path, slow, monkeypatch, name, message) -> None:
    from course_lib.gpt import __main__ as script

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ValueError, match=message):
        script.attention_named(name)


def test_a_live_curve_is_silent_outside_a_notebook(capsys) -> None:
    with gpt.LiveCurve(7) as watch:
        run = fitted(watch=watch)[0]
    assert watch.losses == run.losses
    assert "loss" not in capsys.readouterr().out
