"""What is refused where weights or optimiser states are shared out; that it works is tested by launching it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.training_data import EOS_ID, MASK_ID, TINY_NETWORK, tiny_network
from torch import nn
from torch.optim import SGD

from gravityocr.errors import ConfigError
from gravityocr.training.glyphs import GlyphConfig, GlyphHeads
from gravityocr.training.joint import JointModule
from gravityocr.training.parallel import Parallel
from gravityocr.training.run_config import RunConfig

RUN = RunConfig(bf16=False)


@pytest.fixture(params=["DEEPSPEED", "FSDP"])
def sharded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Pretend that accelerate was told to share out."""
    kind = str(request.param)
    monkeypatch.setattr(Parallel, "sharded", property(lambda _self: kind))
    return kind


def joint_module(heads: GlyphHeads | None) -> JointModule:
    """Give a tiny module."""
    return JointModule(tiny_network(), heads, GlyphConfig(), MASK_ID, "segments", False)


def sgd(module: nn.Module) -> SGD:
    """Give an optimiser."""
    return SGD(module.parameters(), lr=0.1)


def test_the_mean_of_weights_is_refused(sharded: str) -> None:
    with pytest.raises(ConfigError, match=f"train.ema needs whole weights.*{sharded}"):
        Parallel(replace(RUN, ema=0.5))


def test_heads_are_refused(sharded: str) -> None:
    text = TINY_NETWORK.text
    module = joint_module(GlyphHeads(text.hidden_size, text.vocab_size, EOS_ID))
    with pytest.raises(ConfigError, match=f"glyphs: {sharded}"):
        Parallel(RUN).prepare(module, [sgd(module)], 1.0)


def test_a_second_optimizer_is_refused(sharded: str) -> None:
    module = joint_module(None)
    with pytest.raises(ConfigError, match=f"2 optimisers, {sharded}"):
        Parallel(RUN).prepare(module, [sgd(module), sgd(module)], 1.0)


@pytest.mark.parametrize("flag", ["DEEPSPEED", "FSDP"])
def test_sharing_out_on_a_cpu_is_refused(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelerate.utils.parse_flag_from_env", lambda name: name == f"ACCELERATE_USE_{flag}")
    with pytest.raises(ConfigError, match=f"no {flag} on a CPU"):
        Parallel(RUN)


def test_the_launcher_s_accumulation_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "8")
    assert Parallel(replace(RUN, accumulation=2)).accelerator.gradient_accumulation_steps == 2


def test_a_step_without_a_finite_gradient_moves_nothing() -> None:
    parallel, module = Parallel(RUN), joint_module(None)
    parallel.prepare(module, [sgd(module)], 1.0)
    weight = module.model.lm_head.weight
    before = weight.detach().clone()
    for gradient, moves in ((float("nan"), False), (1.0, True)):
        weight.grad = torch.full_like(weight, gradient)
        parallel.step(1.0)
        assert torch.equal(weight, before) is not moves and weight.grad is None
