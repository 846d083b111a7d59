"""The benchmark of reading order: its pages from annotations, the match with detected regions, the bar of the cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import reading_order as bench
from benchmarks.reading_order_truth import TruthPage, TruthRegion, docbank_regions, load_pages
from PIL import Image

from gravityocr.document import Box
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.layout import LayoutBox

SIZE = (1000, 1000)


def token(text: str, x0: int, y0: int, x1: int, y1: int, label: str = "paragraph") -> dict[str, Any]:
    return {"text": text, "bbox_1000": [x0, y0, x1, y1], "label": label}


def line(y: int, x0: int, x1: int, label: str = "paragraph") -> list[dict[str, Any]]:
    return [token("word", x, y, x + 40, y + 10, label) for x in range(x0, x1, 45)]


def polygon(x0: int, y0: int, x1: int, y1: int) -> list[int]:
    return [x0, y0, x1, y0, x1, y1, x0, y1]


def det(category: str, order: int | None, *box: int, **more: Any) -> dict[str, Any]:
    return {"category_type": category, "order": order, "poly": polygon(*box), **more}


def write_cases(folder: Path, truths: list[dict[str, Any]]) -> Path:
    (folder / "page").mkdir()
    rows = [{"file": f"page/{k}.png", "kind": "page", "ground_truth": truth} for k, truth in enumerate(truths)]
    for row in rows:
        Image.new("RGB", SIZE, "white").save(folder / row["file"])
    rows.append({"file": "text/none.png", "kind": "text", "ground_truth": "not looked at"})
    (folder / "manifest.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


TWO_COLUMNS = {
    "omnidocbench": {
        "layout_dets": [
            det("text_block", 3, 520, 100, 950, 500),
            det("title", 1, 50, 100, 480, 150),
            det("text_block", 2, 50, 170, 480, 500),
            det("page_number", None, 480, 950, 520, 970),
            det("text_block", 4, 520, 520, 950, 600, ignore=True),
        ]
    }
}


def test_pages_and_what_is_left_out(tmp_path: Path) -> None:
    truths = [
        TWO_COLUMNS,
        {"docbank_tokens": [*line(100, 100, 800), *line(200, 100, 800)]},
        {"layout": []},
        {"text": "plain"},
        {"omnidocbench": {"layout_dets": [det("page_number", None, 1, 1, 9, 9)]}},
    ]
    pages, left_out = load_pages(write_cases(tmp_path, truths))
    assert [(page.source, page.n_ordered, page.derived) for page in pages] == [
        ("OmniDocBench", 3, False),
        ("DocBank", 2, False),
    ]
    assert pages[0].size_px == SIZE
    assert [region.label for region in pages[0].regions] == ["text", "title", "text", "page_number", "text"]
    assert [(row["file"], row["reason"]) for row in left_out] == [
        ("page/2.png", "its boxes have no order (PubLayNet)"),
        ("page/3.png", "no boxes are annotated"),
        ("page/4.png", "no region has an order"),
    ]


@pytest.mark.parametrize("text", ["", "{}", '[{"kind": "page"}]', "[]"])
def test_a_broken_manifest_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="manifest.json"):
        load_pages(tmp_path)


def test_tokens_become_regions_in_the_order_of_the_list() -> None:
    tokens = [
        *line(100, 100, 800),
        *line(112, 100, 800),
        token("x", 300, 140, 320, 155, "equation"),
        token("(cid:90)", 330, 90, 340, 200, "equation"),
        token("1", 350, 140, 360, 150, "equation"),
        token("(3)", 800, 142, 830, 152, "equation"),
        *line(180, 100, 800),
        token("7", 500, 960, 510, 970),
        token("##LTLine##", 300, 150, 360, 150, "equation"),
    ]
    regions, derived = docbank_regions(tokens, (2000, 3000))
    assert not derived
    assert [(region.label, region.order) for region in regions] == [
        ("text", 1), ("formula", 2), ("formula", 3), ("text", 4), ("page_number", None),
    ]  # fmt: skip
    assert regions[1].box == Box(600, 420, 720, 465)


def test_a_picture_takes_the_place_of_the_words_in_it() -> None:
    drawing = token("##LTFigure##", 100, 90, 500, 300, "figure")
    words = [token("axis", 150, 200, 190, 210), token("curve", 300, 120, 340, 130)]
    regions, _ = docbank_regions([*words, *line(400, 100, 800), drawing], SIZE)
    assert [(region.label, region.order) for region in regions] == [("figure", 1), ("text", 2)]
    regions, _ = docbank_regions([*line(400, 100, 800), drawing], SIZE)
    assert [(region.label, region.order) for region in regions] == [("text", 1), ("figure", None)]


def test_a_list_across_two_columns_gives_the_order_within_each_only() -> None:
    tokens = line(50, 200, 800)
    for y in range(100, 400, 12):
        tokens += [*line(y, 50, 460), *line(y, 520, 940)]
    regions, derived = docbank_regions(tokens, SIZE)
    assert derived
    assert [region.box.x0 for region in regions] == [200, 50, 520]


def page(*regions: TruthRegion) -> TruthPage:
    return TruthPage(Path("page.png"), "test", SIZE, regions)


FOUR = page(
    TruthRegion(Box(50, 100, 480, 200), "text", 1),
    TruthRegion(Box(50, 220, 480, 400), "text", 2),
    TruthRegion(Box(520, 100, 950, 200), "text", 3),
    TruthRegion(Box(520, 220, 950, 400), "text", 4),
)


def test_annotated_boxes_are_scored_in_any_order() -> None:
    assert bench.score_boxes(FOUR, bench.ON_BOXES["ours"]) == 0
    assert bench.score_boxes(FOUR, bench.ON_BOXES["top_to_bottom"]) == 0.5


def test_detected_regions_stand_for_what_they_cover() -> None:
    left, right = LayoutBox(Box(40, 90, 490, 410), "text", "left"), LayoutBox(Box(510, 90, 960, 410), "text", "right")
    assert bench.score_detected(FOUR, [left, right]) == 0
    assert bench.score_detected(FOUR, [right, left]) == 1
    assert bench.score_detected(FOUR, [left]) == 0.5
    assert bench.score_detected(FOUR, []) == 1
    sliver = LayoutBox(Box(510, 90, 600, 410), "text", "sliver")
    assert bench.score_detected(FOUR, [left, sliver]) == 0.5


class Detector:
    """Finds what it is told to."""

    def detect(self, image: Image.Image) -> list[LayoutBox]:
        return []


def test_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(write_cases(tmp_path, [TWO_COLUMNS, {"text": "plain"}]))
    assert bench.main(["--cases", folder, "--layout", "none", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["means"]["annotated"] == {"n_pages": 1, "boxes": {"ours": 0, "top_to_bottom": 2 / 3}}
    assert "detected" not in report["pages"][0] and report["matching"] is None
    monkeypatch.setattr(bench, "build_detector", lambda name: Detector())
    assert bench.main(["--cases", folder]) == 0
    shown = capsys.readouterr().out
    assert "left out: page/1.png: no boxes are annotated" in shown and "mean of 1" in shown


def test_wrong_settings_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench.main(["--cases", str(tmp_path)]) == 1

    def unknown(name: str) -> Detector:
        raise ConfigError(f"layout {name}: unknown")

    monkeypatch.setattr(bench, "build_detector", unknown)
    folder = tmp_path / "cases"
    folder.mkdir()
    assert bench.main(["--cases", str(write_cases(folder, [TWO_COLUMNS])), "--layout", "what"]) == 2


def test_the_handed_pages_are_in_order(cases_dir: Path) -> None:
    """Hold the bar of at most 0.05 on annotated boxes, which the plain order misses."""
    pages, _ = load_pages(cases_dir)
    means = bench.summarize([bench.measure_page(page, None) for page in pages])
    assert means["annotated"]["n_pages"] == 12 and means["all"]["n_pages"] == 14
    assert means["annotated"]["boxes"]["ours"] <= 0.05 < means["annotated"]["boxes"]["top_to_bottom"]
    assert means["all"]["boxes"]["ours"] <= 0.05


def test_published_results_are_in_the_order_that_a_detector_gave(cases_dir: Path) -> None:
    """Order the boxes of published results of GLM-OCR: no ground truth, and two rules were mended in view of them."""
    distances = []
    for file in sorted((cases_dir / "glm_reference" / "result").rglob("*.json")):
        for regions in json.loads(file.read_text(encoding="utf-8")):
            boxes = [Box(x0, 1.4 * y0, x1, 1.4 * y1) for x0, y0, x1, y1 in (one["bbox_2d"] for one in regions)]
            labels = [{"image": "figure", "table": "table", "formula": "formula"}.get(one["label"]) for one in regions]
            given = [
                TruthRegion(box, label or "text", k)  # type: ignore[arg-type]
                for k, (box, label) in enumerate(zip(boxes, labels, strict=True), 1)
            ]
            if given:
                distances.append(bench.score_boxes(page(*given), bench.ON_BOXES["ours"]))
    assert len(distances) > 40
    assert sum(distances) / len(distances) <= 0.05
