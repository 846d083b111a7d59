"""Pools of regions and a scripted sampler for the tests of prompt pools: a rollout's text is its reward."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from gravityocr.document import Task
from gravityocr.errors import CapacityError, InputError
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, encode_picture, write_regions

PICTURE = encode_picture(Image.new("L", (8, 8), 255))


@dataclass(frozen=True)
class Scripted:
    """A rollout of the sampler's contract."""

    ids: tuple[int, ...]
    text: str
    log_probs: tuple[float, ...]
    finished: bool


def region(region_id: str, task: Task = "table", target: str = "abc", **others: Any) -> LabelledRegion:
    return replace(LabelledRegion(region_id, PICTURE, 8, 8, task, target, "test", region_id), **others)


def write_pool(folder: Path, regions: Sequence[LabelledRegion], n_files: int = 1) -> str:
    """Write the train split of a pool and return the pool's name."""
    for number in range(n_files):
        write_regions(folder / "train" / f"pool-{number:05d}{SUFFIX}", regions[number::n_files])
    return str(folder)


def many(n_tables: int, n_texts: int, n_formulas: int, seed: int = 0) -> list[LabelledRegion]:
    """Give regions of all tasks in a mixed order, with targets of 1 to 99 characters."""
    tasks: list[Task] = [*("table",) * n_tables, *("text",) * n_texts, *("formula",) * n_formulas]
    generator = random.Random(seed)
    generator.shuffle(tasks)
    return [region(f"r/{n}", task, "x" * generator.randint(1, 99)) for n, task in enumerate(tasks)]


def as_reward(task: Task, pred: str, ref: str) -> float:
    """Return the reward that the scripted sampler wrote into the text."""
    return float(pred)


class ScriptedSampler:
    """Samples texts that are their rewards: those of `rewards`, else some that the region and the seed decide.

    `n_cut` rollouts of a region are cut. After `n_regions` it dies; `broken` ones are refused, with them their batch.
    """

    def __init__(
        self,
        rewards: Mapping[str, Sequence[float]] | None = None,
        n_cut: Mapping[str, int] | None = None,
        n_regions: int | None = None,
        broken: Iterable[str] = (),
    ) -> None:
        self.rewards, self.n_cut, self.broken = rewards or {}, n_cut or {}, {*broken}
        self.n_regions = n_regions
        self.seen: list[str] = []
        self.seeds: set[int] = set()

    def sample(self, regions: Sequence[LabelledRegion], n_rollouts: int, seed: int) -> list[list[Scripted]]:
        refused = [one.region_id for one in regions if one.region_id in self.broken]
        if refused:
            kind = CapacityError if len(refused[0]) % 2 else InputError
            raise kind(f"region {refused[0]}: too large; leave it out")
        if self.n_regions is not None and len(self.seen) + len(regions) > self.n_regions:
            raise KeyboardInterrupt
        self.seeds.add(seed)
        self.seen += [one.region_id for one in regions]
        return [self._group(one.region_id, n_rollouts, seed) for one in regions]

    def _group(self, region_id: str, n: int, seed: int) -> list[Scripted]:
        generator = random.Random(f"{region_id} {seed}")
        rewards = self.rewards.get(region_id) or [generator.random() for _ in range(n)]
        n_cut = self.n_cut.get(region_id, 0)
        return [
            Scripted((5,) * (number + 1), repr(rewards[number % len(rewards)]), (-1.0,) * (number + 1), number >= n_cut)
            for number in range(n)
        ]
