"""Part-wise learning rates, frozen parts, the schedule."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.training_data import EOS_ID, TINY_NETWORK, tiny_network
from torch.optim import AdamW, Muon

from gravityocr.errors import ConfigError
from gravityocr.training.glyphs import GlyphHeads
from gravityocr.training.optimizer import (
    OptimizerConfig,
    Part,
    build_optimizers,
    freeze,
    part_of,
    rate_share,
    set_rates,
)


def build(kind: str):
    model = tiny_network()
    heads = GlyphHeads(TINY_NETWORK.text.hidden_size, TINY_NETWORK.text.vocab_size, EOS_ID)
    config = OptimizerConfig(kind=kind, lr_decoder=1e-3, lr_vision=1e-4, patch_lr_share=0.5)
    named = [*model.named_parameters(), *((f"heads.{name}", p) for name, p in heads.named_parameters())]
    return dict(named), build_optimizers(model, heads, config)


def groups_of(optimizers) -> dict[int, list[tuple[type, float]]]:
    found: dict[int, list[tuple[type, float]]] = {}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            assert group["lr"] == group["peak"]
            for parameter in group["params"]:
                found.setdefault(id(parameter), []).append((type(optimizer), group["lr"]))
    return found


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_every_parameter_is_in_exactly_one_group(kind: str) -> None:
    named, optimizers = build(kind)
    found = groups_of(optimizers)
    assert set(found) == {id(p) for p in named.values()}
    assert all(len(places) == 1 for places in found.values())


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_rates_land_on_their_parts(kind: str) -> None:
    named, optimizers = build(kind)
    found = groups_of(optimizers)
    seen = set()
    for name, parameter in named.items():
        part = next(
            p for p in ("visual.patch_embed", "visual", "language_model", "lm_head", "heads") if name.startswith(p)
        )
        wanted = {"visual.patch_embed": 0.5e-4, "visual": 1e-4}.get(part, 1e-3)
        assert found[id(parameter)][0][1] == pytest.approx(wanted), name
        seen.add(part)
    assert len(seen) == 5


def test_muon_takes_the_matrices_of_the_layers_only() -> None:
    named, optimizers = build("muon")
    found = groups_of(optimizers)
    by_muon = {name for name, p in named.items() if found[id(p)][0][0] is Muon}
    assert "language_model.layers.0.self_attn.q_proj.weight" in by_muon
    assert "visual.blocks.0.attn.qkv.weight" in by_muon
    assert all(named[name].dim() == 2 for name in by_muon)
    assert not any("embed" in n or n.startswith(("lm_head", "heads")) for n in by_muon)
    others = [name for name, p in named.items() if p.dim() == 2 and name not in by_muon]
    assert all("embed" in name or name.startswith(("lm_head", "heads")) for name in others)
    assert [type(optimizer) for optimizer in build("adamw")[1]] == [AdamW]


def test_the_paper_s_optimiser_is_the_default() -> None:
    config = OptimizerConfig()
    assert (config.kind, config.lr_decoder, config.lr_vision) == ("adamw", 2e-5, 2e-6)
    assert (config.betas, config.weight_decay, config.clip_norm) == ((0.9, 0.999), 0.0, 1.0)
    (optimizer,) = build("adamw")[1]
    assert optimizer.defaults["betas"] == (0.9, 0.999) and optimizer.defaults["weight_decay"] == 0.0


@pytest.mark.parametrize(
    ("step", "share"),
    [(0, 0.0), (250, 0.5), (500, 1.0), (500 + 39500 // 4, 0.75), (500 + 39500 // 2, 0.5), (40000, 0.0)],
)
def test_the_default_schedule_warms_up_500_of_40000_steps_then_falls(step: int, share: float) -> None:
    assert rate_share(step / 40000, OptimizerConfig()) == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize(
    ("progress", "share"),
    [(0.0, 0.0), (0.05, 0.5), (0.1, 1.0), (0.3, 1.0), (0.4, 1.0), (0.7, 0.6), (1.0, 0.2), (1.5, 0.2)],
)
def test_a_schedule_with_a_plateau_and_a_floor(progress: float, share: float) -> None:
    config = OptimizerConfig(warmup=0.1, decay_from=0.4, final_share=0.2)
    assert rate_share(progress, config) == pytest.approx(share)


def test_no_warmup_starts_at_the_peak_and_no_decay_stays_there() -> None:
    config = OptimizerConfig(warmup=0.0, decay_from=1.0)
    assert [rate_share(p, config) for p in (0.0, 0.5, 1.0)] == [1.0, 1.0, 1.0]


def test_rates_are_shares_of_the_peak_not_of_each_other() -> None:
    _, optimizers = build("muon")
    for share in (0.5, 0.25, 1.0):
        set_rates(optimizers, share)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                assert group["lr"] == pytest.approx(share * group["peak"])


RATES = {"vision": 1e-4, "merger": 2e-4, "embeddings": 3e-4, "decoder": 4e-4, "lm_head": 5e-4}


def test_each_part_may_have_a_rate_of_its_own() -> None:
    model = tiny_network()
    config = OptimizerConfig(**{f"lr_{part}": rate for part, rate in RATES.items()})
    found = groups_of(build_optimizers(model, None, config))
    seen = {}
    for name, parameter in model.named_parameters():
        seen[part_of(name)] = found[id(parameter)][0][1]
    assert seen == pytest.approx(RATES) and len(seen) == len(get_args(Part))
    assert part_of("visual.merger.proj.weight") == part_of("visual.downsample.weight") == "merger"
    assert part_of("visual.patch_embed.proj.weight") == part_of("visual.blocks.0.attn.qkv.weight") == "vision"
    assert part_of("language_model.norm.weight") == part_of("language_model.layers.0.mlp.down_proj.weight") == "decoder"


def test_rates_that_are_not_told_are_those_of_the_neighbour() -> None:
    config = OptimizerConfig(lr_decoder=3e-3, lr_vision=4e-4)
    assert [config.rate(part) for part in ("merger", "embeddings", "lm_head")] == [4e-4, 3e-3, 3e-3]
    assert OptimizerConfig(lr_lm_head=0.0).rate("lm_head") == 0.0, "0 is a rate, not nothing"


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_frozen_parts_are_in_no_optimiser(kind: str) -> None:
    model = tiny_network()
    freeze(model, ("vision", "lm_head"))
    named = dict(model.named_parameters())
    trained = {name for name, parameter in named.items() if parameter.requires_grad}
    assert {part_of(name) for name in trained} == {"merger", "embeddings", "decoder"}
    assert set(groups_of(build_optimizers(model, None, OptimizerConfig(kind=kind)))) == {id(named[n]) for n in trained}
    freeze(model, ())
    assert all(parameter.requires_grad for parameter in model.parameters())
    with pytest.raises(ConfigError, match=r"train\.freeze: no part is called 'decode'"):
        freeze(model, ("decode",))
