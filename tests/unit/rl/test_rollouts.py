"""Samples of our own engine: what they depend on, what they never hold, and what is told of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.grpo_runs import sampler_of, small_run, with_likely

from gravityocr.document import Crop
from gravityocr.rl.evaluation import EvaluationConfig, held_out
from gravityocr.rl.rollouts import EngineSampler, Rollout
from gravityocr.rl.seeds import banned_tokens, seed_of
from gravityocr.training.corpora.region_shards import LabelledRegion


@pytest.fixture(scope="module")
def sampler() -> EngineSampler:
    return sampler_of(small_run("unused", "grpo.max_tokens=25"))


@pytest.fixture(scope="module")
def regions() -> list[LabelledRegion]:
    """Give two regions of each task."""
    return [one for members in held_out(EvaluationConfig(n_crops=2), "sample").values() for one in members]


@pytest.fixture(scope="module")
def sampled(sampler: EngineSampler, regions: list[LabelledRegion]) -> list[list[Rollout]]:
    return sampler.sample(regions, 3, 7)


def ids_of(sampled: list[list[Rollout]]) -> list[list[tuple[int, ...]]]:
    return [[one.ids for one in row] for row in sampled]


def test_region_and_seed_decide_and_nothing_else_that_is_sampled(
    sampler: EngineSampler, regions: list[LabelledRegion], sampled: list[list[Rollout]]
) -> None:
    ids = ids_of(sampled)
    assert any(len(set(row)) > 1 for row in ids), "no two rollouts of any region differ"
    assert ids_of(sampler.sample(regions, 3, 7)) == ids
    assert ids_of(sampler.sample(regions[::-1], 2, 7)) == [row[:2] for row in ids[::-1]]
    assert ids_of(sampler.sample(regions, 3, 8)) != ids
    renamed = [replace(region, region_id=f"other {region.region_id}") for region in regions]
    assert ids_of(sampler.sample(renamed, 3, 7)) != ids


def test_both_ways_of_decoding_give_the_same_samples(
    regions: list[LabelledRegion], sampled: list[list[Rollout]]
) -> None:
    drafting = sampler_of(small_run("unused", "grpo.max_tokens=25", "rollouts.decode=self-spec"))
    assert drafting.engine.mode != sampler_of(small_run("unused")).engine.mode
    drafted = drafting.sample(regions, 3, 7)
    assert ids_of(drafted) == ids_of(sampled)
    for ours, theirs in zip(sampled, drafted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)


def test_what_is_told_of_a_rollout(
    sampler: EngineSampler, regions: list[LabelledRegion], sampled: list[list[Rollout]]
) -> None:
    stops = sampler.engine.checkpoint.stop_ids
    decode = sampler.engine.checkpoint.tokenizer.decode
    rollouts = [one for row in sampled for one in row]
    assert {one.finished for one in rollouts} == {True, False}, "both kinds are needed"
    for one in rollouts:
        assert len(one.log_probs) == len(one.ids) <= 25 and max(one.log_probs) <= 0
        assert one.finished == (one.ids[-1] in stops) and (one.finished or len(one.ids) == 25)
        assert one.text == decode(list(one.ids), skip_special_tokens=True)


@pytest.mark.parametrize("decode", ["ar", "self-spec"])
def test_the_image_and_the_mask_token_are_never_sampled(regions: list[LabelledRegion], decode: str) -> None:
    """One of them is made the likeliest token everywhere, by far."""
    sampler = sampler_of(small_run("unused", "grpo.max_tokens=12", f"rollouts.decode={decode}"))
    checkpoint = sampler.engine.checkpoint
    banned = banned_tokens(sampler.engine)
    assert banned == {checkpoint.prompts.image_id, checkpoint.diffusion.mask_id} and len(banned) == 2
    sampler.take(with_likely(sampler, banned))
    crops, seeds = [Crop(region.picture(), region.task) for region in regions], [(1, 2)] * len(regions)

    def n_banned() -> int:
        return sum(token in banned for row in sampler.rollouts(crops, seeds) for one in row for token in one.ids)

    assert n_banned() == 0
    sampler._banned = frozenset()
    assert n_banned() > 20, "they were not likely"


def test_a_seed_depends_on_every_part() -> None:
    seeds = [seed_of(*parts) for parts in ((0, 1, 2), (0, 2, 1), (1, 1, 2), (0, 1, 3), (0, "a", 2), (0, 12))]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 2**56 for seed in seeds)
    assert seed_of(0, "prompts", 3) == seed_of(0, "prompts", 3)
