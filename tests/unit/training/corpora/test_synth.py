"""Shards of rendered samples as regions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, convert_source
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.corpora.synth import SynthShards
from gravityocr.training.synthetic.shards import RenderedSample, write_shard


def sample(text: str, source: str, task: str = "text") -> RenderedSample:
    image = np.random.default_rng(len(text)).integers(0, 256, (32, 16 * len(text)), dtype=np.uint8)
    return RenderedSample(task, image, tuple(text), np.zeros((len(text), 2), dtype=np.float32), source)


def test_samples_become_regions(tmp_path: Path) -> None:
    root = tmp_path / "shards"
    (root / "deep").mkdir(parents=True)
    samples = [sample("one", "table 1"), sample("three", "table 1", "table"), sample("x", "table 2")]
    write_shard(root / "a-0000.shard.npz", samples)
    write_shard(root / "deep" / "a-0000.shard.npz", samples[:1])
    (root / "deep" / "b.shard.npz").write_bytes(b"no shard")
    config = ConversionConfig()
    reports = [*convert_source(SynthShards(config), root, tmp_path / "out", config)]
    assert [(report.unit, report.status) for report in reports] == [
        ("a-0000", "made"), ("deep-a-0000", "made"), ("deep-b", "failed"),
    ]  # fmt: skip
    regions = [*RegionFile(tmp_path / "out" / "synth" / "a-0000.regions.parquet")]
    assert [region.target for region in regions] == ["one", "three", "x"]
    assert [region.task for region in regions] == ["text", "table", "text"]
    assert [region.doc_id for region in regions] == ["a-0000/table 1", "a-0000/table 1", "a-0000/table 2"]
    assert len({region.region_id for region in regions}) == 3
    for region, made in zip(regions, samples, strict=True):
        assert np.array_equal(np.asarray(region.picture()), made.image)
        assert (region.width_px, region.height_px, region.target_origin) == (*made.image.shape[::-1], "annotation")


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no shard"):
        SynthShards(ConversionConfig()).units(tmp_path)


def test_worn_samples_are_the_same_every_time_and_unlike_clean_ones(tmp_path: Path) -> None:
    root = tmp_path / "shards"
    root.mkdir()
    write_shard(root / "a.shard.npz", [sample("abcdefgh", "page"), sample("ijklmnop", "page")])
    pictures = []
    for name, wear in (("clean", 0.0), ("worn", 1.0), ("again", 1.0)):
        config = ConversionConfig(wear=wear)
        reports = [*convert_source(SynthShards(config), root, tmp_path / name, config)]
        assert [one.status for one in reports] == ["made"], reports
        regions = [*RegionFile(tmp_path / name / "synth" / "a.regions.parquet")]
        assert [region.target for region in regions] == ["abcdefgh", "ijklmnop"]
        pictures.append([np.asarray(region.picture().convert("L")) for region in regions])
    clean, worn, again = pictures
    assert all(np.array_equal(one, other) for one, other in zip(worn, again, strict=True))
    assert not all(np.array_equal(one, other) for one, other in zip(worn, clean, strict=True))
