"""Whole pages: every stage is in the seconds, ids of all regions are compared, bad files are listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.benchmark.readers import answer
from tests.unit.benchmark.test_load import AnyWidth, TwoColumns, page_file

from gravityocr.benchmark.pages import Parts, bench_page, find_pages, read_page
from gravityocr.errors import InputError


def test_a_page_has_all_stages(tmp_path: Path) -> None:
    reader = AnyWidth({0: answer([1, 2, 3])})
    document, reading = read_page(reader, page_file(tmp_path), Parts(TwoColumns()))
    assert document.n_regions == 2 and len(reading.answers) == 2
    assert set(reading.stages) == {"render", "layout", "recognize", "other"}
    assert sum(reading.stages.values()) == pytest.approx(reading.seconds)


def test_modes_side_by_side_and_a_bad_file_listed(tmp_path: Path) -> None:
    page = page_file(tmp_path)
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnot one")
    modes = {
        "ar": AnyWidth({0: answer([1, 2, 3])}),
        "same": AnyWidth({0: answer([1, 2, 3], forwards=1, rounds=1, accepted=1)}),
        "other": AnyWidth({0: answer([1, 2, 4], text="b")}),
    }
    ticks: list[int] = []
    report = bench_page(modes, find_pages(tmp_path), 2, Parts(TwoColumns()), ticks.append)
    assert ticks == [0, 1] and report["bench"] == "page" and report["n_pages"] == 1
    assert [Path(one["file"]).name for one in report["failed"]] == ["broken.png"]
    rows = report["modes"]
    assert {name: row["identical_to_ar"] for name, row in rows.items()} == {"ar": 1.0, "same": 1.0, "other": 0.0}
    assert rows["same"]["tpf"] == 2.0 and rows["same"]["n_tokens"] == 6  # the first token of each region counts
    for row in rows.values():
        assert row["pages_per_s"] == pytest.approx(1 / row["s_per_page"]) and row["recognize_pages_per_s"] > 0
    (one,) = report["pages"]
    assert one["file"] == str(page) and set(one["s_per_page"]) == set(modes)


def test_nothing_read_is_a_report_too(tmp_path: Path) -> None:
    report = bench_page({"ar": AnyWidth({})}, [tmp_path / "gone.png"], 1, Parts(TwoColumns()))
    assert report["modes"] == {} and report["pages"] == [] and len(report["failed"]) == 1


def test_files_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no document"):
        find_pages(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        find_pages(tmp_path / "none")
    page = page_file(tmp_path)
    assert find_pages(tmp_path) == find_pages(page) == [page] and find_pages(tmp_path, 1) == [page]
