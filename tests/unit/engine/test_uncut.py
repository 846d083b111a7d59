"""Crops read whole: samples depend on crop and seed alone, prompts are read once, banned tokens never come."""

from __future__ import annotations

import numpy as np
import pytest

import gravityocr.engine.scheduler as scheduling
from gravityocr.document import Crop
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.engine.uncut import UncutCrop, read_uncut, text_of
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.pool_tokens import pool_files

CONFIG = EngineConfig(decode="ar", windows="fixed", draft_head=False, log_probs=True)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.from_pretrained("nano", CONFIG, dtype="float32", n_threads=1)


@pytest.fixture(scope="module")
def crops() -> list[Crop]:
    pytest.importorskip("pyarrow", reason="region files need pyarrow; install the extra 'train'")
    regions = RegionFile(pool_files("sample", "validation")[0])
    return [Crop(regions[number].picture(), regions[number].task) for number in range(3)]


def asked(crop: Crop, *seeds: int, **more: object) -> UncutCrop:
    return UncutCrop(crop, 40, seeds, **more)  # type: ignore[arg-type]


def test_a_sample_depends_on_its_crop_and_seed_alone(engine: Engine, crops: list[Crop]) -> None:
    together = read_uncut(engine, [asked(crop, 1, 2, 3) for crop in crops])
    alone = [read_uncut(engine, [asked(crop, seed)])[0][0] for crop in crops for seed in (1, 2, 3)]
    assert [one.ids for row in together for one in row] == [one.ids for one in alone]
    flat = [one for row in together for one in row]
    for one, other in zip(flat, alone, strict=True):
        assert np.allclose(one.log_probs, other.log_probs, atol=1e-4)
    assert len({tuple(one.ids) for one in flat}) > len(crops), "temperature 1.0 draws no two alike of some crop"


def test_both_exact_ways_of_decoding_draw_the_same_samples(engine: Engine, crops: list[Crop]) -> None:
    drafted = engine.with_config(decode="self-spec", block_size=8)
    ask = [asked(crop, 4, 5) for crop in crops]
    plain, speculated = read_uncut(engine, ask), read_uncut(drafted, ask)
    assert [[one.ids for one in row] for row in plain] == [[one.ids for one in row] for row in speculated]
    assert sum(one.n_forwards for row in speculated for one in row) < sum(
        one.n_forwards for row in plain for one in row
    )


def test_no_seed_is_one_greedy_reading(engine: Engine, crops: list[Crop]) -> None:
    (row,) = read_uncut(engine, [asked(crops[0])])
    (again,) = read_uncut(engine, [asked(crops[0], 1, 2, temperature=0.0)])
    assert [one.ids for one in again] == [row[0].ids] * 2
    assert text_of(engine, row[0]) and "<|" not in text_of(engine, row[0])


def test_banned_tokens_are_never_sampled(engine: Engine, crops: list[Crop]) -> None:
    (free,) = read_uncut(engine, [asked(crops[0], *range(6), temperature=8.0)])
    wanted = frozenset(token for one in free for token in one.ids) - engine.checkpoint.stop_ids
    (barred,) = read_uncut(engine, [asked(crops[0], *range(6), temperature=8.0, banned=wanted)])
    assert not wanted & {token for one in barred for token in one.ids}


def test_a_prompt_is_read_once_for_all_its_samples(
    engine: Engine, crops: list[Crop], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    network = type(engine.networks.read)
    encode = network.encode_images

    def counted(self: object, prompts: list[object]) -> object:
        sizes.append(len(prompts))
        return encode(self, prompts)  # type: ignore[arg-type]

    monkeypatch.setattr(network, "encode_images", counted)
    read_uncut(engine, [asked(crop, *range(5)) for crop in crops])
    assert sum(sizes) == len(crops)


def test_many_samples_of_one_prompt_do_not_count_as_so_many_prompts(
    engine: Engine, crops: list[Crop], monkeypatch: pytest.MonkeyPatch
) -> None:
    n_prefills = []
    read = scheduling.read_prompts
    monkeypatch.setattr(scheduling, "read_prompts", lambda *args: n_prefills.append(len(args[1])) or read(*args))
    narrow = engine.with_config(batch_tokens=100)
    read_uncut(narrow, [asked(crops[0], *range(20))])
    assert n_prefills == [20]


