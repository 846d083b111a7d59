"""FinTabNet: tables are cut out of drawn pages where their boxes say; faulty samples are named."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image, ImageDraw
from tests.table_corpora import RAGGED, SPANS, SPANS_HTML, put, sample, write_lines

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, convert_source
from gravityocr.training.corpora.fintabnet import MARGIN_PT, FinTabNet
from gravityocr.training.corpora.region_shards import RegionFile

WIDTH, HEIGHT = 306, 396
BOX = (50, 100, 200, 180)  # of the black table, in points from the upper left corner


def write_page(file: Path, *, mediabox: tuple[float, float, float, float] | None = None, rotation: int = 0) -> None:
    """Write a page that is white but for the table."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    ImageDraw.Draw(image).rectangle((BOX[0], BOX[1], BOX[2] - 1, BOX[3] - 1), fill="black")
    file.parent.mkdir(parents=True, exist_ok=True)
    image.save(file, resolution=72)
    if mediabox or rotation:
        document = pdfium.PdfDocument(file)
        page = document[0]
        if mediabox:
            page.set_mediabox(*mediabox)
            page.set_cropbox(BOX[0], HEIGHT - BOX[3] + 20, BOX[2], HEIGHT - BOX[1])  # hides a part of the table
        page.set_rotation(rotation)
        put(file, save(document))


def save(document: pdfium.PdfDocument) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    document.close()
    return buffer.getvalue()


def table(filename: str = "A/2003/page_26.pdf", number: int = 1, **changes):
    box = [BOX[0], HEIGHT - BOX[3], BOX[2], HEIGHT - BOX[1]]
    return {**sample(filename, SPANS, n_head=0, table_id=number, bbox=box), **changes}


def convert(root: Path, out: Path, **settings):
    config = ConversionConfig(**settings)
    reports = list(convert_source(FinTabNet(config), root, out, config))
    return reports, [region for file in sorted(out.rglob("*.parquet")) for region in RegionFile(file)]


@pytest.mark.parametrize("mediabox", [None, (-20, -30, 300, 390), (10, 20, 306, 396)])
@pytest.mark.parametrize("dpi", [72, 144])
def test_a_table_is_cut_where_it_stands(tmp_path: Path, mediabox, dpi: int) -> None:
    write_page(tmp_path / "fintabnet" / "pdf" / "A" / "2003" / "page_26.pdf", mediabox=mediabox)
    write_lines(tmp_path / "fintabnet" / "FinTabNet_1.0.0_cell_train.jsonl", [table(number=77)])
    reports, (region,) = convert(tmp_path, tmp_path / "out", dpi=dpi)
    assert [(r.unit, r.n_regions) for r in reports] == [("train-0000", 1)]
    scale, margin = dpi / 72, MARGIN_PT * dpi / 72
    dark = np.asarray(region.picture().convert("L")) < 128
    ys, xs = np.nonzero(dark)
    assert dark.sum() == pytest.approx((BOX[2] - BOX[0]) * (BOX[3] - BOX[1]) * scale**2, rel=0.02)
    for gap in (ys.min(), xs.min(), dark.shape[0] - 1 - ys.max(), dark.shape[1] - 1 - xs.max()):
        assert gap == pytest.approx(margin, abs=1.5)
    left, upper = (mediabox[0], HEIGHT - mediabox[3]) if mediabox else (0, 0)
    assert region.bbox == pytest.approx([
        (BOX[0] - MARGIN_PT - left) * scale, (BOX[1] - MARGIN_PT - upper) * scale,
        (BOX[2] + MARGIN_PT - left) * scale, (BOX[3] + MARGIN_PT - upper) * scale,
    ], abs=1)  # fmt: skip
    assert region.target == SPANS_HTML
    assert (region.region_id, region.doc_id, region.page) == ("fintabnet/A_2003/26/77", "A_2003", 26)


def test_faulty_samples_are_named_and_counted(tmp_path: Path) -> None:
    write_page(tmp_path / "pdf" / "A" / "2003" / "page_26.pdf")
    write_page(tmp_path / "pdf" / "A" / "2003" / "page_27.pdf", rotation=90)
    put(tmp_path / "pdf" / "A" / "2003" / "page_28.pdf", b"%PDF-1.4 nothing")
    lines = [
        table("A/2003/page_27.pdf"), table("A/2003/page_28.pdf"), table("A/2003/page_29.pdf"), table("../x.pdf"),
        table(html=sample("", RAGGED)["html"]), table(bbox=[1, 2, 3]), table(bbox=[10, 500, 60, 600]), table(number=9),
    ]  # fmt: skip
    write_lines(tmp_path / "FinTabNet_1.0.0_cell_train.jsonl", lines)
    (report,), (region,) = convert(tmp_path, tmp_path / "out")
    assert region.region_id.endswith("/9")
    begins = (
        "a rotated page", "unreadable page", "missing file", "unreadable name", "ragged rows", "unreadable box",
        "a box outside the page",
    )  # fmt: skip
    for item, begin in zip(report.skipped, begins, strict=True):
        assert item.reason.startswith(begin)
        assert "page_" in item.where or "x.pdf" in item.where


def test_the_split_decides(tmp_path: Path) -> None:
    write_page(tmp_path / "pdf" / "A" / "2003" / "page_26.pdf")
    for number, split in enumerate(("train", "val", "test")):
        write_lines(tmp_path / f"FinTabNet_1.0.0_cell_{split}.jsonl", [table(number=number, split=split)])
    assert [r.region_id for r in convert(tmp_path, tmp_path / "train")[1]] == ["fintabnet/A_2003/26/0"]
    reports, regions = convert(tmp_path, tmp_path / "all", split="all")
    assert [r.unit for r in reports] == ["train-0000", "val-0000", "test-0000"] and len(regions) == 3
    (tmp_path / "all" / "fintabnet" / "val-0000.regions.parquet").unlink()
    again, same = convert(tmp_path, tmp_path / "all", split="all")
    assert [r.unit for r in again if r.status == "made"] == ["val-0000"] and same == regions


def test_another_folder_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must hold FinTabNet_1\.0\.0_cell_train\.jsonl and pdf/"):
        FinTabNet(ConversionConfig()).units(tmp_path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"filename": 5}, "unreadable filename"), ({"filename": "A/2003/page_99999999999.pdf"}, "unreadable name"),
        ({"filename": f"{'A' * 500}/2003/page_1.pdf"}, "missing file"),
        ({"filename": "A\0/2003/page_1.pdf"}, "missing file"),
        ({"filename": "A\ud800/2003/page_1.pdf"}, "missing file"),
        ({"bbox": [float("nan"), 1, 2, 3]}, "unreadable box"), ({"bbox": [1, 2, 3, 10**400]}, "unreadable box"),
        ({"bbox": [1, 2, 3, float("inf")]}, "unreadable box"), ({"bbox": {"a": 1}}, "unreadable box"),
        ({"table_id": [[1]]}, "unreadable table_id"), ({"table_id": "\ud800"}, "unstorable region"),
    ],
)  # fmt: skip
def test_odd_values_are_one_skipped_sample(tmp_path: Path, changes, reason: str) -> None:
    write_page(tmp_path / "pdf" / "A" / "2003" / "page_26.pdf")
    write_lines(tmp_path / "FinTabNet_1.0.0_cell_train.jsonl", [table(**changes), table(number=2)])
    (report,), regions = convert(tmp_path, tmp_path / "out")
    assert (report.status, len(regions), report.reasons) == ("made", 1, {reason: 1})
