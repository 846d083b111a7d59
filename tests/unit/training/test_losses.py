"""The joint loss: sums and counts by hand, and eq (4)."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from tests.training_data import MASK_ID, features_of, hand_sample, make_sample, tiny_network
from torch.nn import functional as F

from gravityocr.training.losses import JointLoss, LossConfig, joint_loss, masked_attention, packed_hidden
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import pack

READS_LOGITS = SimpleNamespace(logits=lambda hidden: hidden)
"""A network whose hidden rows are its logits."""


def test_sums_and_counts_by_hand() -> None:
    # One letter (1), EOS = 0, B = 2; columns: prefix 0-1, clean 2-4, corrupt a 5-7, corrupt b 8-10.
    sample = hand_sample([1, 0, 0], 2, [0, 0, 1], [[1, 0, 1], [0, 1, 0]])
    batch = pack([sample], mask_id=2, budget_tokens=11)
    hidden = torch.full((1, 11, 3), math.nan)  # a row that must not count would show
    hidden[0, 1] = torch.tensor([0.5, 0.2, 0.3]).log()  # predicts y_0 = 1, for AR and for corrupt a
    hidden[0, 2] = torch.tensor([0.1, 0.8, 0.1]).log()  # predicts y_1 = 0 for AR
    hidden[0, 6] = torch.tensor([2.0, 0.0, 1.0])  # corrupt a, predicts y_2 = 0, the first of block 1
    hidden[0, 8] = torch.tensor([0.0, 0.0, 0.0])  # corrupt b, predicts y_1 = 0
    loss = joint_loss(READS_LOGITS, batch, hidden)
    assert (loss.n_ar, loss.n_diffusion) == (2, 3)
    assert float(loss.ar_sum) == pytest.approx(-math.log(0.2) - math.log(0.1), rel=1e-6)
    denominator = math.exp(2) + math.exp(0) + math.exp(1)
    by_hand = -math.log(0.2) - math.log(math.exp(2) / denominator) + math.log(3)
    assert float(loss.diffusion_sum) == pytest.approx(by_hand, rel=1e-6)


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
def test_the_mean_is_eq_4(ar_weight: float, diffusion_weight: float, wanted: float) -> None:
    loss = JointLoss(torch.tensor(6.0), 3, torch.tensor(20.0), 4)
    assert float(loss.mean(LossConfig(ar_weight, diffusion_weight))) == pytest.approx(wanted)


def test_the_defaults_weigh_both_means_alike() -> None:
    loss = JointLoss(torch.tensor(6.0), 3, torch.tensor(20.0), 4)
    assert float(loss.mean(LossConfig())) == pytest.approx(3.5)


def test_no_targets_cost_nothing() -> None:
    assert float(JointLoss(torch.tensor(0.0), 0, torch.tensor(0.0), 0).mean(LossConfig())) == 0.0


def test_w_0_sends_no_gradient_into_the_clean_stream() -> None:
    """Checked at the final hidden rows, where only the losses of their own stream arrive."""
    sample = make_sample(5, NoiseConfig(4), seed=2)
    batch = pack([sample], MASK_ID, 1000)
    model = tiny_network()
    first = batch.places[0].streams[0]
    gradients = {}
    for weight in (0.0, 1.0):
        hidden = packed_hidden(model, batch, features_of(model, [sample], batch), masked_attention(batch.tags))
        hidden.retain_grad()
        joint_loss(model, batch, hidden).mean(LossConfig(ar_weight=weight)).backward()
        gradients[weight] = hidden.grad[0, first : first + 5].abs().amax(-1)
    assert (gradients[0.0] == 0).all() and (gradients[1.0] > 0).all()


def test_the_network_is_scored_on_its_own_logits() -> None:
    samples = [make_sample(n, NoiseConfig(4), seed=n, grid=(2, 2 * n)) for n in (2, 3)]
    batch = pack(samples, MASK_ID, 1000)
    model = tiny_network().requires_grad_(False)
    hidden = packed_hidden(model, batch, features_of(model, samples, batch), masked_attention(batch.tags))
    loss = joint_loss(model, batch, hidden)
    scores = F.log_softmax(model.logits(hidden), -1)[0]
    for target, total, count in (
        (batch.ar_target[0], loss.ar_sum, loss.n_ar),
        (batch.diffusion_target[0], loss.diffusion_sum, loss.n_diffusion),
    ):
        columns = (target >= 0).nonzero()[:, 0].tolist()
        assert len(columns) == count
        assert float(total) == pytest.approx(-sum(float(scores[c, target[c]]) for c in columns), rel=1e-5)
