"""DocLayNet from COCO files and pages in its layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from tests.page_corpora import HASHES, coco, coco_image
from tests.unit.training.corpora.page_fixtures import draw_paragraph, encoded, taken, text_page

from gravityocr.document import Box
from gravityocr.errors import InputError
from gravityocr.pipeline.crops import cut
from gravityocr.pipeline.source import SourceConfig, iter_pages
from gravityocr.training.corpora import doclaynet
from gravityocr.training.corpora.conversion import ConversionConfig, convert_source
from gravityocr.training.corpora.doclaynet import DocLayNet, coco_images


@pytest.fixture
def root(tmp_path: Path) -> Path:
    page = encoded(text_page(1).resize((1025, 1025)))
    (tmp_path / "PNG").mkdir()
    for number, data in enumerate((page, page, page[:500])):
        (tmp_path / "PNG" / f"{HASHES[number]}.png").write_bytes(data)
    images = [coco_image(number) for number in range(4)]
    images += [coco_image(0, precedence=1), coco_image(1, file_name="../x.png")]
    (tmp_path / "COCO").mkdir()
    for name, listed in {"train": images, "val": images[:1], "test": images[:1]}.items():
        (tmp_path / "COCO" / f"{name}.json").write_text(coco(listed), encoding="utf-8")
    return tmp_path


def test_units_are_slices_of_the_lists_but_never_of_the_test(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doclaynet, "UNIT_PAGES", 4)
    names = [unit.name for unit in DocLayNet(ConversionConfig(split="all")).units(root)]
    assert names == ["train-00000", "train-00001", "val-00000"]
    converter = DocLayNet(ConversionConfig(layout="none"))
    first, second = converter.units(root)
    assert len(taken(converter, first)[0]) == 2
    regions, skipped = taken(converter, second)
    assert regions == [] and [item.where for item in skipped] == ["train.json, image 4", "train.json, image 5"]
    with pytest.raises(InputError, match="COCO/train.json"):
        converter.units(root / "COCO")


def test_pages_become_regions_named_by_their_document(root: Path) -> None:
    converter = DocLayNet(ConversionConfig())
    regions, skipped = taken(converter, converter.units(root)[0])
    assert [(region.doc_id, region.page) for region in regions] == [
        ("NASDAQ_FFIN_2000.pdf", 9), ("NASDAQ_FFIN_2000.pdf", 10),
    ]  # fmt: skip
    assert regions[0].region_id == f"doclaynet/NASDAQ_FFIN_2000.pdf/{HASHES[0]}/0"
    assert regions[0].target_origin == "pending"
    kinds = [item.reason.split(":")[0] for item in skipped]
    assert kinds == ["unreadable page", "missing file", "annotated again", "no name of a page"]


def test_pages_are_drawn_from_their_pdf_where_it_is_there(root: Path, tmp_path: Path) -> None:
    (root / "PDF").mkdir()
    letter = Image.new("RGB", (1275, 1650), "white")
    draw_paragraph(letter, 150, 200, 9)
    letter.save(root / "PDF" / f"{HASHES[0]}.pdf", resolution=150)
    (root / "PDF" / f"{HASHES[1]}.pdf").write_bytes(b"%PDF-1.4 broken")
    config = ConversionConfig(dpi=100)
    converter = DocLayNet(config)
    (unit,) = converter.units(root)
    assert unit.part == "PDF 0"
    (region,), skipped = taken(converter, unit)
    assert [item.reason.split(":")[0] for item in skipped[:3]] == ["unreadable page", "missing file", "missing file"]
    (page,) = iter_pages(root / "PDF" / f"{HASHES[0]}.pdf", config=SourceConfig(dpi=100))
    assert page.image.size == (850, 1100)
    assert region.picture().convert("RGB").tobytes() == cut(page.image, Box(*region.bbox)).tobytes()


@pytest.mark.parametrize("chunk", [101, 400, 1 << 20])
@pytest.mark.parametrize("images_last", [False, True])
def test_images_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, images_last: bool
) -> None:
    monkeypatch.setattr(doclaynet, "_CHUNK_CHARS", chunk)
    images = [coco_image(number, doc_name='odd ],{ "name"') for number in range(30)]
    file = tmp_path / "train.json"
    file.write_text(coco(images, images_last=images_last), encoding="utf-8")
    assert [*coco_images(file)] == images


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (coco([coco_image(0), coco_image(1)])[:500], "breaks off"),
        ('{"images": [{"id": 1}, ' + "[" * 100_000, "breaks off"),
        ('{"images": [{"id": 1} x]}', "breaks off"),
        ('{"annotations": []}', "no list 'images'"),
        ("", "no list 'images'"),
    ],
)
def test_broken_lists_are_named(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "train.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"train.json.*{word}"):
        [*coco_images(file)]


def test_a_broken_list_fails_alone_and_an_odd_record_is_skipped(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = '{"a": "]", "b": ' + "[" * 100_000 + "]" * 100_000 + "}"
    odd = ["7", deep, '{"file_name": "\\ud800.png"}', '{"page_no": ' + "9" * 5000 + "}", '{"file_name": [1]}']
    (root / "COCO" / "val.json").write_text(f'{{"images": [{", ".join(odd)}]}}', encoding="utf-8")
    monkeypatch.setattr(doclaynet, "_CHUNK_CHARS", 30_000)  # the deep record comes in pieces
    listed = (root / "COCO" / "train.json").read_bytes()
    (root / "COCO" / "train.json").write_bytes(listed[:900])
    config = ConversionConfig(split="all")
    train, val = convert_source(DocLayNet(config), root, tmp_path / "out", config)
    assert (train.status, val.status) == ("failed", "made") and "train.json breaks off" in str(train.error)
    assert [item.where for item in val.skipped] == [f"val.json, image {n}" for n in range(5)]
    assert val.reasons == {"no record of an image": 2, "no name of a page": 2, "missing file": 1}


def test_names_that_are_no_utf_8_and_pages_beyond_counting_are_skipped(root: Path, tmp_path: Path) -> None:
    images = [coco_image(0, doc_name="NAME"), coco_image(1, page_no=10**15)]
    text = coco(images).encode().replace(b"NAME", b"\xff")
    (root / "COCO" / "train.json").write_bytes(text)
    config = ConversionConfig(layout="none")
    (report,) = convert_source(DocLayNet(config), root, tmp_path / "out", config)
    assert report.status == "made" and report.n_regions == 0
    assert report.reasons == {"unstorable region": 2}
