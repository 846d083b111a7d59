"""One file to one document: one recognizer call a page, and whatever fails becomes a status."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer, draw_lines

from gravityocr.document import Box, Crop, Document, Label, Page, Recognition
from gravityocr.errors import InputError
from gravityocr.pipeline import convert as convert_module
from gravityocr.pipeline.convert import PipelineConfig, convert, convert_pages
from gravityocr.pipeline.layout import LayoutBox
from gravityocr.pipeline.source import PageRanges
from gravityocr.pipeline.stages import RunConfig


def item(box: tuple[float, float, float, float], label: Label = "text") -> LayoutBox:
    return LayoutBox(Box(*box), label, label, 0.9)


PARAGRAPHS = [item((95, 95, 705, 305)), item((95, 595, 705, 805))]


@pytest.fixture
def page_file(tmp_path: Path, two_paragraphs: Image.Image) -> Path:
    two_paragraphs.save(tmp_path / "page.png")
    return tmp_path / "page.png"


@pytest.fixture
def pdf_file(tmp_path: Path, two_paragraphs: Image.Image) -> Path:
    two_paragraphs.save(tmp_path / "three.pdf", save_all=True, append_images=[two_paragraphs] * 2)
    return tmp_path / "three.pdf"


def test_all_regions_of_a_page_go_in_one_call_in_reading_order(page_file: Path) -> None:
    recognizer = ScriptedRecognizer(lambda k, crop: Recognition(f"paragraph {k}", n_tokens=5, n_forwards=4))
    document = convert(page_file, recognizer, ScriptedDetector(PARAGRAPHS[::-1]))
    assert [len(call) for call in recognizer.calls] == [2]
    assert document.status == "ok" and document.error is None
    assert document.source == str(page_file)
    (page,) = document.pages
    assert page.size_px == (800, 1000)
    assert [region.content for region in page.regions] == ["paragraph 0", "paragraph 1"]
    assert [region.index for region in page.regions] == [0, 1]
    assert page.regions[0].box.y0 < page.regions[1].box.y0
    assert (page.regions[0].n_tokens, page.regions[0].n_forwards) == (5, 4)
    assert set(page.seconds) == {"render", "layout", "recognize"}
    assert document.markdown == "paragraph 0\n\nparagraph 1\n"


def test_a_blank_page_is_empty_and_asks_no_model(tmp_path: Path) -> None:
    Image.new("RGB", (800, 1000), "white").save(tmp_path / "blank.png")
    recognizer, detector = ScriptedRecognizer(), ScriptedDetector(PARAGRAPHS)
    document = convert(tmp_path / "blank.png", recognizer, detector)
    assert document.status == "ok"
    assert document.pages[0].regions == () and document.markdown == ""
    assert recognizer.calls == [] and detector.n_calls == 0


def test_unclaimed_tasks_are_skipped_and_shown(page_file: Path) -> None:
    boxes = [PARAGRAPHS[0], item((95, 595, 705, 805), "table")]
    saved: dict[str, Image.Image] = {}
    recognizer = ScriptedRecognizer()
    document = convert(page_file, recognizer, ScriptedDetector(boxes), save_image=saved.__setitem__)
    table = document.pages[0].regions[1]
    assert table.status == "skipped"
    assert table.error == "the checkpoint does not read tables (tasks: text)"
    assert [crop.task for crop in recognizer.calls[0]] == ["text"]
    assert list(saved) == ["page0001_region001.png"]
    assert saved["page0001_region001.png"].size[0] >= 610
    assert document.markdown == "text 0\n\n![table](images/page0001_region001.png)\n"
    assert document.status == "ok"
    assert document.status_counts() == {"ok": 1, "skipped": 1}


def test_claimed_tasks_are_read_with_their_own_prompt(page_file: Path) -> None:
    boxes = [item((95, 95, 705, 305), "formula"), item((95, 595, 705, 805), "table")]
    recognizer = ScriptedRecognizer(
        lambda k, crop: Recognition({"formula": "x^2", "table": "<table><tr></tr></table>"}[crop.task]),
        tasks=frozenset({"text", "table", "formula"}),
    )
    document = convert(page_file, recognizer, ScriptedDetector(boxes))
    assert document.markdown == "$$\nx^2\n$$\n\n<table><tr></tr></table>\n"


def test_figures_are_kept_as_pictures_and_never_read(page_file: Path) -> None:
    boxes = [PARAGRAPHS[0], item((95, 595, 385, 805), "figure"), item((390, 595, 705, 805))]
    saved: dict[str, Image.Image] = {}
    recognizer = ScriptedRecognizer()
    document = convert(page_file, recognizer, ScriptedDetector(boxes), save_image=saved.__setitem__)
    assert len(recognizer.calls[0]) == 2
    figure = next(region for region in document.pages[0].regions if region.label == "figure")
    assert (figure.status, figure.task, figure.image) == ("ok", None, "page0001_region001.png")
    assert saved[str(figure.image)].size == (290, 210)


def test_a_failed_region_makes_the_page_and_document_partial(page_file: Path) -> None:
    def answer(index: int, crop: Crop) -> Recognition:
        return Recognition("", "failed", "no slots") if index else Recognition("fine")

    saved: dict[str, Image.Image] = {}
    document = convert(
        page_file, ScriptedRecognizer(answer), ScriptedDetector(PARAGRAPHS), save_image=saved.__setitem__
    )
    assert document.status == "partial" and document.pages[0].status == "partial"
    assert document.error == f"{page_file}: page 1: 1 of 2 regions failed"
    assert document.markdown == (
        "fine\n\n<!-- region 1 failed: no slots -->\n\n![text](images/page0001_region001.png)\n"
    )


def test_a_recognizer_that_raises_costs_one_page_only(pdf_file: Path) -> None:
    class FailsOnSecond(ScriptedRecognizer):
        def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
            answers = super().recognize(crops)
            if len(self.calls) == 2:
                raise RuntimeError("out of memory")
            return answers

    document = convert(pdf_file, FailsOnSecond(), ScriptedDetector([]))
    assert [page.status for page in document.pages] == ["ok", "failed", "ok"]
    assert document.status == "partial"
    bad = document.pages[1]
    assert bad.error == "page 2: RuntimeError: out of memory"
    assert bad.regions and all(region.status == "failed" for region in bad.regions)
    assert "<!-- page 2 failed: RuntimeError: out of memory -->" in document.markdown


def test_a_wrong_number_of_answers_is_an_error(page_file: Path) -> None:
    class Forgetful(ScriptedRecognizer):
        def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
            return super().recognize(crops)[:-1]

    document = convert(page_file, Forgetful(), ScriptedDetector(PARAGRAPHS))
    assert document.status == "failed"
    assert "answered 1 of 2 crops" in str(document.error)


def test_files_that_cannot_be_opened_become_failed_documents(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    for name in ("broken.pdf", "missing.png"):
        document = convert(tmp_path / name, ScriptedRecognizer(), ScriptedDetector([]))
        assert document.status == "failed" and document.pages == ()
        assert name in str(document.error)


def test_an_undecodable_page_is_failed_and_named(tmp_path: Path, two_paragraphs: Image.Image) -> None:
    path = tmp_path / "cut.png"
    two_paragraphs.save(path)
    path.write_bytes(path.read_bytes()[:400])
    document = convert(path, ScriptedRecognizer(), ScriptedDetector([]))
    assert document.status == "failed"
    assert document.pages[0].size_px == (0, 0)
    assert "page 1 cannot be decoded" in str(document.error)


def test_pages_stream_one_by_one_and_images_do_not_pile_up(pdf_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    real = convert_module.iter_pages

    def spy(*arguments: object, **more: object) -> object:
        for page in real(*arguments, **more):  # type: ignore[arg-type]
            events.append(f"render {page.index}")
            yield page

    monkeypatch.setattr(convert_module, "iter_pages", spy)

    def on_page(page: Page) -> None:
        events.append(f"done {page.index}")

    one_by_one = PipelineConfig(run=RunConfig(n_ahead=0))
    document = convert(pdf_file, ScriptedRecognizer(), ScriptedDetector([]), one_by_one, on_page=on_page)
    assert events == ["render 0", "done 0", "render 1", "done 1", "render 2", "done 2"]
    assert not any(isinstance(value, Image.Image) for page in document.pages for value in vars(page).values())


def test_chosen_pages_only(pdf_file: Path) -> None:
    pages = convert_pages(pdf_file, ScriptedRecognizer(), ScriptedDetector([]), pages=PageRanges.parse("2-3"))
    assert [page.index for page in pages] == [1, 2]
    document = convert(pdf_file, ScriptedRecognizer(), ScriptedDetector([]), pages=PageRanges.parse("7"))
    assert document.status == "failed" and "has 3 pages" in str(document.error)


def test_boxes_stay_inside_rotated_pdf_pages(tmp_path: Path) -> None:
    picture = Image.new("RGB", (400, 800), "white")
    draw_lines(picture, (50, 50, 350, 200))
    picture.save(tmp_path / "upright.pdf", resolution=100)
    document = pdfium.PdfDocument(tmp_path / "upright.pdf")
    document[0].set_rotation(90)
    document.save(str(tmp_path / "rotated.pdf"))
    document.close()
    page = convert(tmp_path / "rotated.pdf", ScriptedRecognizer(), ScriptedDetector([])).pages[0]
    assert page.size_px[0] == pytest.approx(2 * page.size_px[1], abs=2)
    (region,) = page.regions
    assert region.box.clamp(page.size_px) == region.box
    assert region.box.x0 > page.size_px[0] / 2  # the top of the stored page is at the right now


def test_whatever_a_file_raises_becomes_its_error(page_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = convert_module.iter_pages

    def breaks_off(*arguments: object, **more: object) -> object:
        yield from real(*arguments, **more)  # type: ignore[arg-type]
        raise KeyError("tag")

    monkeypatch.setattr(convert_module, "iter_pages", breaks_off)
    document = convert(page_file, ScriptedRecognizer(), ScriptedDetector(PARAGRAPHS))
    assert document.status == "partial" and len(document.pages) == 1
    assert document.error == f"{page_file}: cannot be read (KeyError: 'tag'); hand an intact copy"


def test_what_a_callback_raises_is_not_the_documents_error(page_file: Path) -> None:
    def stop(page: Page) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(page_file, ScriptedRecognizer(), ScriptedDetector(PARAGRAPHS), on_page=stop)


def test_a_picture_that_cannot_be_written_does_not_cost_the_page_its_text(page_file: Path) -> None:
    def full(name: str, image: Image.Image) -> None:
        raise InputError(f"{name}: cannot be written (No space left on device)")

    boxes = [PARAGRAPHS[0], item((95, 595, 385, 805), "figure"), item((390, 595, 705, 805))]
    document = convert(page_file, ScriptedRecognizer(), ScriptedDetector(boxes), save_image=full)
    assert document.status == "partial" and document.pages[0].regions[0].content == "text 0"
    figure = next(region for region in document.pages[0].regions if region.label == "figure")
    assert (figure.status, figure.image) == ("failed", None) and "No space left" in str(figure.error)


def test_pages_beyond_the_document_are_noted(pdf_file: Path) -> None:
    def parse(pages: str) -> Document:
        return convert(pdf_file, ScriptedRecognizer(), ScriptedDetector([]), pages=PageRanges.parse(pages))

    document = parse("2-5,9")
    assert (document.status, len(document.pages)) == ("ok", 2)
    assert document.error is None and document.notes == ("has 3 pages, so --pages 4-5, 9 gave nothing",)
    assert parse("2-").notes == ()
    assert "choose from 1-3" in str(parse("4-").error)
