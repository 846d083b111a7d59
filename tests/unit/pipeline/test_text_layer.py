"""The words of a PDF page lie on their ink, whatever its rotation, crop box and scale; none of them costs a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest
from benchmarks.born_digital import Line, Sheet, make_sheet, write_pdf
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer

from gravityocr.document import Box, PlacedText
from gravityocr.errors import InputError
from gravityocr.pipeline import source, text_layer
from gravityocr.pipeline.convert import PipelineConfig, convert
from gravityocr.pipeline.crops import CropConfig
from gravityocr.pipeline.layout import LayoutBox
from gravityocr.pipeline.source import SourceConfig, SourcePage, iter_pages
from gravityocr.pipeline.sources import pdf as source_pdf
from gravityocr.pipeline.sources.pdf import PdfFile
from gravityocr.pipeline.text_layer import page_text, words_in

WITH = SourceConfig(dpi=100, text_layer=True)
SHEET = Sheet((Line("Quick foxes jump", 90, 500), Line("over dogs.", 90, 470, "Helvetica-Bold", 20)))


def first(tmp_path: Path, data: bytes, config: SourceConfig = WITH) -> SourcePage:
    path = tmp_path / "page.pdf"
    path.write_bytes(data)
    return next(iter(iter_pages(path, config=config)))


def texts(page: SourcePage) -> list[str]:
    return [word.text for word in page.words]


def ink_outside(image: Image.Image, words: tuple[PlacedText, ...], room: int = 2) -> int:
    """Count dark pixels that no word's box holds."""
    dark = np.asarray(image.convert("L")) < 128
    for word in words:
        x0, y0, x1, y1 = word.box.pixels(image.size)
        dark[max(y0 - room, 0) : y1 + room, max(x0 - room, 0) : x1 + room] = False
    return int(dark.sum())


def slack(image: Image.Image, word: PlacedText, room: int = 2) -> int:
    """Return how far the ink in and about a box stays behind the farthest edge of the box."""
    x0, y0, x1, y1 = word.box.pixels(image.size)
    x0, y0 = max(x0 - room, 0), max(y0 - room, 0)
    dark = np.asarray(image.convert("L").crop((x0, y0, x1 + room, y1 + room))) < 160
    rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    assert rows.size, f"{word} has no ink"
    height, width = dark.shape
    return max(rows[0], height - 1 - rows[-1], columns[0], width - 1 - columns[-1])


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("crop_box", [None, (60, 410, 420, 560)])
def test_every_word_lies_on_its_ink(tmp_path: Path, rotate: int, crop_box: tuple[float, ...] | None) -> None:
    page = first(tmp_path, write_pdf([replace(SHEET, rotate=rotate, crop_box=crop_box)]))
    assert page.image is not None
    assert sorted(texts(page)) == ["Quick", "dogs.", "foxes", "jump", "over"]
    assert ink_outside(page.image, page.words) == 0
    assert max(slack(page.image, word) for word in page.words) <= 5


def test_a_page_that_is_scaled_down_and_one_off_the_origin(tmp_path: Path) -> None:
    sheet = replace(SHEET, media_box=(70.5, 400.25, 300, 560.75))
    page = first(tmp_path, write_pdf([sheet]), replace(WITH, dpi=300, max_page_px=60_000))
    assert page.image is not None and page.image.width * page.image.height <= 61_000
    assert texts(page) == ["Quick", "foxes", "jump", "over", "dogs."]
    assert ink_outside(page.image, page.words) == 0


def test_a_whole_page_in_its_order(tmp_path: Path) -> None:
    sheet = make_sheet(3)
    page = first(tmp_path, write_pdf([sheet]))
    assert texts(page) == " ".join(line.text for line in sheet.lines).split()
    assert page.image is not None and ink_outside(page.image, page.words) == 0


def test_a_hyphen_at_a_line_end_stays_with_its_line(tmp_path: Path) -> None:
    lines = (Line("a moral prin-", 90, 500), Line("ciple and well-known", 90, 487))
    page = first(tmp_path, write_pdf([Sheet(lines)]))
    assert texts(page) == ["a", "moral", "prin-", "ciple", "and", "well-known"]
    boxes = {word.text: word.box for word in page.words}
    assert boxes["prin-"].y1 < boxes["ciple"].y0 + 8 and boxes["prin-"].x0 > boxes["ciple"].x1


def test_what_is_far_apart_is_no_word_though_the_layer_has_no_blank_there(tmp_path: Path) -> None:
    data = write_pdf([Sheet((Line("50", 90, 500), Line("0", 90, 480)))])
    with pdfium.PdfDocument(data) as document:
        assert document[0].get_textpage().get_text_range() == "500"
    assert texts(first(tmp_path, data)) == ["50", "0"]


