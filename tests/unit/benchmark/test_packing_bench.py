"""The packing benchmark: both ways compute the same loss and gradient, and the token figures are right."""

from __future__ import annotations

import argparse

import pytest
import torch
from benchmarks.packing import measure, naive_loss, packed_loss, scale_of, token_figures
from tests.training_data import MASK_ID, make_sample, tiny_network

from gravityocr.training.noise import NoiseConfig


def test_both_ways_have_one_loss_and_one_gradient() -> None:
    samples = [make_sample(n, NoiseConfig(4), seed=n, grid=(2, 2 * n)) for n in (2, 7, 3)]
    model, scale = tiny_network(), scale_of(samples)
    results = []
    for way in (packed_loss, naive_loss):
        model.zero_grad(set_to_none=True)
        loss = way(model, samples, MASK_ID, scale)
        loss.backward()
        results.append((float(loss.detach()), {name: p.grad.clone() for name, p in model.named_parameters()}))
    (packed, gradients), (naive, others) = results
    assert packed == pytest.approx(naive, rel=1e-5)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, others[name], rtol=1e-3, atol=1e-5, msg=name)


def test_token_figures_by_hand() -> None:
    samples = [make_sample(n, NoiseConfig(4), seed=n) for n in (2, 7)]
    prefix = samples[0].prompt.ids.numel()
    figures = token_figures([samples])
    assert figures["packed"] == 2 * prefix + 3 * (6 + 11)
    assert figures["naive"] == 2 * (2 * prefix + 2 * (6 + 11))
    assert figures["naive_with_padding"] == 4 * (prefix + 2 * 11)


def test_the_shipped_pool_is_measured() -> None:
    args = argparse.Namespace(pool="sample", checkpoint="nano", block_size=24, row_tokens=600, rows=1, repeats=1,
                              threads=1, float32=True, json=True)  # fmt: skip
    report = measure(args)
    assert report["loss_difference"] < 1e-5
    assert report["ratio"] > 0 and report["tokens"]["packed"] <= 600
    assert sum(report["mixture"].values()) == report["tokens"]["n_samples"] > 1
