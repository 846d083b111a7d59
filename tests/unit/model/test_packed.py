"""The twin for fast forwards: the same results, the same parameters, the original untouched."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from tests.factories import CONFIGS, causal_forward, make_prompts, tiny_network
from torch import Tensor, nn

from gravityocr.model.norm import RMSNorm
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.packed import PackedLinear, packed_copy


@dataclass(frozen=True)
class Outputs:
    """Everything that a network computes for one prompt and response."""

    features: Tensor
    keys: Tensor
    logits: Tensor


@torch.inference_mode()
def run(model: OcrModel, name: str) -> Outputs:
    (prompt,) = make_prompts(name, [(2, 3)])
    _, features = model.encode_images([prompt])
    logits, attended = causal_forward(model, prompt, [3, 5, 7, 11, 13])
    return Outputs(features, torch.cat(attended.keys), logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # fp64 has no layout of its own anywhere
@pytest.mark.parametrize("name", list(CONFIGS))
def test_the_twin_computes_the_same(name: str, dtype: torch.dtype) -> None:
    model = tiny_network(name, 5)
    ours, twins = run(model, name), run(packed_copy(model, dtype), name)
    for key, value in vars(ours).items():
        assert torch.allclose(vars(twins)[key], value, atol=1e-5, rtol=1e-5), key


@pytest.mark.parametrize("name", list(CONFIGS))
def test_the_bf16_twin_is_close_and_answers_in_fp32(name: str) -> None:
    model = tiny_network(name, 6)
    ours, twins = run(model, name), run(packed_copy(model, torch.bfloat16), name)
    for key, value in vars(ours).items():
        found = vars(twins)[key]
        assert found.dtype == torch.float32
        assert not torch.equal(found, value), f"{key}: the products were in fp32"
        assert (found - value).norm() < 0.05 * value.norm(), key


def test_the_twin_shares_parameters_and_leaves_the_original_alone() -> None:
    model = tiny_network("gqa", 7)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    places = {value.data_ptr() for value in model.parameters()}
    twin = packed_copy(model, torch.bfloat16)
    assert {value.data_ptr() for value in twin.parameters()} <= places
    assert twin.lm_head.weight is model.lm_head.weight
    assert twin.language_model.embed_tokens.weight is model.language_model.embed_tokens.weight
    assert (twin.device, twin.dtype, twin.config) == (model.device, model.dtype, model.config)
    assert not any(isinstance(module, nn.Linear) for module in twin.modules())
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
    after = model.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[key], before[key]) for key in before)


def test_norms_of_the_twin_take_bf16_and_keep_their_input() -> None:
    norm = RMSNorm(24, eps=0.3)  # an epsilon that counts
    norm.weight.data = torch.linspace(0.5, 2.0, 24)
    twin = packed_copy(norm, torch.bfloat16)
    x = torch.randn(5, 24)
    before = x.clone()
    with torch.inference_mode():
        assert torch.allclose(twin(x), norm(x), atol=1e-5)
        assert torch.allclose(twin(x.bfloat16()), norm(x.bfloat16().float()), atol=1e-5)
        assert torch.allclose(twin.added(x, x.bfloat16()), norm.added(x, x.bfloat16().float()), atol=1e-5)
    assert torch.equal(x, before)


def test_the_original_still_learns() -> None:
    model = tiny_network("gqa", 8)
    packed_copy(model, torch.bfloat16)
    model.requires_grad_(True)
    tokens = torch.arange(6)[None]
    embedded = model.language_model.embed_tokens(tokens)
    hidden = model.hidden(embedded, tokens.expand(3, 1, -1), lambda _, q, k, v: q + k.sum(1, True) + v.sum(1, True))
    model.logits(hidden).square().mean().backward()
    gradients = {key: parameter.grad for key, parameter in model.language_model.named_parameters()}
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        gradient = gradients[f"layers.0.self_attn.{name}.weight"]
        assert gradient is not None and float(gradient.norm()) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biases", [(True, True), (False, False), (True, False)])
def test_joint_layers_lie_side_by_side(dtype: torch.dtype, biases: tuple[bool, bool]) -> None:
    torch.manual_seed(sum(biases))
    layers = [nn.Linear(12, width, bias=bias) for width, bias in zip((7, 5), biases, strict=True)]
    joint = PackedLinear(layers, dtype)
    for shape in [(3, 4, 12), (1, 12), (0, 12), (12,)]:
        x = torch.randn(shape)
        with torch.inference_mode():
            expected, found = torch.cat([layer(x) for layer in layers], -1), joint(x)
            apart = joint(torch.randn(*shape[:-1], 24)[..., ::2].copy_(x))
        assert found.shape == expected.shape and found.dtype == torch.float32
        assert torch.allclose(found, expected, atol=1e-5 if dtype == torch.float32 else 0.03)
        assert torch.equal(apart, found)
