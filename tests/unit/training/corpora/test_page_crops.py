"""Pages to regions: the crops of inference, known texts, and what is dropped with a word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.unit.training.corpora.page_fixtures import SIZE, blank_page, encoded, text_page

from gravityocr.document import Box, Crop, Recognition
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.convert import convert
from gravityocr.pipeline.layout_cdla import CdlaConfig, CdlaDetector
from gravityocr.training.corpora.conversion import Skipped
from gravityocr.training.corpora.page_crops import KnownText, PageCutter, PageName, open_page
from gravityocr.training.corpora.region_shards import LabelledRegion

NAME = PageName("pages", "doc7", 3)


@pytest.fixture(scope="module")
def cutter() -> PageCutter:
    return PageCutter("cdla")


def picture_page() -> Image.Image:
    """Two paragraphs above a colour picture."""
    page = text_page()
    y, x = np.mgrid[0:250, 0:500]
    waves = [np.sin(x / 40) * np.cos(y / 30), np.cos(x / 55), np.sin(y / 25)]
    page.paste(Image.fromarray((128 + 100 * np.stack(waves, axis=-1)).astype(np.uint8)), (150, 780))
    return page


class Recorder:
    """A recognizer that keeps the crops that it is handed."""

    tasks = frozenset({"text", "table", "formula"})

    def __init__(self) -> None:
        self.crops: list[Crop] = []

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        self.crops += crops
        return [Recognition("") for _ in crops]


@pytest.mark.parametrize("kind", ["RGB.png", "L.tif", "RGBA.png", "1.png", "sample.png"])
def test_crops_are_those_of_inference(cutter: PageCutter, tmp_path: Path, repo_root: Path, kind: str) -> None:
    mode, suffix = kind.split(".")
    file = tmp_path / f"page.{suffix}"
    if mode == "sample":
        page = Image.open(repo_root / "src" / "gravityocr" / "samples" / "sample_page.png")
    else:
        page = picture_page().convert(mode)
    if mode == "RGBA":
        page.putalpha(Image.linear_gradient("L").resize(SIZE))
    page.save(file)
    recorder = Recorder()
    read = convert(file, recorder, CdlaDetector(CdlaConfig(n_threads=1))).pages[0]
    boxes = [region.box for region in read.regions if region.task is not None]
    expected = {(box.x0, box.y0, box.x1, box.y1): crop for box, crop in zip(boxes, recorder.crops, strict=True)}
    found = [item for item in cutter.read(file.read_bytes(), NAME) if isinstance(item, LabelledRegion)]
    assert len(found) == len(expected) > 1
    for region in found:
        crop = expected[region.bbox]
        assert region.task == crop.task
        assert (region.width_px, region.height_px) == crop.image.size
        assert region.picture().convert("RGB").tobytes() == crop.image.tobytes()


def test_regions_name_their_page_and_wait_for_a_teacher(cutter: PageCutter) -> None:
    regions = [*cutter.regions(text_page(), NAME)]
    assert [region.region_id for region in regions] == ["pages/doc7/3/0", "pages/doc7/3/1"]
    for region in regions:
        assert (region.source, region.doc_id, region.page) == ("pages", "doc7", 3)
        assert (region.target, region.target_origin, region.task) == ("", "pending", "text")
    labelled = [*cutter.regions(text_page(), PageName("pages", "doc7", label="scan_9"))]
    assert labelled[1].region_id == "pages/doc7/scan_9/1" and labelled[1].page == 0


def test_a_known_block_gives_its_text_to_the_region_that_it_is(cutter: PageCutter) -> None:
    plain = [*cutter.regions(text_page(), NAME)]
    top = min(plain, key=lambda region: region.bbox[1])
    box = Box(*top.bbox)
    near = KnownText(Box(box.x0 - 4, box.y0 + 6, box.x1 + 5, box.y1 - 3), "text", "near")
    nearer = KnownText(Box(box.x0 - 1, box.y0, box.x1, box.y1), "text", "nearer")
    narrow = KnownText(Box(box.x0, box.y0, box.x1 - 60, box.y1), "text", "one edge is far away")
    formula = KnownText(box, "formula", "another task")

    def targets(*known: KnownText) -> dict[str, str]:
        found = [*cutter.regions(text_page(), NAME, known)]
        return {region.region_id: region.target for region in found if region.target_origin == "annotation"}

    assert targets(near, nearer) == {top.region_id: "nearer"}
    assert targets(near) == {top.region_id: "near"}
    assert targets(narrow, formula) == {}


def test_figures_and_blank_pages_are_dropped_with_a_word(cutter: PageCutter) -> None:
    *regions, last = cutter.regions(picture_page(), NAME)
    assert len(regions) == 2 and all(region.task == "text" for region in regions)
    assert last == Skipped("pages/doc7/3", "figures: 1")
    assert [*cutter.regions(blank_page(), NAME)] == [Skipped("pages/doc7/3", "blank page")]


def broken_pages() -> list[tuple[str, bytes]]:
    whole = encoded(text_page())
    large = encoded(Image.new("1", (4100, 4000)))
    return [
        ("broken", whole[: len(whole) // 2]), ("broken", b"no image"), ("broken", b""), ("megapixels", large),
        ("I;16", encoded(Image.new("I;16", (50, 50)))), ("CMYK", encoded(Image.new("CMYK", (50, 50)), "TIFF")),
    ]  # fmt: skip


@pytest.mark.parametrize(("word", "data"), broken_pages())
def test_a_page_that_cannot_be_read_is_skipped(cutter: PageCutter, word: str, data: bytes) -> None:
    (skipped,) = cutter.read(data, NAME)
    assert skipped.where == "pages/doc7/3"
    assert skipped.reason.startswith("unreadable page: ") and word in skipped.reason
    with pytest.raises(InputError, match=word):
        open_page(data)


def test_a_page_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    page = text_page()
    page.save(tmp_path / "turned.png", exif=exif)
    upright = open_page((tmp_path / "turned.png").read_bytes())
    assert upright.size == SIZE[::-1]
    assert upright.tobytes() == page.transpose(Image.Transpose.ROTATE_270).tobytes()


def test_unknown_layouts_are_refused() -> None:
    with pytest.raises(ConfigError, match="cdla, none"):
        PageCutter("best")
    (region,) = PageCutter("none").regions(text_page(), NAME)
    assert region.bbox == (0.0, 0.0, *map(float, SIZE))
