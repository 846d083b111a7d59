"""From detected boxes to regions: once each, nothing lost, nothing on a blank page."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer, draw_lines

from gravityocr.document import Box, Label
from gravityocr.errors import ConfigError
from gravityocr.pipeline.convert import convert
from gravityocr.pipeline.layout import LayoutBox, LayoutConfig, WholePage, find_regions, merge_boxes

SIZE = (800, 1000)
CONFIG = LayoutConfig()


def item(box: tuple[float, float, float, float], label: Label = "text", score: float = 0.9) -> LayoutBox:
    return LayoutBox(Box(*box), label, label, score)


def labels(boxes: list[LayoutBox]) -> list[str]:
    return sorted(box.label for box in boxes)


def covers(outer: Box, inner: tuple[int, int, int, int], slack: float = 12) -> bool:
    x0, y0, x1, y1 = inner
    low = outer.x0 <= x0 + slack and outer.y0 <= y0 + slack
    return low and outer.x1 >= x1 - slack and outer.y1 >= y1 - slack


def test_a_blank_page_asks_no_model() -> None:
    detector = ScriptedDetector([item((0, 0, 100, 100))])
    assert find_regions(Image.new("RGB", SIZE, "white"), detector, CONFIG) == []
    assert detector.n_calls == 0


def test_ink_without_any_box_is_one_text_region(two_paragraphs: Image.Image) -> None:
    (region,) = find_regions(two_paragraphs, ScriptedDetector([]), CONFIG)
    assert (region.label, region.native_label) == ("text", "uncovered")
    assert covers(region.box, (100, 100, 700, 800), 20)


def test_a_picture_alone_without_any_box_gives_nothing() -> None:
    page = Image.new("RGB", SIZE, "white")
    page.paste((80, 30, 30), (100, 100, 500, 700))
    assert find_regions(page, ScriptedDetector([]), CONFIG) == []


def test_text_that_no_box_covers_becomes_a_region(two_paragraphs: Image.Image) -> None:
    detector = ScriptedDetector([item((95, 95, 705, 305))])
    regions = find_regions(two_paragraphs, detector, CONFIG)
    assert [region.native_label for region in regions] == ["text", "uncovered"]
    assert covers(regions[1].box, (100, 600, 700, 800), 20)
    off = LayoutConfig(find_uncovered=False)
    assert len(find_regions(two_paragraphs, detector, off)) == 1


def test_widely_spaced_lines_that_were_missed_are_one_region() -> None:
    page = Image.new("RGB", SIZE, "white")
    draw_lines(page, (100, 600, 700, 800), pitch=26)
    regions = find_regions(page, ScriptedDetector([item((95, 95, 705, 305))]), CONFIG)
    assert len(regions) == 2


def test_a_cut_off_line_end_is_given_back(two_paragraphs: Image.Image) -> None:
    detector = ScriptedDetector([item((160, 95, 600, 305), score=0.8), item((95, 595, 705, 805))])
    regions = find_regions(two_paragraphs, detector, CONFIG)
    assert len(regions) == 2
    assert any(covers(region.box, (100, 100, 700, 300)) and region.box.y1 < 400 for region in regions)


def test_a_line_cut_off_below_is_given_back_but_not_to_a_table() -> None:
    page = Image.new("RGB", SIZE, "white")
    draw_lines(page, (100, 100, 700, 300))
    for label, n_regions in (("text", 1), ("table", 2)):
        detector = ScriptedDetector([item((95, 95, 705, 276), label)])  # type: ignore[arg-type]
        assert len(find_regions(page, detector, CONFIG)) == n_regions, label


def test_a_region_does_not_grow_over_its_neighbour() -> None:
    page = Image.new("RGB", SIZE, "white")
    draw_lines(page, (100, 100, 380, 300))
    draw_lines(page, (400, 100, 700, 300))
    left, right = item((95, 95, 300, 305)), item((390, 95, 705, 305), score=0.8)
    regions = find_regions(page, ScriptedDetector([left, right]), CONFIG)
    assert len(regions) == 2
    first, second = (region.box for region in regions)
    assert covers(first, (100, 100, 380, 300)) and first.x1 < 396
    assert second.x0 >= 388


def test_a_lone_number_in_the_margin_is_a_page_number() -> None:
    page = Image.new("RGB", SIZE, "white")
    draw_lines(page, (100, 100, 700, 300))
    draw_lines(page, (395, 960, 420, 980))
    regions = find_regions(page, ScriptedDetector([item((95, 95, 705, 305))]), CONFIG)
    assert labels(regions) == ["page_number", "text"]


def test_missed_texture_is_a_figure_not_text() -> None:
    page = Image.effect_noise((100, 100), 120).point(lambda value: 255 * (value > 128)).resize((500, 500), 0)
    whole = Image.new("RGB", SIZE, "white")
    whole.paste(page, (100, 300))
    draw_lines(whole, (100, 100, 700, 200))
    regions = find_regions(whole, ScriptedDetector([item((95, 95, 705, 205))]), CONFIG)
    assert labels(regions) == ["figure", "text"]


def test_a_large_figure_is_looked_at_again_and_may_turn_out_to_be_text(two_paragraphs: Image.Image) -> None:
    figure = item((50, 50, 750, 850), "figure")
    second = [item((45, 45, 655, 255)), item((45, 545, 655, 755), score=0.8)]
    detector = ScriptedDetector([figure], second)
    regions = find_regions(two_paragraphs, detector, CONFIG)
    assert detector.n_calls == 2
    assert labels(regions) == ["text", "text"]
    assert covers(regions[0].box, (100, 100, 700, 300))


def test_a_figure_that_the_second_look_confirms_stays(two_paragraphs: Image.Image) -> None:
    figure = item((50, 50, 750, 850), "figure")
    confirmed = [item((0, 0, 700, 790), "figure"), item((45, 45, 655, 255))]
    for second in (confirmed, []):
        assert labels(find_regions(two_paragraphs, ScriptedDetector([figure], second), CONFIG)) == ["figure"]
    detector = ScriptedDetector([figure])
    find_regions(two_paragraphs, detector, LayoutConfig(second_look=1.0))
    assert detector.n_calls == 1


def test_duplicates_keep_the_surer_box() -> None:
    boxes = [item((100, 100, 300, 200), "text", 0.6), item((102, 101, 303, 201), "title", 0.8)]
    (kept,) = merge_boxes(boxes, SIZE, CONFIG)
    assert kept.label == "title"


def test_boxes_inside_another_go() -> None:
    boxes = [item((100, 100, 500, 500), "table", 0.7), item((120, 120, 300, 150), "text", 0.9)]
    assert labels(merge_boxes(boxes, SIZE, CONFIG)) == ["table"]


def test_a_text_box_that_others_fill_goes_instead() -> None:
    boxes = [
        item((100, 100, 500, 500), "text", 0.95),
        item((100, 100, 500, 250), "text", 0.6),
        item((100, 260, 500, 300), "formula", 0.6),
        item((100, 310, 500, 500), "text", 0.6),
    ]
    assert labels(merge_boxes(boxes, SIZE, CONFIG)) == ["formula", "text", "text"]


def test_text_boxes_that_share_lines_become_one() -> None:
    boxes = [item((100, 100, 700, 200), "text", 0.5), item((100, 150, 690, 500), "text", 0.8)]
    (kept,) = merge_boxes(boxes, SIZE, CONFIG)
    assert kept.box == Box(100, 100, 700, 500)
    apart = [item((100, 100, 400, 200)), item((380, 150, 700, 500), score=0.8)]  # a corner only
    assert len(merge_boxes(apart, SIZE, CONFIG)) == 2


def test_unusable_boxes_are_dropped_and_the_others_clamped() -> None:
    boxes = [
        item((math.nan, 0, 10, 10)),
        item((50, 50, 50, 80)),
        item((900, 0, 990, 50)),
        item((700, -20, 950, 60)),
    ]
    assert [kept.box for kept in merge_boxes(boxes, SIZE, CONFIG)] == [Box(700, 0, 800, 60)]


def test_too_tall_a_title_is_text() -> None:
    tall, flat = item((100, 300, 700, 700), "title"), item((100, 100, 700, 140), "title")
    kept = {box.box.y0: box.label for box in merge_boxes([tall, flat], SIZE, CONFIG)}
    assert kept == {300: "text", 100: "title"}


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_0(two_paragraphs: Image.Image, score: float) -> None:
    odd, sure = item((95, 95, 705, 305), score=score), item((96, 96, 705, 305), "title", 0.2)
    below = item((95, 595, 705, 805), score=score)
    for kind in (ScriptedDetector, TrustedDetector):
        regions = find_regions(two_paragraphs, kind([odd, sure, below]), CONFIG)
        assert {region.score for region in regions} == {0.0, 0.2}
    assert labels(find_regions(two_paragraphs, ScriptedDetector([odd, sure, below]), CONFIG)) == ["text", "text"]


def test_whole_page() -> None:
    page = Image.new("RGB", SIZE, "white")
    assert [box.box for box in WholePage().detect(page)] == [Box(0, 0, 800, 1000)]


@pytest.mark.parametrize("field", ["duplicate_iou", "nested_share", "second_look"])
def test_config_is_checked(field: str) -> None:
    with pytest.raises(ConfigError, match=f"layout.{field}"):
        LayoutConfig(**{field: 0})


@pytest.mark.parametrize(("height", "score", "expected"), [(60, 0.6, "formula"), (60, 0.45, "text"), (20, 0.6, "text")])
def test_a_tall_block_that_may_be_a_formula_is_one(height: int, score: float, expected: str) -> None:
    boxes = [item((200, 100, 500, 100 + height)), item((201, 100, 501, 100 + height), "formula", score)]
    assert labels(merge_boxes(boxes, SIZE, CONFIG)) == [expected]


@pytest.mark.parametrize(("paper", "seen"), [("black", (255, 255, 255)), ((40, 60, 120), (215, 195, 135))])
def test_the_detector_sees_a_dark_page_inverted(paper: str | tuple[int, int, int], seen: tuple[int, int, int]) -> None:
    class Watcher(ScriptedDetector):
        def detect(self, image: Image.Image) -> list[LayoutBox]:
            assert image.getpixel((5, 5)) == seen
            return super().detect(image)

    image = Image.new("RGB", (800, 1000), paper)
    draw_lines(image, (100, 100, 700, 300), colour="white")
    before = image.tobytes()
    detector = Watcher([])
    (region,) = find_regions(image, detector, LayoutConfig())
    assert region.box.y1 < 330 and image.tobytes() == before and detector.n_calls == 1


def test_the_detector_sees_a_light_page_with_a_dark_picture_as_it_is() -> None:
    class Watcher(ScriptedDetector):
        def detect(self, image: Image.Image) -> list[LayoutBox]:
            assert image.getpixel((5, 5)) == (255, 255, 255)
            return super().detect(image)

    image = Image.new("RGB", (800, 1000), "white")
    draw_lines(image, (100, 100, 700, 300))
    image.paste((20, 20, 20), (100, 500, 700, 950))
    assert find_regions(image, Watcher([]), LayoutConfig())


# Order, outlines, and a detector that has resolved overlaps itself ------------------------------

SQUARE = ((100.0, 100.0), (300.0, 100.0), (300.0, 200.0), (100.0, 200.0))


class TrustedDetector(ScriptedDetector):
    trusted = True


def test_merged_boxes_keep_order_and_outline_of_what_they_keep() -> None:
    untouched = replace(item((100, 100, 300, 200)), order=4, polygon=SQUARE)
    assert merge_boxes([untouched], SIZE, CONFIG) == [untouched]
    clamped_one = replace(item((700, 20, 950, 60)), order=2, polygon=SQUARE)
    assert merge_boxes([clamped_one], SIZE, CONFIG) == [
        replace(clamped_one, box=Box(700, 20, 800, 60), polygon=()),
    ]
    first = replace(item((100, 100, 700, 200), score=0.5), order=1, polygon=SQUARE)
    second = replace(item((100, 150, 690, 500), score=0.8), order=3, polygon=SQUARE)
    (joined,) = merge_boxes([first, second], SIZE, CONFIG)
    assert (joined.box, joined.order, joined.polygon) == (Box(100, 100, 700, 500), 1, ())
    (half,) = merge_boxes([first, replace(second, order=None)], SIZE, CONFIG)
    assert half.order == 1


def test_a_trusted_detector_is_asked_once_and_its_overlaps_stay(two_paragraphs: Image.Image) -> None:
    given = [
        item((90, 90, 710, 310), "title"),  # too tall for a title of the other detector
        item((95, 95, 300, 305), "formula", 0.6),
        item((90, 590, 710, 810), "figure"),
        item((120, 620, 400, 700), "text", 0.6),
    ]
    given = [replace(region, order=place) for place, region in enumerate(given)]
    detector = TrustedDetector(given)
    regions = find_regions(two_paragraphs, detector, CONFIG)
    assert detector.n_calls == 1
    assert [(region.label, region.order) for region in regions] == [
        ("title", 0), ("formula", 1), ("figure", 2), ("text", 3),
    ]  # fmt: skip
    plain = find_regions(two_paragraphs, ScriptedDetector(given), CONFIG)
    assert labels(plain) != labels(regions)


def test_what_a_trusted_detector_misses_is_found_too(two_paragraphs: Image.Image) -> None:
    given = replace(item((90, 90, 710, 310)), order=0)
    regions = find_regions(two_paragraphs, TrustedDetector([given]), CONFIG)
    assert [(region.native_label, region.order) for region in regions] == [("text", 0), ("uncovered", None)]
    assert covers(regions[1].box, (100, 600, 700, 800), 20)
    assert find_regions(two_paragraphs, TrustedDetector([given]), LayoutConfig(find_uncovered=False)) == [given]
    assert find_regions(two_paragraphs, TrustedDetector([]), CONFIG)[0].native_label == "uncovered"
    beyond = item((math.nan, 0, 10, 10))
    assert len(find_regions(two_paragraphs, TrustedDetector([given, beyond]), CONFIG)) == 2


def test_growing_takes_the_outline_only_where_text_was_cut(two_paragraphs: Image.Image) -> None:
    outline = ((90.0, 90.0), (710.0, 90.0), (710.0, 310.0), (90.0, 310.0))
    around = replace(item((90.4, 90.4, 710.2, 310.2)), order=0, polygon=outline)
    cut = replace(item((95, 595, 690, 805)), order=1, polygon=outline)
    first, second = find_regions(two_paragraphs, TrustedDetector([around, cut]), CONFIG)
    assert first == around
    assert second.polygon == () and second.order == 1 and second.box.x1 >= 697


def test_text_beside_a_logo_is_not_given_to_it() -> None:
    page = Image.new("RGB", SIZE, "white")
    draw_lines(page, (100, 100, 300, 130))
    draw_lines(page, (306, 100, 600, 130))
    logo = item((98, 95, 303, 135), "logo")
    regions = find_regions(page, TrustedDetector([logo]), CONFIG)
    assert [region.label for region in regions] == ["logo", "text"]
    assert regions[0] == logo and covers(regions[1].box, (306, 100, 594, 114), 4)


def test_a_second_look_moves_outlines_and_gives_no_order(two_paragraphs: Image.Image) -> None:
    figure = replace(item((50, 50, 750, 850), "figure"), order=0)
    inner = replace(item((30, 30, 670, 270)), order=0, polygon=SQUARE)
    regions = find_regions(two_paragraphs, ScriptedDetector([figure], [inner]), CONFIG)
    looked = next(region for region in regions if region.native_label == "text")
    assert looked.order is None and looked.box == Box(80, 80, 720, 320)
    assert looked.polygon == tuple((x + 50, y + 50) for x, y in SQUARE)


def test_a_page_with_a_picture_alone_asks_no_recognizer(tmp_path: Path) -> None:
    page = Image.new("RGB", SIZE, "white")
    page.paste(Image.linear_gradient("L").resize((600, 500)).convert("RGB"), (100, 100))
    page.save(tmp_path / "picture.png")
    for detector in (ScriptedDetector([item((100, 100, 700, 600), "figure")]), TrustedDetector([]),
                     TrustedDetector([item((100, 100, 700, 600), "figure")])):  # fmt: skip
        recognizer = ScriptedRecognizer()
        document = convert(tmp_path / "picture.png", recognizer, detector)
        assert document.status == "ok" and recognizer.calls == []
