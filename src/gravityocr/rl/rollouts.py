"""Samples of our own engine, for trial rollouts and for those of the training itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gravityocr.document import Crop
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.engine.live_weights import with_weights
from gravityocr.engine.uncut import UncutCrop, read_uncut, text_of
from gravityocr.rl.rl_config import GrpoConfig, RolloutConfig
from gravityocr.rl.seeds import banned_tokens, seed_of
from gravityocr.training.corpora.region_shards import LabelledRegion


@dataclass(frozen=True)
class Rollout:
    """One sampled completion, `ids` with the stop token where one was met; not `finished` is cut by the limit."""

    ids: tuple[int, ...]
    text: str
    log_probs: tuple[float, ...]
    finished: bool


class Sampler(Protocol):
    """Samples completions of regions, as they are and not cut to pieces."""

    def sample(self, regions: Sequence[LabelledRegion], n_rollouts: int, seed: int) -> list[list[Rollout]]:
        """Return some rollouts a region; region and seed decide them, and not what else is sampled.

        *Raises*: InputError for a broken picture.
        """


def rollout_engine(name: str, device: str, rollouts: RolloutConfig) -> Engine:
    """Return an engine that samples as a configuration says."""
    config = EngineConfig(
        decode=rollouts.decode, windows="fixed", draft_head=False, log_probs=True, max_running=rollouts.max_running
    )
    return Engine.from_pretrained(name, config, dtype="float32", device=device)


class EngineSampler:
    """Samples with our engine."""

    def __init__(self, engine: Engine, grpo: GrpoConfig) -> None:
        self.engine = engine
        self._grpo = grpo
        self._banned = banned_tokens(engine)

    def take(self, weights: dict[str, Any]) -> None:
        """Sample with these weights from now on."""
        self.engine = with_weights(self.engine, weights)

    def sample(self, regions: Sequence[LabelledRegion], n_rollouts: int, seed: int) -> list[list[Rollout]]:
        """Return some rollouts a region; see `Sampler`."""
        crops = [Crop(region.picture(), region.task) for region in regions]
        seeds = [
            tuple(seed_of(seed, region.region_id, number) for number in range(n_rollouts)) for region in regions
        ]
        return self.rollouts(crops, seeds)

    def rollouts(self, crops: Sequence[Crop], seeds: Sequence[tuple[int, ...]]) -> list[list[Rollout]]:
        """Return a rollout for each seed of each crop."""
        grpo = self._grpo
        asked = [
            UncutCrop(crop, grpo.max_tokens, own, grpo.temperature, grpo.top_p, self._banned)
            for crop, own in zip(crops, seeds, strict=True)
        ]
        return [
            [
                Rollout(tuple(one.ids), text_of(self.engine, one), tuple(one.log_probs), one.finish == "stop")
                for one in row
            ]
            for row in read_uncut(self.engine, asked)
        ]
