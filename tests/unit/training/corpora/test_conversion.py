"""The driver: a shard a unit, restarts, failures that stop no other unit, counts of all that was skipped."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.table_corpora import picture, sample, write_pubtabnet

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.conversion import (
    ConversionConfig,
    Skipped,
    Unit,
    convert_source,
    read_report,
)
from gravityocr.training.corpora.pubtabnet import PubTabNet
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile


@dataclass
class Lines:
    """Reads a folder of text files: `skip` in a line skips it, `fail` breaks the file, `bug` is a fault of ours."""

    name: str = "lines"
    made: list[str] = field(default_factory=list)

    def units(self, root: Path) -> list[Unit]:
        return [Unit(file.stem, (file,)) for file in sorted(root.glob("*.txt"))]

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        self.made.append(unit.name)
        for number, line in enumerate(unit.files[0].read_text().split()):
            if line == "skip":
                yield Skipped(f"{unit.name}, line {number}", f"unwanted: {number}")
            elif line == "fail":
                raise InputError("this file is broken; get it again")
            elif line == "bug":
                raise ZeroDivisionError
            else:
                yield LabelledRegion(
                    f"lines/{unit.name}/0/{number}", picture(), 40, 24, "text", line, "lines", unit.name
                )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    for name, text in {"a": "one two skip three", "b": "four", "c": "skip five skip"}.items():
        (root / f"{name}.txt").write_text(text)
    return root


def convert(root: Path, out: Path, **settings):
    converter = Lines()
    return converter, list(convert_source(converter, root, out, ConversionConfig(**settings)))


def targets(out: Path) -> list[str]:
    return [region.target for file in sorted(out.glob("lines/*.parquet")) for region in RegionFile(file)]


def test_every_unit_becomes_a_shard_with_a_report(root: Path, tmp_path: Path) -> None:
    _, reports = convert(root, tmp_path / "out")
    assert [(r.unit, r.status, r.n_regions, r.n_skipped) for r in reports] == [
        ("a", "made", 3, 1), ("b", "made", 1, 0), ("c", "made", 1, 2),
    ]  # fmt: skip
    assert reports[2].reasons == {"unwanted": 2}
    assert reports[2].skipped == (Skipped("c, line 0", "unwanted: 0"), Skipped("c, line 2", "unwanted: 2"))
    assert (reports[0].tasks, reports[0].origins) == ({"text": 3}, {"annotation": 3})
    assert targets(tmp_path / "out") == ["one", "two", "three", "four", "five"]
    for report in reports:
        assert read_report(tmp_path / "out" / "lines" / f"{report.unit}.report.json") == report
    assert not [*(tmp_path / "out").rglob("*.part")]


def test_only_what_is_missing_is_made_again(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(root, out)
    (out / "lines" / "b.regions.parquet").unlink()
    converter, reports = convert(root, out)
    assert converter.made == ["b"]
    assert [(r.unit, r.status, r.n_regions) for r in reports] == [("a", "kept", 3), ("c", "kept", 1), ("b", "made", 1)]
    (out / "lines" / "c.report.json").unlink()
    assert convert(root, out)[0].made == ["c"]
    assert len(targets(out)) == 5


def test_a_unit_whose_files_grew_is_made_again(root: Path, tmp_path: Path) -> None:
    convert(root, tmp_path / "out")
    (root / "b.txt").write_text("four and more")
    assert convert(root, tmp_path / "out")[0].made == ["b"]
    assert len(targets(tmp_path / "out")) == 7


def test_a_failing_unit_is_named_and_the_others_go_on(root: Path, tmp_path: Path) -> None:
    (root / "b.txt").write_text("four fail")
    out = tmp_path / "out"
    _, reports = convert(root, out)
    assert [(r.unit, r.status, r.n_regions) for r in reports] == [
        ("a", "made", 3),
        ("b", "failed", 0),
        ("c", "made", 1),
    ]
    assert reports[1].error == "this file is broken; get it again" and reports[1].tasks == {}
    assert {file.name for file in (out / "lines").iterdir()} == {
        "a.regions.parquet", "a.report.json", "b.report.json", "c.regions.parquet", "c.report.json",
    }  # fmt: skip
    (root / "b.txt").write_text("four good")
    converter, _ = convert(root, out)
    assert converter.made == ["b"] and len(targets(out)) == 6


def test_a_unit_that_fails_anew_leaves_no_old_shard(root: Path, tmp_path: Path) -> None:
    convert(root, tmp_path / "out")
    (root / "b.txt").write_text("four fail")
    assert convert(root, tmp_path / "out")[1][-1].status == "failed"
    assert not (tmp_path / "out" / "lines" / "b.regions.parquet").exists()


def test_a_fault_of_the_program_is_no_fault_of_the_data(root: Path, tmp_path: Path) -> None:
    (root / "b.txt").write_text("four bug")
    with pytest.raises(ZeroDivisionError):
        convert(root, tmp_path / "out")
    assert not (tmp_path / "out" / "lines" / "b.regions.parquet").exists()


def test_a_limit_ends_a_unit(root: Path, tmp_path: Path) -> None:
    _, reports = convert(root, tmp_path / "out", limit=2)
    assert [r.n_regions for r in reports] == [2, 1, 1]
    assert targets(tmp_path / "out") == ["one", "two", "four", "five"]


def test_other_settings_need_another_folder(root: Path, tmp_path: Path) -> None:
    convert(root, tmp_path / "out", limit=2)
    with pytest.raises(InputError, match="limit 2.* not .*limit None"):
        convert(root, tmp_path / "out")
    assert convert(root, tmp_path / "out", limit=2)[0].made == []


def test_names_of_units_must_differ_and_be_plain(root: Path, tmp_path: Path) -> None:
    (root / "a.b c.txt").write_text("six")
    with pytest.raises(InputError, match="no name of a unit"):
        convert(root, tmp_path / "out")

    class Twice(Lines):
        def units(self, root: Path) -> list[Unit]:
            return [Unit("same", (root / "a.txt",)), Unit("same", (root / "c.txt",))]

    with pytest.raises(InputError, match="both become same"):
        list(convert_source(Twice(), root, tmp_path / "out", ConversionConfig()))


def test_broken_reports_and_wrong_settings_are_told(root: Path, tmp_path: Path) -> None:
    convert(root, tmp_path / "out")
    note = tmp_path / "out" / "lines" / "a.report.json"
    for text in ("{", "[]", json.dumps({"source": "lines"})):
        note.write_text(text)
        with pytest.raises(InputError, match=r"a\.report\.json.* delete it"):
            convert(root, tmp_path / "out")
    for settings in ({"split": "val"}, {"limit": 0}, {"processes": 0}, {"dpi": 1}, {"table_head": "tr"}):
        with pytest.raises(ConfigError):
            ConversionConfig(**settings)
    with pytest.raises(ConfigError, match="cannot be written"):
        convert(root, root / "a.txt")


def test_processes_make_the_same_shards(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("gravityocr.training.corpora.published_files.SLICE_BYTES", 2000)
    write_pubtabnet(tmp_path / "source", [sample(f"PMC{number}_000_00.png") for number in range(4)])
    found = []
    for processes in (1, 2):
        config = ConversionConfig(processes=processes)
        reports = list(convert_source(PubTabNet(config), tmp_path / "source", tmp_path / str(processes), config))
        assert len(reports) > 1 and sum(report.n_regions for report in reports) == 4
        files = sorted((tmp_path / str(processes)).rglob("*.parquet"))
        found.append([region for file in files for region in RegionFile(file)])
    assert found[0] == found[1]


@dataclass
class Dying(Lines):
    """A converter whose process the system kills at one of its units."""

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        if unit.name == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super().regions(unit)


def test_a_killed_process_is_told_and_the_next_run_goes_on(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    reports = list(convert_source(Dying(), root, out, ConversionConfig(processes=2)))
    by_unit = {report.unit: report for report in reports}
    assert by_unit.keys() == {"a", "b", "c"} and by_unit["b"].status == "failed"
    assert "its process was killed" in (by_unit["b"].error or "")
    converter, _ = convert(root, out)
    assert "b" in converter.made and len(targets(out)) == 5 and not [*out.rglob("*.part")]
