"""The running mean of the weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gravityocr.training.weight_average import WeightAverage


def one_weight(value: float) -> nn.Module:
    module = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(value)
    return module


def test_the_mean_follows_the_weights_by_its_decay() -> None:
    average = WeightAverage(one_weight(0.0), 0.5)
    for expected in (10 / 11, 1 - 1 / 11 * 2 / 12):  # a young mean follows faster: 1 - n / (10 + n)
        average.update(one_weight(1.0))
        assert average.mean["weight"].item() == pytest.approx(expected)
    average.n_updates = 1000
    average.update(one_weight(3.0))
    assert average.mean["weight"].item() == pytest.approx((expected + 3.0) / 2)


def test_applied_lends_the_mean_and_gives_the_weights_back() -> None:
    module = one_weight(5.0)
    average = WeightAverage(one_weight(2.0), 0.9)
    with pytest.raises(RuntimeError, match="inside"), average.applied(module):
        assert module.weight.item() == 2.0
        raise RuntimeError("inside")
    assert module.weight.item() == 5.0


def test_a_saved_mean_comes_back_and_a_foreign_one_is_refused() -> None:
    average, other = WeightAverage(one_weight(2.0), 0.9), WeightAverage(one_weight(0.0), 0.9)
    average.update(one_weight(4.0))
    other.load_state_dict(average.state_dict())
    assert other.mean["weight"].item() == average.mean["weight"].item() and other.n_updates == 1
    with pytest.raises(KeyError):
        other.load_state_dict({"mean": {}, "n_updates": 1})
