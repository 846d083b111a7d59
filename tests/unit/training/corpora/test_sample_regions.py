"""The pool of regions that travels with the package (scripts/make_sample_regions.py)."""

from __future__ import annotations

from collections import Counter
from importlib.resources import as_file, files

import pytest
from tokenizers import Tokenizer

from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile, region_files

MOST_PX = {"text": (384, 96), "table": (320, 32), "formula": (640, 200)}


@pytest.fixture(scope="module")
def regions() -> list[LabelledRegion]:
    with as_file(files("gravityocr") / "samples" / "regions") as folder:
        found = region_files(folder)
        assert sum(file.stat().st_size for file in found) <= 1_200_000
        assert [file.parent.name for file in found] == ["train", "validation"]
        return [region for file in found for region in RegionFile(file)]


def test_it_is_a_small_pool_in_the_mixture_of_the_paper(regions: list[LabelledRegion]) -> None:
    counts = Counter(region.task for region in regions)
    assert len(regions) >= 250 and min(counts.values()) >= 45 and counts["text"] / len(regions) > 0.5
    assert len({region.region_id for region in regions}) == len(regions)
    assert len({region.doc_id for region in regions}) >= 40
    assert max(Counter(region.doc_id for region in regions).values()) <= 10
    assert {(region.source, region.target_origin) for region in regions} == {("sample", "annotation")}


def test_tasks_are_mixed(regions: list[LabelledRegion]) -> None:
    for start in range(0, 200, 100):
        shares = Counter(region.task for region in regions[start : start + 100])
        assert 45 <= shares["text"] <= 75 and shares["table"] >= 10 and shares["formula"] >= 10


def test_crops_have_the_sizes_of_nanos_pieces(regions: list[LabelledRegion]) -> None:
    for region in regions:
        picture = region.picture()
        assert picture.mode == "L" and picture.size == (region.width_px, region.height_px)
        assert region.width_px <= MOST_PX[region.task][0] and region.height_px <= MOST_PX[region.task][1]
        low, high = picture.getextrema()
        assert low < 128 < high, "dark on light"


def test_nanos_tokenizer_knows_every_token(regions: list[LabelledRegion]) -> None:
    with as_file(files("gravityocr") / "checkpoints" / "nano" / "tokenizer.json") as file:
        tokenizer = Tokenizer.from_file(str(file))
    for region in regions:
        ids = tokenizer.encode(region.target, add_special_tokens=False).ids
        assert 0 < len(ids) <= 160
        # an unknown character would come back as a blank
        assert tokenizer.decode(ids, skip_special_tokens=False) == region.target