def test_ligatures_quotes_and_characters_without_unicode(tmp_path: Path) -> None:
    data = write_pdf([Sheet((Line("\x01nal o\x02er \x04\x04", 90, 500), Line("it’s a\x04b", 90, 470)))])
    encoding = b"/Encoding << /BaseEncoding /WinAnsiEncoding /Differences [1 /fi /ff /g17 /g99] >>"
    page = first(tmp_path, data.replace(b"/Encoding /WinAnsiEncoding", encoding))
    assert [text.replace("\ufb01", "fi").replace("\ufb00", "ff") for text in texts(page)] == [
        "final", "offer", "it’s", "ab",
    ]  # fmt: skip


def test_a_scan_and_a_page_that_nobody_asked_about_have_no_words(tmp_path: Path) -> None:
    Image.new("RGB", (200, 100), "white").save(tmp_path / "scan.pdf")
    assert next(iter(iter_pages(tmp_path / "scan.pdf", config=WITH))).words == ()
    assert first(tmp_path, write_pdf([SHEET]), SourceConfig(dpi=100)).words == ()


def test_what_is_off_the_page_or_as_large_as_it_is_left_out(tmp_path: Path) -> None:
    off = (Line("outside", -400, 500), Line("below", 90, -90), Line("W", 10, 100, size=900.0))
    assert texts(first(tmp_path, write_pdf([Sheet((*off, Line("inside", 90, 500)))]))) == ["inside"]


def test_a_hostile_layer_costs_its_words_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_pdf([SHEET])
    plain = first(tmp_path, data, replace(WITH, text_layer=False))
    monkeypatch.setattr(source, "PdfProcess", lambda *arguments: PdfFile(*arguments[:6]))  # what is patched is here
    monkeypatch.setattr(text_layer, "MAX_CHARS", 12)
    page = first(tmp_path, data)
    assert page.words == () and page.error is None and page.image is not None and plain.image is not None
    assert page.image.tobytes() == plain.image.tobytes()
    with pdfium.PdfDocument(data) as document, pytest.raises(InputError, match="without text layer"):
        page_text(document[0], (100, 100))
    for failure in (pdfium.PdfiumError("no"), MemoryError(), ValueError("no"), OverflowError("no")):

        def fails(*arguments: object, failure: Exception = failure) -> None:
            raise failure

        monkeypatch.setattr(source_pdf, "page_text", fails)
        page = first(tmp_path, data)
        assert (page.words, page.error) == ((), None) and page.image is not None


def test_words_in_takes_what_the_crop_shows() -> None:
    places = {"in": (110, 105), "cut": (180, 120), "left": (50, 105), "below": (110, 196), "above": (110, 90)}
    words = tuple(PlacedText(name, Box(x, y, x + 40, y + 10)) for name, (x, y) in places.items())
    found = words_in(words, Box(100, 100, 200, 200))
    assert found == (PlacedText("in", Box(10, 5, 50, 15)), PlacedText("cut", Box(80, 20, 120, 30)))
    assert words_in(words, Box(100, 100, 200, 112), (3, 40)) == (PlacedText("in", Box(13, 45, 53, 55)),)


def test_crops_get_their_words_in_their_own_pixels(tmp_path: Path) -> None:
    path = tmp_path / "page.pdf"
    path.write_bytes(write_pdf([SHEET]))
    image = first(tmp_path, write_pdf([SHEET])).image
    assert image is not None
    upper = Box(120, 455, 260, 480)  # both are so low that their crops are padded
    lower = Box(121, 503, 300, 520)
    detector = ScriptedDetector([LayoutBox(upper, "text", "text"), LayoutBox(lower, "text", "text")])
    outcomes = []
    for config in (SourceConfig(dpi=100), WITH):
        recognizer = ScriptedRecognizer()
        pipeline = PipelineConfig(source=config, crop=CropConfig(min_side_px=90))
        outcomes.append(convert(path, recognizer, detector, pipeline).markdown)
        crops = [crop for call in recognizer.calls for crop in call]
    assert outcomes[0] == outcomes[1]
    found = [[word.text for word in crop.text_layer] for crop in crops]
    assert found == [["Quick", "foxes", "jump"], ["over", "dogs."]]
    for crop in crops:
        assert ink_outside(crop.image, crop.text_layer) == 0
        assert all(slack(crop.image, word) <= 5 for word in crop.text_layer)
