"""The cost model against the network itself: parameters, operations, pairs, the paper's tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.factories import CONFIGS
from tests.training_data import MASK_ID, TINY_NETWORK, hand_sample, make_sample, tiny_network
from torch.utils.flop_counter import FlopCounterMode

from gravityocr.model.masks import joint_mask
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.training.attention import AttentionKind, attend_in
from gravityocr.training.cost import (
    PEAK_FLOPS,
    BatchStats,
    Parameters,
    SampleShape,
    batch_stats,
    count_parameters,
    executed_flops,
    forward_flops,
    model_flops,
    peak_flops,
    run_hours,
    run_tokens,
    sample_stats,
)
from gravityocr.training.losses import LossConfig, joint_loss, packed_hidden, target_scale
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.optimizer import part_of
from gravityocr.training.packing import pack


def counted(network: OcrConfig) -> Parameters:
    with torch.device("meta"):
        model = OcrModel(network)
    sizes = dict.fromkeys(Parameters.__dataclass_fields__, 0)
    for name, parameter in model.named_parameters():
        sizes[part_of(name)] += parameter.numel()
    return Parameters(**sizes)


@pytest.mark.parametrize("network", [OcrConfig(), TINY_NETWORK, *CONFIGS.values()])
def test_parameters_of_every_part_are_the_network_s(network: OcrConfig) -> None:
    assert count_parameters(network) == counted(network)


def test_glm_ocr_has_1107_m_parameters_434_m_of_them_vision() -> None:
    parameters = count_parameters(OcrConfig())
    assert round(parameters.total / 1e6) == 1107
    assert round((parameters.vision + parameters.merger) / 1e6) == 434
    assert parameters.trained({"vision", "lm_head"}) == parameters.total - parameters.vision - parameters.lm_head


def test_the_paper_s_run_has_26_b_forward_tokens() -> None:
    tokens = run_tokens(row_tokens=10240, accumulation=4, n_processes=16, steps=40000)
    assert tokens == 40000 * 4 * 16 * 10240 == 26_214_400_000
    assert round(tokens / 1e9) == 26  # "about 26 B forward tokens"


def test_the_assumed_sample_packs_as_the_paper_s_do() -> None:
    assert 21 <= 10240 / SampleShape().n_tokens <= 30


@pytest.mark.parametrize("schedule", ["uniform", "all"])
@pytest.mark.parametrize("random_offset", [False, True])
def test_pairs_are_those_of_the_visibility_rule(schedule: str, random_offset: bool) -> None:
    noise = NoiseConfig(4, schedule, random_offset=random_offset)
    samples = [make_sample(n, noise, seed=n) for n in (1, 7, 12)]
    stats = batch_stats(samples)
    row = pack(samples, MASK_ID)
    assert stats.n_tokens == row.n_tokens
    assert stats.n_pairs == int(joint_mask(row.tags).sum())
    assert stats.n_supervised == sum(row.n_targets)
    assert stats.n_patches == sum(sample.prompt.pixels.shape[0] for sample in samples)


@pytest.mark.parametrize("n_characters", [4, 7, 8])
def test_a_shape_counts_as_the_sample_does(n_characters: int) -> None:
    sample = make_sample(n_characters, NoiseConfig(4))
    n_cells = int(sample.prompt.is_image.sum())
    n_response = sample.response.numel()
    shape = SampleShape(sample.prompt.ids.numel() - n_cells, n_cells, n_response, n_eos=4)
    assert sample_stats(shape, 4) == batch_stats([sample])


def test_a_sample_without_image_costs_no_vision() -> None:
    sample = hand_sample([7, 8, 0, 0], 3, [0, 0, 1, 1], [[1, 0, 0, 1], [0, 1, 1, 0]])
    flops = forward_flops(TINY_NETWORK, batch_stats([sample]))
    assert flops.vision == flops.merger == flops.patches == 0 < flops.decoder


def operations(kind: AttentionKind, frozen: tuple[str, ...] = ()) -> tuple[int, BatchStats]:
    """Count the operations of a forward and backward, and give what they depend on: the pairs that are computed."""
    samples = [make_sample(n, NoiseConfig(8), seed=n, grid=(4, 6)) for n in (20, 30)]
    model = tiny_network()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(part_of(name) not in frozen)
    row = pack(samples, MASK_ID)
    with FlopCounterMode(display=False) as counter:
        _, features = model.encode_images([sample.prompt for sample in samples])
        hidden = packed_hidden(model, row, features, attend_in(row, kind))
        joint_loss(model, row, hidden, target_scale(*row.n_targets, LossConfig())).scaled.backward()
    stats = batch_stats(samples)
    pairs = float(row.n_tokens**2) if kind == "dense" else stats.n_segment_pairs
    return counter.get_total_flops(), replace(stats, n_pairs=pairs)


@pytest.mark.parametrize(
    "frozen", [(), ("vision",), ("vision", "merger", "embeddings"), ("decoder",), ("lm_head",), ("merger", "decoder")]
)
def test_operations_are_those_that_torch_counts(frozen: tuple[str, ...]) -> None:
    counted_flops, stats = operations("segments", frozen)
    assert model_flops(TINY_NETWORK, stats, frozen) == pytest.approx(counted_flops, rel=0.02)


def test_a_dense_row_costs_the_square_of_its_length() -> None:
    counted_flops, stats = operations("dense")
    assert model_flops(TINY_NETWORK, stats) == pytest.approx(counted_flops, rel=0.02)


def test_checkpointing_repeats_a_forward_of_the_layers() -> None:
    stats = sample_stats(SampleShape(), 32)
    flops = forward_flops(OcrConfig(), stats)
    plain, repeated = (executed_flops(OcrConfig(), stats, on) for on in (False, True))
    assert plain == model_flops(OcrConfig(), stats)
    decoder, vision = flops.decoder + flops.decoder_attention, flops.vision + flops.vision_attention
    assert repeated - plain == pytest.approx(vision + decoder)
    frozen = executed_flops(OcrConfig(), stats, True, {"vision"}) - model_flops(OcrConfig(), stats, {"vision"})
    assert frozen == pytest.approx(decoder)


def test_figures_add_up() -> None:
    one, other = (sample_stats(SampleShape(n_cells=n), 32) for n in (100, 200))
    assert model_flops(OcrConfig(), one + other) == pytest.approx(
        model_flops(OcrConfig(), one) + model_flops(OcrConfig(), other)
    )
    assert model_flops(OcrConfig(), one.times(3)) == pytest.approx(3 * model_flops(OcrConfig(), one))


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA L40S", 362e12), ("NVIDIA L4", 121e12), ("NVIDIA GH200 480GB", 989e12), ("Some other device", None),
    ],
)  # fmt: skip
def test_a_device_is_known_by_its_longest_name(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak


def test_hours_fall_with_the_number_of_devices() -> None:
    assert run_hours(3600 * 1e15, 1, 1e15, 0.5) == 2.0
    assert run_hours(1e21, 16, PEAK_FLOPS["H100"]) == run_hours(1e21, 1, PEAK_FLOPS["H100"]) / 16
