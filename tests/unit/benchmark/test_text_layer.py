"""The pages of the text-layer benchmark hold their text, and its figures are counted by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pypdfium2 as pdfium
import pytest
from benchmarks import text_layer
from benchmarks.born_digital import BOOK_PT, FONTS, Column, Sheet, make_pages, make_sheet, text_width, write_pdf
from benchmarks.text_layer import Agreement, cut_pages, engines, read_page

from gravityocr.document import Box, Crop, PlacedText
from gravityocr.engine.engine import CropRun, Engine, EngineConfig
from gravityocr.model.pieces import Piece


def test_pages_differ_and_hold_their_text_within_their_margins() -> None:
    sheets = [make_sheet(number) for number in range(20)]
    assert len({tuple(line.text for line in sheet.lines) for sheet in sheets}) == 20
    assert sum(bool(sheet.rules) for sheet in sheets) == 5
    for line in (line for sheet in sheets for line in sheet.lines):
        stretched = text_width(line.text, line.font, line.size) + line.word_space * line.text.count(" ")
        assert line.x > 40 and line.x + stretched < BOOK_PT[0] - 40 and 40 < line.y < BOOK_PT[1]
    with pdfium.PdfDocument(make_pages(2)) as document:
        assert len(document) == 2
        text = document[1].get_textpage().get_text_range()
        assert text.split() == " ".join(line.text for line in sheets[1].lines).split()


@pytest.mark.parametrize("font", FONTS)
def test_lines_are_as_wide_as_pdfium_draws_them(font: str) -> None:
    column = Column(40, 600, 250, 500)
    column.paragraph("so “quoted” and ‘said’—far away – and twenty more words to fill these lines", font, 12)
    for line in column.lines[:-1]:
        width = text_width(line.text, line.font, line.size) + line.word_space * line.text.count(" ")
        assert width == pytest.approx(250)
    # ink of the whole page: no line reaches beyond the column
    with pdfium.PdfDocument(write_pdf([Sheet(tuple(column.lines), media_box=(0, 0, 400, 620))])) as document:
        ink = document[0].render(scale=2).to_pil().convert("L").point(lambda level: 255 * (level < 128)).getbbox()
    assert ink is not None and ink[0] >= 2 * 39 and 2 * 285 < ink[2] <= 2 * 291


class FakeEngine:
    """Answers with what it was given; decodes ids as characters."""

    def __init__(self, runs: list[CropRun]) -> None:
        self.runs = runs
        decode = lambda ids, skip_special_tokens: "".join(map(chr, ids))  # noqa: E731
        self.checkpoint = SimpleNamespace(tokenizer=SimpleNamespace(decode=decode))

    def run(self, crops: list[Crop]) -> list[CropRun]:
        return self.runs


def test_agreement_counts_pieces_with_a_reference() -> None:
    trace = [
        SimpleNamespace(source="reference", drafts=[1, 2, 3, 4], n_accepted=3),
        SimpleNamespace(source="diffusion", drafts=[1] * 9, n_accepted=0),
    ]
    sequences = [
        SimpleNamespace(ids=[ord(c) for c in text], trace=trace[: 2 - n]) for n, text in enumerate(("word", "warp"))
    ]
    pieces = [Piece(cast(Any, None), n, "", (0, 20 * n, 50, 20 * n + 20)) for n in range(3)]
    run = CropRun([*sequences, SimpleNamespace(ids=[65], trace=[])], list(pieces))  # type: ignore[list-item]
    words = (PlacedText("word", Box(0, 2, 40, 18)), PlacedText("word", Box(0, 22, 40, 38)))
    agreement = Agreement()
    agreement.add(cast(Engine, FakeEngine([run])), [Crop(cast(Any, None), "text", words)])
    report = agreement.report()
    assert report["by_task"] == {"text": {"n_pieces": 2, "string_equal": 0.5, "similarity": 0.75}}
    assert report["accepted"] == 6 / 8


def test_a_small_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    engine = Engine.from_pretrained("nano", EngineConfig(max_tokens=64))
    crops = [crop for crop in cut_pages(1, engine.tasks, "auto")[0] if len(crop.text_layer) < 8][:2]
    assert crops and all(crop.text_layer for crop in crops)
    one_by_one, together = (read_page(engines(engine)["text-layer"], crops, value) for value in (False, True))
    assert [answer.ids for answer in one_by_one.answers] == [answer.ids for answer in together.answers]
    monkeypatch.setattr(text_layer, "cut_pages", lambda *arguments: [crops])
    assert text_layer.main(["--pages", "1", "--repeats", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["modes"]) == set(text_layer.MODES) and "one after another" in report["boundary"]
    assert all(row["identical_to_ar"] == 1.0 for row in report["modes"].values())
    assert report["modes"]["text-layer"]["tpf"] > 2 and 0 < report["reference"]["accepted"] <= 1
    assert text_layer.main(["--pages", "1", "--repeats", "1", "--together"]) == 0
    assert "in one call" in capsys.readouterr().out
    assert text_layer.main(["--pages", "0"]) == 2
