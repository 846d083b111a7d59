"""Packed rows of a pool of regions: (1) count tokens, (2) order, (3) plan rows, (4) deal them out, (5) decode.

Steps 1 to 4 look at numbers alone and are the same in every process; only step 5, in the loader workers, reads
pictures. The rows of the plan go to the processes in turn, so neither the number of processes nor that of the workers
changes what a step trains on, and a run that is resumed with other numbers goes on where it was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, count, islice

import numpy as np
import torch

from gravityocr.errors import InputError
from gravityocr.model.prompt import PromptBuilder
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.joint import RowData, SkippedSample
from gravityocr.training.noise import NoiseConfig, corrupt
from gravityocr.training.packing import Sample, fill_response
from gravityocr.training.pool_tokens import PoolTokens
from gravityocr.training.row_plan import PackingConfig, PlannedRow, plan_rows
from gravityocr.training.sources import Done


class RegionSource:
    """Read, tokenize and corrupt the regions of a pool, row by row."""

    def __init__(self, files: list[RegionFile], index: PoolTokens, prompts: PromptBuilder, noise: NoiseConfig,
                 packing: PackingConfig, eos_id: int, seed: int) -> None:  # fmt: skip
        self.files, self.index = files, index
        self.prompts, self.noise, self.packing = prompts, noise, packing
        self.eos_id, self.seed = eos_id, seed
        self._ends = [*accumulate(map(len, files))]

    @property
    def n_regions(self) -> int:
        """How many regions can be trained on."""
        return int((self.index.n_response >= 0).sum())

    def order(self, epoch: int) -> np.ndarray:
        """Return the regions of one epoch in the order of training: row groups shuffled, and regions within each."""
        rng = np.random.default_rng([self.seed, epoch])
        starts = np.cumsum([0, *self.index.groups])
        groups = rng.permutation(len(self.index.groups))
        order = np.concatenate([starts[group] + rng.permutation(self.index.groups[group]) for group in groups])
        return order[self.index.n_response[order] >= 0]

    def plan(self) -> Iterator[PlannedRow]:
        """Return all rows of the run, without end; a sample's number counts on from epoch to epoch."""
        return plan_rows(self._costs(), self.packing)

    def _costs(self) -> Iterator[tuple[int, int]]:
        n_all = len(self.index.n_response)
        for epoch in count():
            for number in self.order(epoch).tolist():
                yield epoch * n_all + number, self.index.cost(number, self.noise)

    def tickets(self, done: Done, rank: int, world: int, accumulation: int) -> Iterator[tuple[PlannedRow, ...]]:
        """Return the planned rows of each step of a process."""
        mine = islice(self.plan(), done.rows + rank, None, world)
        while True:
            yield tuple(islice(mine, accumulation))

    def rows(self, ticket: tuple[PlannedRow, ...]) -> tuple[RowData, ...]:
        """Read the rows of a ticket; a region that cannot be read is named in its row."""
        return tuple(self._row(planned) for planned in ticket)

    def set_difficulty(self, difficulty: float) -> None:
        """Do nothing: regions are what they are."""

    def _row(self, planned: PlannedRow) -> RowData:
        samples, skipped = [], []
        for drawn in planned.samples:
            made = self.sample(drawn)
            if isinstance(made, SkippedSample):
                skipped.append(made)
            else:
                samples.append(made)
        return RowData(tuple(samples), (), tuple(skipped))

    def sample(self, drawn: int) -> Sample | SkippedSample:
        """Return a region as a sample, corrupted anew in every epoch, or why it has to be left out."""
        number = drawn % len(self.index.n_response)
        file = bisect_right(self._ends, number)
        where = f"{self.files[file].file}, region {number - (self._ends[file - 1] if file else 0)}"
        try:
            region = self.files[file][number - (self._ends[file - 1] if file else 0)]
            where = region.region_id
            prompt = self.prompts.build(region.picture(), region.task)
        except InputError as error:
            return SkippedSample(where, str(error))
        ids = self.prompts.tokenizer.encode(region.target, add_special_tokens=False).ids
        if prompt.ids.numel() != self.index.n_prefix[number] or len(ids) != self.index.n_response[number]:
            size = f"its picture or target is not what the file says ({region.width_px} x {region.height_px} px)"
            return SkippedSample(where, f"{size}; convert it again")
        response, n_supervised = fill_response(ids, self.eos_id, self.noise.n_eos)
        seed = int(np.random.SeedSequence([self.seed, drawn]).generate_state(1)[0])
        corruption = corrupt(response.numel(), self.noise, torch.Generator().manual_seed(seed))
        return Sample(prompt, response, n_supervised, corruption, where)
