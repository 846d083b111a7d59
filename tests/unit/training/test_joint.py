"""One forward of joint training: gradients for every weight, recomputed activations, rows that lose samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.training_data import EOS_ID, MASK_ID, TINY_NETWORK, make_sample, tiny_network
from torch import Tensor

from gravityocr.training.glyphs import MAX_GLYPHS, GlyphConfig, GlyphHeads, GlyphTruth
from gravityocr.training.joint import JointModule, RowData, SkippedSample, checkpoint_activations
from gravityocr.training.losses import LossConfig, TargetScale, target_scale
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import pack

NOISE = NoiseConfig(4, random_offset=True)
GUIDED = GlyphConfig(0.7, 0.35, 0.3, (0, 1))


def truth_of(n_cells: int, n_tokens: int) -> GlyphTruth:
    cells = torch.arange(n_tokens) % n_cells
    glyphs = torch.full((n_cells, MAX_GLYPHS), EOS_ID)
    glyphs[:, 0] = torch.arange(n_cells) + 20
    return GlyphTruth(glyphs, torch.arange(n_cells).float(), cells)


def row_data() -> RowData:
    samples = tuple(make_sample(n, NOISE, n, (2, 2 * n)) for n in (3, 2))
    return RowData(samples, tuple(truth_of(n, n) for n in (3, 2)))


def module_of(glyphs: GlyphConfig = GUIDED, bf16: bool = False, seed: int = 0) -> JointModule:
    torch.manual_seed(seed)
    heads = GlyphHeads(TINY_NETWORK.text.hidden_size, TINY_NETWORK.text.vocab_size, EOS_ID) if glyphs.any else None
    return JointModule(tiny_network(), heads, glyphs, MASK_ID, "segments", bf16)


def scale_of(data: RowData) -> TargetScale:
    return target_scale(*pack(data.samples, MASK_ID).n_targets, LossConfig())


def gradients(module: JointModule, data: RowData, vision_only: bool = False) -> dict[str, Tensor]:
    module.zero_grad(set_to_none=True)
    scale = scale_of(data) if data.samples else TargetScale(1.0, 1.0)
    module(data, scale, 0.5, vision_only)["loss"].backward()
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def test_the_loss_is_the_joint_loss_and_its_share_of_the_auxiliary_ones() -> None:
    data = row_data()
    result = module_of()(data, scale_of(data), 0.5, False)
    n_ar, n_diffusion = pack(data.samples, MASK_ID).n_targets
    joint = (result["ar"] / n_ar + result["diffusion"] / n_diffusion) / 2
    auxiliary = 0.7 * result["glyph"] + 0.35 * result["index"] + 0.3 * result["guide"]
    assert float(result["loss"].detach()) == pytest.approx(float(joint + 0.5 * auxiliary), rel=1e-5)
    assert all(value.dim() == 0 for value in result.values())
    assert [name for name, value in result.items() if value.requires_grad] == ["loss"]


@pytest.mark.parametrize("vision_only", [False, True])
def test_every_weight_has_a_gradient_whatever_a_row_holds(vision_only: bool) -> None:
    """Processes that share gradients need it, also for a row that has lost all its samples."""
    module = module_of()
    names = dict(module.named_parameters()).keys()
    assert gradients(module, row_data(), vision_only).keys() == names
    nothing = gradients(module, RowData(()), vision_only)
    assert nothing.keys() == names and all((value == 0).all() for value in nothing.values())


def test_a_frozen_weight_has_none() -> None:
    module = module_of(GlyphConfig())
    module.model.lm_head.requires_grad_(False)
    module.model.visual.requires_grad_(False)
    found = gradients(module, row_data())
    assert found and all(not name.startswith(("model.lm_head", "model.visual")) for name in found)
    assert "model.language_model.embed_tokens.weight" in found


def test_activation_checkpointing_changes_no_gradient() -> None:
    data, plain, saving = row_data(), module_of(GlyphConfig()), module_of(GlyphConfig())
    runs: list[int] = []
    first = saving.model.language_model.layers[0]
    first.self_attn.register_forward_hook(lambda *_: runs.append(1))
    wanted = gradients(plain, data)
    before = dict(plain.state_dict())
    checkpoint_activations(saving.model)
    found = gradients(saving, data)
    assert len(runs) == 2, "a layer runs again in the backward pass"
    assert wanted.keys() == found.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-7, msg=name)
    assert saving.state_dict().keys() == before.keys()


def test_bf16_keeps_the_loss_in_fp32_and_close() -> None:
    data = row_data()
    exact, rounded = (module_of(bf16=bf16)(data, scale_of(data), 0.5, False) for bf16 in (False, True))
    assert rounded["loss"].dtype == torch.float32
    assert float(rounded["loss"].detach()) == pytest.approx(float(exact["loss"].detach()), rel=0.02)
    found = gradients(module_of(bf16=True), data)
    assert all(value.dtype == torch.float32 for value in found.values())


def test_a_row_without_bad_samples_keeps_the_others_and_tells_of_the_bad() -> None:
    data = replace(row_data(), skipped=(SkippedSample("earlier", "broken"),))
    left = data.without([SkippedSample("sample 3", "its loss is not finite")])
    assert [sample.name for sample in left.samples] == ["sample 2"]
    assert left.truths == data.truths[1:]
    assert [one.name for one in left.skipped] == ["earlier", "sample 3"]
    assert RowData(data.samples).without([SkippedSample("sample 2", "")]).truths == ()
