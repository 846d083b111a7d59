"""Rows of a pool: token counts without pictures, costs, orders, tickets, and regions that cannot be trained on."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from tests.training_data import EOS_ID, PROMPTS, TOKENIZER, make_region, write_pool

from gravityocr.errors import InputError
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile, write_regions
from gravityocr.training.joint import SkippedSample
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import Sample
from gravityocr.training.pool_tokens import SAMPLE_POOL, PoolTokens, count_pool_tokens, pool_files
from gravityocr.training.region_source import RegionSource
from gravityocr.training.row_plan import PackingConfig
from gravityocr.training.sources import Done

NOISE = NoiseConfig(4)
PACKING = PackingConfig(row_tokens=260, response_cap_tokens=40, open_rows=3)


def files_of(folder: Path, regions: list[LabelledRegion], files: int = 2) -> list[RegionFile]:
    return [RegionFile(file) for file in pool_files(str(write_pool(folder, regions, files)), "train")]


def source_of(files: list[RegionFile], seed: int = 0, noise: NoiseConfig = NOISE) -> RegionSource:
    index = count_pool_tokens(files, PROMPTS, noise, PACKING)
    return RegionSource(files, index, PROMPTS, noise, PACKING, EOS_ID, seed)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[RegionFile]:
    """Give two files of a pool of 24 regions, the fifth of which has no target yet."""
    regions = [make_region(number) for number in range(24)]
    regions[5] = replace(regions[5], target="", target_origin="pending")
    return files_of(tmp_path_factory.mktemp("pool"), regions)


def taken(source: RegionSource, drawn: int) -> Sample:
    made = source.sample(drawn)
    assert isinstance(made, Sample)
    return made


@pytest.mark.parametrize(
    ("noise", "copies", "n_eos"),
    [
        (NoiseConfig(4), 3, 4),
        (NoiseConfig(8, random_offset=True), 3, 8),
        (NoiseConfig(4, eos_fill=False), 3, 1),
        (NoiseConfig(4, "all"), 2, 4),
    ],
)
def test_the_cost_is_that_of_the_packed_sample(
    files: list[RegionFile], noise: NoiseConfig, copies: int, n_eos: int
) -> None:
    """P + 3 (N + B), told without a look at any picture and true of the sample that is made."""
    source = source_of(files, noise=noise)
    for number in source.order(0).tolist():
        sample = taken(source, number)
        n_prefix, n_target = sample.prompt.ids.numel(), sample.n_supervised - 1
        assert source.index.cost(number, noise) == n_prefix + copies * (n_target + n_eos) == sample.n_tokens


def test_a_sample_is_its_region(files: list[RegionFile]) -> None:
    source = source_of(files)
    regions = [region for file in files for region in file]
    for number in (0, 3, 12, 23):
        sample, region = taken(source, number), regions[number]
        prompt = PROMPTS.build(region.picture(), region.task)
        assert sample.name == region.region_id
        assert torch.equal(sample.prompt.pixels, prompt.pixels) and torch.equal(sample.prompt.ids, prompt.ids)
        assert TOKENIZER.decode(sample.response.tolist(), skip_special_tokens=True) == region.target


def test_corruption_is_new_in_every_epoch_and_a_function_of_the_seed(files: list[RegionFile]) -> None:
    source, other = source_of(files, 1), source_of(files, 2)
    n_all = len(source.index.n_response)

    def masks(one: RegionSource, epoch: int) -> list[list[bool]]:
        return [taken(one, epoch * n_all + number).corruption.masked[0].tolist() for number in range(5)]

    assert masks(source, 0) == masks(source_of(files, 1), 0)
    assert masks(source, 0) != masks(source, 1) and masks(source, 0) != masks(other, 0)
    again = taken(source, n_all)
    assert torch.equal(again.response, taken(source, 0).response)


def test_an_epoch_has_every_region_once_that_can_be_trained_on(files: list[RegionFile]) -> None:
    source = source_of(files)
    can = [number for number, n in enumerate(source.index.n_response.tolist()) if n >= 0]
    assert source.n_regions == len(can) == 23
    orders = [source.order(epoch).tolist() for epoch in range(3)] + [source_of(files, 1).order(0).tolist()]
    assert all(sorted(order) == can for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    # Row groups stay together, since only a few of them are kept in memory.
    halves = {tuple(number < len(files[0]) for number in order) for order in orders}
    assert all(sum(a != b for a, b in zip(half, half[1:], strict=False)) == 1 for half in halves)


def test_the_plan_has_every_region_of_every_epoch_once(files: list[RegionFile]) -> None:
    source = source_of(files)
    n_all = len(source.index.n_response)
    planned = [*islice(source.plan(), 80)]
    assert planned == [*islice(source_of(files).plan(), 80)]
    drawn = [one for row in planned for one in row.samples]
    assert max(drawn) // n_all > 8
    for epoch in range(6):  # what is carried over has come out by then
        mine = sorted(one - epoch * n_all for one in drawn if one // n_all == epoch)
        assert mine == sorted(source.order(epoch).tolist())
    for row in planned[:20]:
        assert row.n_tokens <= PACKING.row_tokens
        (data,) = source.rows((row,))
        assert not data.skipped and sum(sample.n_tokens for sample in data.samples) == row.n_tokens


def test_any_number_of_processes_takes_the_same_rows_of_a_step(files: list[RegionFile]) -> None:
    source = source_of(files)
    rows = [*islice(source.plan(), 24)]
    for world, accumulation in ((1, 4), (2, 2), (4, 1)):
        for first_step in (0, 2):
            done = Done(first_step, 4 * first_step)
            tickets = [source.tickets(done, rank, world, accumulation) for rank in range(world)]
            for step in range(first_step, first_step + 3):
                parts = [next(one) for one in tickets]
                assert all(len(part) == accumulation for part in parts)
                together = {row.samples for part in parts for row in part}
                assert together == {row.samples for row in rows[4 * step : 4 * step + 4]}


def bad_regions() -> dict[str, LabelledRegion]:
    """Give regions that no one can learn from, by what is told of them."""
    good = make_region(50)
    return {
        "it has no target yet": replace(good, target="", target_origin="pending"),
        "the tokenizer cannot write its target": replace(good, target="漢字"),
        "its response of 44 tokens exceeds packing.response_cap_tokens": replace(good, target="x" * 40),
        "forward tokens exceeds packing.row_tokens": make_region(51, width_px=400, height_px=300),
    }


def test_regions_that_cannot_be_trained_on_are_named_beforehand(tmp_path: Path) -> None:
    bad = bad_regions()
    regions = [replace(region, region_id=f"bad/{i}") for i, region in enumerate(bad.values())]
    source = source_of(files_of(tmp_path, [*(make_region(number) for number in range(3)), *regions], files=1))
    assert source.n_regions == 3 and sorted(source.order(0).tolist()) == [0, 1, 2]
    told = {one.name: one.reason for one in source.index.skipped}
    assert [*told] == [f"bad/{i}" for i in range(4)]
    for words, reason in zip(bad, told.values(), strict=True):
        assert words in reason


def test_a_pool_of_nothing_to_train_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of its 4 regions can be trained on; the first: made/50, it has no"):
        count_pool_tokens(files_of(tmp_path, [*bad_regions().values()], files=1), PROMPTS, NOISE, PACKING)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"image": b"no picture"}, "region made/1: its picture is broken"),
        ({"width_px": 500}, r"its picture or target is not what the file says \(500 x \d+ px\); convert it again"),
    ],
)
def test_a_region_that_is_found_broken_is_named_in_its_row(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    regions = [make_region(number) for number in range(3)]
    regions[1] = replace(regions[1], **changes)
    source = source_of(files_of(tmp_path, regions, files=1))
    made = source.sample(1)
    assert isinstance(made, SkippedSample) and made.name == "made/1"
    row = next(one for one in source.plan() if 1 in one.samples)
    (data,) = source.rows((row,))
    n_bad = sum(one % 3 == 1 for one in row.samples)  # a row may span epochs
    assert [one.name for one in data.skipped] == ["made/1"] * n_bad
    assert len(data.samples) == len(row.samples) - n_bad > 0
    assert all(re.search(words, one.reason) for one in data.skipped)


def test_tokens_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    regions = [*(make_region(number) for number in range(4)), replace(make_region(9), target="漢")]
    files, cache = files_of(tmp_path, regions), tmp_path / "run" / "index.npz"
    first = count_pool_tokens(files, PROMPTS, NOISE, PACKING, cache)
    with monkeypatch.context() as patch:
        patch.setattr(RegionFile, "columns", lambda *_: pytest.fail("counted again"))
        again = count_pool_tokens(files, PROMPTS, NOISE, PACKING, cache)
        assert same_index(first, again) and len(again.skipped) == 1
    # Other limits, another fill or another pool are counted anew.
    tight = replace(PACKING, row_tokens=sorted(first.cost(number, NOISE) for number in range(5))[2])
    fewer = count_pool_tokens(files, PROMPTS, NOISE, tight, cache)
    assert not same_index(first, fewer) and len(fewer.skipped) > 1
    longer = count_pool_tokens(files, PROMPTS, NoiseConfig(8), PACKING, cache)
    assert longer.cost(1, NoiseConfig(8)) == first.cost(1, NOISE) + 12
    short = replace(PACKING, response_cap_tokens=int(first.n_response.max()) + 4)
    assert len(count_pool_tokens(files, PROMPTS, NOISE, short, cache).skipped) == 1
    assert len(count_pool_tokens(files, PROMPTS, NoiseConfig(8), short, cache).skipped) > 1
    write_regions(files[0].file, regions[:1])
    shorter = count_pool_tokens([RegionFile(one.file) for one in files], PROMPTS, NOISE, PACKING, cache)
    assert len(shorter.n_prefix) == 3 < len(first.n_prefix)


def same_index(one: PoolTokens, other: PoolTokens) -> bool:
    return (
        one.n_prefix.tolist() == other.n_prefix.tolist()
        and one.n_response.tolist() == other.n_response.tolist()
        and (one.groups, one.skipped) == (other.groups, other.skipped)
    )


def test_a_missing_pool_or_split_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.pool .*no folder .*train; make the pool with gravityocr data pool"):
        pool_files(str(tmp_path), "train")
    (tmp_path / "train").mkdir()
    with pytest.raises(InputError, match="no region file"):
        pool_files(str(tmp_path), "train")


def test_the_shipped_pool_is_there() -> None:
    for split in ("train", "validation"):
        assert sum(len(RegionFile(file)) for file in pool_files(SAMPLE_POOL, split)) > 0
