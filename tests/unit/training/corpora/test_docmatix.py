"""Docmatix from Parquet files in its layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.training.corpora.page_fixtures import blank_page, encoded, taken, text_page

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit, convert_source
from gravityocr.training.corpora.docmatix import Docmatix

pa = pytest.importorskip("pyarrow")
NAMES = ("train-00000-of-01106-8ce5201aa40b0141.parquet", "train-00001-of-01106-97f9db5e7314e467.parquet")


def row(pages: list[bytes | None], key: str | None) -> dict[str, object]:
    images = [{"bytes": data, "path": None} for data in pages]
    texts = [{"user": "What is it?", "assistant": "A page.", "source": f"PDFA key: {key}"}] if key else []
    return {"images": images, "texts": texts}


def write(file: Path, rows: list[dict[str, object]], row_group_size: int = 2) -> None:
    import pyarrow.parquet as pq

    text, image = pa.string(), pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    talk = pa.list_(pa.struct([("user", text), ("assistant", text), ("source", text)]))
    schema = pa.schema([("images", pa.list_(image)), ("texts", talk)])
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file, row_group_size=row_group_size)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    two, one = encoded(text_page(2)), encoded(text_page(1), "JPEG")
    rows = [row([two, one], "244117"), row([b"broken", one], "88"), row([encoded(blank_page()), None], None)]
    write(tmp_path / "data" / NAMES[0], [*rows, row([one], "88")])
    write(tmp_path / "data" / NAMES[1], [row([one], "99")])
    write(tmp_path / "data" / "test-00000-of-00001.parquet", [row([one], "1")])
    write(tmp_path / "zero-shot-exp" / "test-00000-of-00001.parquet", [row([one], "2")])
    return tmp_path


def test_a_unit_is_a_file_of_the_split(root: Path) -> None:
    train = [unit.name for unit in Docmatix(ConversionConfig()).units(root)]
    assert train == [name.removesuffix(".parquet") for name in NAMES]
    every = [unit.name for unit in Docmatix(ConversionConfig(split="all")).units(root)]
    assert every == ["test-00000-of-00001", *train]
    with pytest.raises(InputError, match="data/train-00000-of-01106"):
        Docmatix(ConversionConfig()).units(root / "zero-shot-exp")


def test_pages_become_regions_named_by_their_pdf(root: Path) -> None:
    converter = Docmatix(ConversionConfig())
    regions, skipped = taken(converter, converter.units(root)[0])
    places = [(region.doc_id, region.page) for region in regions]
    again = f"88-{NAMES[0].removesuffix('.parquet')}-3"
    assert places == [("244117", 0), ("244117", 0), ("244117", 1), ("88", 1), (again, 0)]
    assert len({region.region_id for region in regions}) == 5
    assert {region.target_origin for region in regions} == {"pending"}
    assert [item.reason.split(":")[0] for item in skipped] == ["unreadable page", "blank page", "page without bytes"]
    assert skipped[0].where == "docmatix/88/0"
    assert skipped[1].where == f"docmatix/{NAMES[0].removesuffix('.parquet')}-2/0"
    assert skipped[2] == Skipped(f"{NAMES[0]}, row 2, image 1", "page without bytes")


def test_conversion_goes_on_unit_by_unit(root: Path, tmp_path: Path) -> None:
    config = ConversionConfig(layout="none")
    broken = root / "data" / NAMES[1]
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    reports = [*convert_source(Docmatix(config), root, tmp_path / "out", config)]
    assert [report.status for report in reports] == ["made", "failed"]
    assert "download it again" in (reports[1].error or "")
    broken.write_bytes(whole)
    reports = [*convert_source(Docmatix(config), root, tmp_path / "out", config)]
    assert [report.status for report in reports] == ["kept", "made"]
    assert reports[1].n_regions == 1 and reports[1].origins == {"pending": 1}


def test_a_file_of_another_configuration_is_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"pdf": [b"%PDF-"]}), tmp_path / "data" / "train-0.parquet")
    converter = Docmatix(ConversionConfig(layout="none"))
    with pytest.raises(InputError, match="configuration 'images'"):
        taken(converter, converter.units(tmp_path)[0])


def test_values_of_other_kinds_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"images": ["x"], "texts": "ab"}, {"images": 7, "texts": [5]}, {"images": [{"bytes": "text"}], "texts": 1}]
    monkeypatch.setattr("gravityocr.training.corpora.docmatix._rows", lambda file: iter(rows))
    regions, skipped = taken(Docmatix(ConversionConfig(layout="none")), Unit("train", (tmp_path / "train.parquet",)))
    assert regions == [] and [item.reason for item in skipped] == ["page without bytes"] * 3
