"""F.scaled_dot_product_attention replaced by ours in models of transformers: what they say, their gradients, and a cache, as eager."""

import importlib.util
import os

import pytest
import torch

from course_lib import runtime
from course_lib.attention import scaled_dot_product_attention

HAS = importlib.util.find_spec("transformers") is not None
WANTED = "transformers is not installed: pip install -r deploy/requirements-models.lock"
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not HAS and os.environ.get("COURSE_REQUIRE_MODELS") != "1", reason=WANTED),
]
DEVICE = runtime.device()
SIZES = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = SIZES | {"intermediate_size": 48, "num_key_value_heads": 2, "head_dim": 16}
CAUSAL = {"GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM", "Qwen3": "Qwen3ForCausalLM"}


@pytest.fixture(params=CAUSAL)
def models(request, monkeypatch):
    """(eager, the same numbers over our function); the calls of ours are counted in the second."""
    import transformers

    name, kind = request.param, getattr(transformers, CAUSAL[request.param])
    sizes = SIZES if name == "GPT2" else GROUPED
    eager, ours = (
        kind._from_config(
            getattr(transformers, f"{name}Config")(**sizes, bos_token_id=None, eos_token_id=None, pad_token_id=0),
            attn_implementation=how,
        )
        .to(DEVICE)
        .eval()
        for how in ("eager", "sdpa")
    )
    for x in eager.parameters():
        torch.nn.init.normal_(x, std=0.5)  # large enough that what it says depends on what it sees
    ours.load_state_dict(eager.state_dict())
    ours.calls = 0

    def counted(*args, **kwargs):
        ours.calls += 1
        return scaled_dot_product_attention(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    return eager, ours


def test_logits_and_gradients(models) -> None:
    idx = torch.randint(50, (2, 12), device=DEVICE)
    found = []
    for model in models:
        done = model(idx, labels=idx)
        done.loss.backward()
        found.append((done.logits, [x.grad for x in model.parameters()]))
    assert models[1].calls == 2
    (right, gradients), (logits, ours) = found
    torch.testing.assert_close(logits, right, atol=1e-4, rtol=1e-3)
    for x, y in zip(ours, gradients):
        torch.testing.assert_close(x, y, atol=1e-5 + 1e-4 * float(y.abs().max()), rtol=1e-3)


def test_greedy_generation_with_a_cache(models) -> None:
    idx = torch.randint(50, (2, 5), device=DEVICE)
    said = [
        model.generate(idx, attention_mask=torch.ones_like(idx), max_new_tokens=8, do_sample=False, use_cache=True)
        for model in models
    ]
    assert models[1].calls == 2 * 8
    assert said[0].shape == (2, 13)
    assert torch.equal(said[0], said[1])
