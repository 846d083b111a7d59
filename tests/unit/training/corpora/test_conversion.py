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
    Found,
    OtherSplit,
    Skipped,
    Unit,
    convert_source,
    read_report,
)
from gravityocr.training.corpora.pubtabnet import PubTabNet
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile


@dataclass
class Lines:
    """Reads a folder of text files, a region a word but for these: `skip` skips it, `fail` breaks the file, `bug`,
    `deep` and `type` are faults of ours, `other` is of another split, `far` stands on a page beyond all counting,
    `half` becomes half a surrogate pair.
    """

    name: str = "lines"
    made: list[str] = field(default_factory=list)

    def units(self, root: Path) -> list[Unit]:
        return [Unit(file.stem, (file,)) for file in sorted(root.glob("*.txt"))]

    def regions(self, unit: Unit) -> Iterator[Found]:
        self.made.append(unit.name)
        for number, line in enumerate(unit.files[0].read_text().split()):
            if line == "skip":
                yield Skipped(f"{unit.name}, line {number}", f"unwanted: {number}")
            elif line == "fail":
                raise InputError("this file is broken; get it again")
            elif line in ("bug", "deep", "type"):
                raise {"bug": ZeroDivisionError, "deep": RecursionError, "type": TypeError}[line]("oh")
            elif line == "other":
                yield OtherSplit()
            else:
                yield LabelledRegion(
                    f"lines/{unit.name}/0/{number}", picture(), 40, 24, "text", "\ud800" if line == "half" else line,
                    "lines", unit.name, 10**12 if line == "far" else 0,
                )  # fmt: skip


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


@pytest.mark.parametrize(
    ("line", "kind", "processes"),
    [("bug", "ZeroDivision", 1), ("deep", "Recursion", 1), ("type", "Type", 1), ("bug", "ZeroDivision", 2)],
)
def test_a_fault_of_the_program_is_told_as_such_and_stops_no_other_unit(
    root: Path, tmp_path: Path, line: str, kind: str, processes: int
) -> None:
    (root / "b.txt").write_text(f"four {line}")
    _, reports = convert(root, tmp_path / "out", processes=processes)
    by_unit = {report.unit: report for report in reports}
    assert [by_unit[name].status for name in "abc"] == ["made", "failed", "made"]
    said = by_unit["b"].error or ""
    assert said.startswith(f"internal error: {kind}Error: oh (test_conversion.py, line ") and "report it" in said
    assert not (tmp_path / "out" / "lines" / "b.regions.parquet").exists() and by_unit["b"].n_regions == 0


def test_regions_that_no_file_can_hold_are_skipped_by_name(root: Path, tmp_path: Path) -> None:
    (root / "b.txt").write_text("four far half five")
    report = {report.unit: report for report in convert(root, tmp_path / "out")[1]}["b"]
    assert (report.status, report.n_regions, report.reasons) == ("made", 2, {"unstorable region": 2})
    assert [item.where for item in report.skipped] == ["b.txt, lines/b/0/1", "b.txt, lines/b/0/2"]


def test_samples_of_other_splits_are_counted(root: Path, tmp_path: Path) -> None:
    (root / "b.txt").write_text("other four other")
    out = tmp_path / "out"
    counts = {report.unit: report.n_other_splits for report in convert(root, out)[1]}
    assert counts == {"a": 0, "b": 2, "c": 0}
    assert {report.unit: report.n_other_splits for report in convert(root, out)[1]} == counts  # kept


def test_a_report_of_a_run_that_did_not_count_other_splits_is_kept(root: Path, tmp_path: Path) -> None:
    convert(root, tmp_path / "out")
    note = tmp_path / "out" / "lines" / "a.report.json"
    note.write_text(json.dumps({k: v for k, v in json.loads(note.read_text()).items() if k != "n_other_splits"}))
    assert convert(root, tmp_path / "out")[0].made == []


def test_names_that_are_no_text_stay_readable_in_reports(root: Path, tmp_path: Path) -> None:
    @dataclass
    class Odd(Lines):
        def regions(self, unit: Unit) -> Iterator[Found]:
            yield Skipped("a\udcff.txt", "odd: \ud800")

    config = ConversionConfig()
    made = list(convert_source(Odd(), root, tmp_path / "out", config))
    assert made[0].n_skipped == 1 and read_report(tmp_path / "out" / "lines" / "a.report.json") == made[0]


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
    wrong = {"split": "val", "limit": 0, "processes": 0, "dpi": 1, "table_head": "tr", "layout": "no"}
    for settings in ({name: value} for name, value in wrong.items()):
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
