"""The joint loss: sums by hand, eq (4), and logits that exist chunk by chunk only."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.training_data import MASK_ID, features_of, hand_sample, make_sample, tiny_network
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from gravityocr.errors import ConfigError
from gravityocr.training import losses as losses_module
from gravityocr.training.attention import segment_attention
from gravityocr.training.losses import (
    LossConfig,
    TargetScale,
    joint_loss,
    linear_cross_entropy,
    packed_hidden,
    target_scale,
)
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import pack


class OneLayer(torch.nn.Module):
    """A network whose hidden rows are its logits: its output layer is the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lm_head = torch.nn.Linear(width, width, bias=False)
        torch.nn.init.eye_(self.lm_head.weight)


def test_sums_by_hand() -> None:
    # One letter (1), EOS = 0, B = 2; columns: prefix 0-1, clean 2-4, corrupt a 5-7, corrupt b 8-10.
    sample = hand_sample([1, 0, 0], 2, [0, 0, 1], [[1, 0, 1], [0, 1, 0]])
    row = pack([sample], mask_id=2)
    assert row.n_targets == (2, 3)
    hidden = torch.full((1, 11, 3), math.nan)  # a row that must not count would show
    hidden[0, 1] = torch.tensor([0.5, 0.2, 0.3]).log()  # predicts y_0 = 1, for AR and for corrupt a
    hidden[0, 2] = torch.tensor([0.1, 0.8, 0.1]).log()  # predicts y_1 = 0 for AR
    hidden[0, 6] = torch.tensor([2.0, 0.0, 1.0])  # corrupt a, predicts y_2 = 0, the first of block 1
    hidden[0, 8] = torch.tensor([0.0, 0.0, 0.0])  # corrupt b, predicts y_1 = 0
    loss = joint_loss(OneLayer(3), row, hidden, TargetScale(0.25, 3.0))
    ar = -math.log(0.2) - math.log(0.1)
    assert float(loss.ar_sum) == pytest.approx(ar, rel=1e-6)
    denominator = math.exp(2) + math.exp(0) + math.exp(1)
    diffusion = -math.log(0.2) - math.log(math.exp(2) / denominator) + math.log(3)
    assert float(loss.diffusion_sum) == pytest.approx(diffusion, rel=1e-6)
    assert float(loss.scaled.detach()) == pytest.approx(0.25 * ar + 3.0 * diffusion, rel=1e-6)


@pytest.mark.parametrize(
    ("ar_weight", "diffusion_weight", "wanted"),
    [
        (1.0, 1.0, (6 / 3 + 20 / 4) / 2),
        (1.0, 0.25, (6 / 3 + 0.25 * 20 / 4) / 1.25),
        (3.0, 1.0, (3 * 6 / 3 + 20 / 4) / 4),
        (0.0, 1.0, 20 / 4),
        (0.0, 0.5, 20 / 4),
        (1.0, 0.0, 6 / 3),
    ],
)
def test_scaled_sums_are_eq_4(ar_weight: float, diffusion_weight: float, wanted: float) -> None:
    """Sums of 6 over 3 AR targets and of 20 over 4 diffusion targets."""
    scale = target_scale(3, 4, LossConfig(ar_weight, diffusion_weight))
    assert 6 * scale.ar + 20 * scale.diffusion == pytest.approx(wanted)


def test_the_defaults_weigh_both_means_alike() -> None:
    scale = target_scale(3, 4, LossConfig())
    assert 6 * scale.ar + 20 * scale.diffusion == pytest.approx(3.5)
    with pytest.raises(ConfigError, match="must not both be 0"):
        LossConfig(0.0, 0.0)


def test_no_targets_cost_nothing() -> None:
    scale = target_scale(0, 0, LossConfig())
    assert math.isfinite(scale.ar) and math.isfinite(scale.diffusion)
    weight = torch.randn(5, 3, requires_grad=True)
    hidden = torch.zeros(0, 3, requires_grad=True)
    loss, losses = linear_cross_entropy(hidden, weight, torch.zeros(0, dtype=torch.long), torch.zeros(0))
    loss.backward()
    assert float(loss.detach()) == 0.0 and losses.shape == (0,)
    assert (weight.grad == 0).all() and hidden.grad.shape == (0, 3)


def test_w_0_sends_no_gradient_into_the_clean_stream() -> None:
    """Checked at the final hidden rows, where only the losses of their own stream arrive."""
    sample = make_sample(5, NoiseConfig(4), seed=2)
    row = pack([sample], MASK_ID)
    model = tiny_network()
    first = row.places[0].streams[0]
    gradients = {}
    for weight in (0.0, 1.0):
        hidden = packed_hidden(model, row, features_of(model, [sample]), segment_attention(row))
        hidden.retain_grad()
        joint_loss(model, row, hidden, target_scale(*row.n_targets, LossConfig(ar_weight=weight))).scaled.backward()
        gradients[weight] = hidden.grad[0, first : first + 5].abs().amax(-1)
    assert (gradients[0.0] == 0).all() and (gradients[1.0] > 0).all()


def test_the_network_is_scored_on_its_own_logits() -> None:
    samples = [make_sample(n, NoiseConfig(4), seed=n, grid=(2, 2 * n)) for n in (2, 3)]
    row = pack(samples, MASK_ID)
    model = tiny_network().requires_grad_(False)
    hidden = packed_hidden(model, row, features_of(model, samples), segment_attention(row))
    loss = joint_loss(model, row, hidden, TargetScale(1.0, 1.0))
    scores = F.log_softmax(model.logits(hidden), -1)[0]
    for target, total, count in zip(
        (row.ar_target[0], row.diffusion_target[0]), (loss.ar_sum, loss.diffusion_sum), row.n_targets, strict=True
    ):
        columns = (target >= 0).nonzero()[:, 0].tolist()
        assert len(columns) == count
        assert float(total) == pytest.approx(-sum(float(scores[c, target[c]]) for c in columns), rel=1e-5)


def test_unsupervised_rows_have_no_logits_and_no_more_than_a_chunk_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product with the vocabulary is watched: no more rows than a chunk, in all as many as are supervised."""
    samples = [make_sample(n, NoiseConfig(4), seed=n) for n in (9, 7, 5)]
    row, model = pack(samples, MASK_ID), tiny_network()
    n_supervised = sum(row.n_targets)
    hidden = packed_hidden(model, row, features_of(model, samples), segment_attention(row))
    monkeypatch.setattr(losses_module.linear_cross_entropy, "__defaults__", (8,))
    with WatchProducts(model.config.text.vocab_size) as watch:
        joint_loss(model, row, hidden, TargetScale(1.0, 1.0)).scaled.backward()
    assert watch.n_rows and max(watch.n_rows) == 8
    assert sum(watch.n_rows) == n_supervised < row.n_tokens


class WatchProducts(TorchDispatchMode):
    """Note the rows of every matrix with as many columns as the vocabulary that a product makes."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.n_rows: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
            shape = result.shape
            if shape[-1] == self.vocab_size:
                self.n_rows.append(shape[-2])
        return result
