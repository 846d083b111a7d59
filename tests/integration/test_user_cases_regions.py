"""Users' cases 11 to 13: boxes that are none, crops of impossible shapes, and what a picture costs in tokens."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from PIL import Image
from tests.factories import prompt_builder
from tests.unit.pipeline.scripted import ScriptedDetector
from tests.user_case_inputs import Script, bars_page, box, nano, picture, printed_page, printed_text, read, serving

from gravityocr.api import GravityOCR
from gravityocr.document import Box, Crop
from gravityocr.errors import InputError
from gravityocr.image_size import SizeRule, n_image_tokens
from gravityocr.model.prompt import ImageSpec, PromptBuilder
from gravityocr.pipeline.crops import cut_out
from gravityocr.pipeline.server.recognizer import ServerConfig, ServerRecognizer

NAN = math.nan
BAD = {
    "zero area": (100, 100, 100, 300),
    "inverted": (700, 800, 100, 600),
    "not a number": (NAN, 100, 300, 200),
    "off the page": (900, 100, 1200, 300),
    "infinitely far": (math.inf, 0, math.inf, 10),
}


@pytest.mark.parametrize("name", BAD)
def test_case_11_boxes_that_are_none(tmp_path: Path, name: str) -> None:
    """Such a box costs neither its text nor a neighbour's, and whoever cuts it is told why not."""
    page = bars_page((100, 100, 700, 300), (100, 600, 700, 800))
    page.save(tmp_path / "a.png")
    script = Script([[box(95, 595, 705, 805), box(*BAD[name])]], ["one", "two"])
    document = script.parse(tmp_path / "a.png")
    assert document.status == "ok" and document.markdown == "one\n\ntwo\n"
    regions = document.pages[0].regions
    assert all(0 <= one.box.x0 < one.box.x1 <= 800 and 0 <= one.box.y0 < one.box.y1 <= 1000 for one in regions)
    covered = [one.box for one in regions if one.status == "ok"]
    for ink in (Box(100, 100, 690, 290), Box(100, 600, 690, 790)):
        assert max(ink.inside(one) for one in covered) > 0.95
    with pytest.raises(InputError, match="no area on the page of 800 x 1000 px"):
        cut_out(page, Box(*BAD[name]))


def test_case_11_boxes_over_the_edge_are_clamped(tmp_path: Path) -> None:
    bars_page((300, 600, 796, 996)).save(tmp_path / "a.png")
    script = Script([[box(295, 595, 5000, math.inf)]], ["one"])
    document = script.parse(tmp_path / "a.png")
    (region,) = document.pages[0].regions
    assert (region.box.x1, region.box.y1, region.status) == (800, 1000, "ok")
    assert script.crops[0].image.size[0] <= 800 and document.markdown == "one\n"


def test_case_12_long_and_tiny_crops_leave_their_neighbours_alone(tmp_path: Path) -> None:
    """A hair line of 900 x 4 px and a dot between two lines of text, read in one call."""
    page = printed_page(0, 3, size=(1000, 400))
    page.paste(0, (40, 200, 940, 203))
    page.paste(0, (500, 300, 501, 301))
    page.save(tmp_path / "a.png")
    odd = [box(40, 199, 940, 203), box(500, 300, 501, 301)]
    detector = ScriptedDetector([box(40, 40, 760, 82), *odd, box(40, 109, 760, 152)])
    document, crops = read(tmp_path / "a.png", detector)
    assert len(crops) == 4 and all(min(crop.image.size) >= 28 for crop in crops)
    assert all(max(crop.image.size) <= 200 * min(crop.image.size) for crop in crops)
    by_top = {round(region.box.y0): region for region in document.pages[0].regions}
    assert [by_top[top].content for top in sorted(by_top)[:2]] == [printed_text(0), printed_text(3)]
    assert all(region.status == "ok" or region.error for region in document.pages[0].regions)


@pytest.mark.parametrize("odd", [(900, 4), (4, 900), (1, 1), (3000, 1), (0, 5)])
def test_case_12_a_batch_does_not_notice_an_odd_crop(odd: tuple[int, int]) -> None:
    """Crops that come without a page: read or skipped with a reason, token ids beside them as alone."""
    ocr = GravityOCR(nano(), ScriptedDetector([]))
    good = [Crop(printed_page(number, size=(800, 120))) for number in (1, 6)]
    alone = [ocr.recognize([crop])[0].ids for crop in good]
    first, middle, last = ocr.recognize([good[0], Crop(Image.new("RGB", odd, "white")), good[1]])
    assert [first.ids, last.ids] == alone and first.text == printed_text(1)
    assert middle.status == "ok" or (middle.status in ("skipped", "loop_cut") and middle.error)
    assert 0 not in odd or middle.status == "skipped"


SIDES = [1, 4, 27, 28, 29, 41, 42, 43, 112, 300, 777, 900, 1654, 2339, 4000, 9000]
STOCK = ImageSpec()


def test_case_13_client_and_processor_count_the_same() -> None:
    """What a client predicts for a size is what transformers' processor of GLM-OCR makes of it."""
    transformers = pytest.importorskip("transformers")
    processor = transformers.models.glm46v.Glm46VImageProcessorPil(
        patch_size=14, temporal_patch_size=2, merge_size=2,
        size={"shortest_edge": STOCK.min_pixels, "longest_edge": STOCK.max_pixels},
    )  # fmt: skip
    n_compared = 0
    for height in SIDES:
        for width in SIDES:
            if max(height, width) > 200 * min(height, width):
                continue  # the processor refuses these, and we pad them
            expected = processor.get_number_of_image_patches(height, width, {}) // 4
            assert n_image_tokens(height, width, STOCK) == expected, (height, width)
            n_compared += 1
    assert n_compared > 150


@pytest.mark.parametrize("size", [(1, 1), (900, 4), (4, 900), (1000, 1), (28, 28), (451, 97), (640, 45), (830, 1170)])
def test_case_13_client_and_server_count_the_same(size: tuple[int, int]) -> None:
    """For any shape: the client's number, and the image tokens of the picture that the server gets."""
    image = printed_page(size=size)
    own = prompt_builder()
    for rule, builder in ((own.spec, own), (STOCK, PromptBuilder(own.tokenizer, STOCK))):
        expected = int(builder.build(image).is_image.sum())
        assert n_image_tokens(size[1], size[0], SizeRule(**_rule(rule))) == expected > 0
        cut = cut_out(image, Box(0, 0, *size))
        assert cut.n_image_tokens(rule) == int(builder.build(cut.image).is_image.sum())
        with serving() as double, ServerRecognizer(double.url, ServerConfig(size=SizeRule(**_rule(rule)))) as client:
            assert client.recognize([Crop(image)])[0].status == "ok"
            sent = picture(double.requests[0])  # shrunk before it is sent, where it is too large
            assert client.n_image_tokens(Crop(image)) == int(builder.build(sent).is_image.sum())
            assert rule.exceeded_by(size[1], size[0]) or client.n_image_tokens(Crop(image)) == expected


def _rule(spec: SizeRule) -> dict[str, int]:
    return {name: getattr(spec, name) for name in SizeRule.__dataclass_fields__}
