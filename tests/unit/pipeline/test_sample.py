"""The page that ships with the package: its picture, its truth, and what the pipeline makes of it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from PIL import Image
from scripts.make_sample_page import markdown
from tests.unit.pipeline.scripted import ScriptedRecognizer

from gravityocr.pipeline.convert import convert
from gravityocr.pipeline.layout_cdla import CdlaConfig, CdlaDetector

SAMPLES = resources.files("gravityocr") / "samples"


def test_truth_is_what_the_script_draws() -> None:
    assert (SAMPLES / "sample_page.md").read_text(encoding="utf-8") == markdown()


def test_picture_is_small_enough_to_ship() -> None:
    path = Path(str(SAMPLES / "sample_page.png"))
    assert path.stat().st_size < 400_000
    with Image.open(path) as image:
        assert image.size == (1654, 2339)


def test_regions_of_the_sample_come_in_reading_order() -> None:
    saved: dict[str, Image.Image] = {}
    recognizer = ScriptedRecognizer()
    detector = CdlaDetector(CdlaConfig(n_threads=1))
    path = Path(str(SAMPLES / "sample_page.png"))
    document = convert(path, recognizer, detector, save_image=saved.__setitem__)
    assert document.status == "ok" and len(recognizer.calls) == 1
    regions = document.pages[0].regions
    body = [region for region in regions if region.label not in ("header", "footer", "page_number")]
    assert body[0].label == "title"
    assert [region.label for region in body if region.status == "skipped"] == ["formula", "table"]
    assert len(saved) == 2
    middle = document.pages[0].size_px[0] / 2
    left = [region.index for region in body if region.box.x1 < middle]
    right = [region.index for region in body if region.box.x0 > middle]
    assert len(left) >= 4 and len(right) >= 6 and max(left) < min(right)
    assert sum(region.label == "title" for region in regions) >= 5
    assert document.markdown.startswith("# ")
