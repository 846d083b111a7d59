"""The HTML page of measurements: self-contained, the paper apart from ours, SIMULATED apart from both."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.benchmark.readers import Reader, answer, make_case
from tests.unit.benchmark.test_load import AnyWidth, TwoColumns, page_file, readers

from gravityocr.benchmark import report_sections
from gravityocr.benchmark.costs import RoundShape
from gravityocr.benchmark.equality import Choice, Judges, bench_equality
from gravityocr.benchmark.load import bench_batch, bench_concurrency
from gravityocr.benchmark.pages import Parts, bench_page
from gravityocr.benchmark.protocol import machine
from gravityocr.benchmark.report import read_measurements, render
from gravityocr.benchmark.report_plots import Panel, draw
from gravityocr.benchmark.speed import bench_decode, bench_region, bench_settings
from gravityocr.commands import bench_print
from gravityocr.errors import InputError


def write(folder: Path, name: str, data: dict[str, Any]) -> Path:
    file = folder / f"{name}.json"
    common = {"checkpoint": "nano <b>", "machine": machine("float32", "cpu")}
    file.write_text(json.dumps({**common, **data}), encoding="utf-8")
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with one file of every measurement, and a simulated one."""
    case, page, parts = make_case(tmp_path, 10), page_file(tmp_path), Parts(TwoColumns())
    modes = readers()
    pages = {name: AnyWidth({0: reader.answers[10]}) for name, reader in modes.items()}

    def judge(*_: object) -> Choice:
        return Choice(1, 0.1)

    out = tmp_path / "json"
    out.mkdir()
    timing = {"timer": lambda n, rows: n * rows / 1000, "shapes": {"self-spec": RoundShape(12)}}
    write(out, "decode", bench_decode(modes, [case], 2, **timing))  # type: ignore[arg-type]
    write(out, "region", bench_region(modes, [case], 2))
    write(out, "page", bench_page(pages, [page], 1, parts))
    write(out, "batch", bench_batch({1: modes, 4: modes}, [case], 1))
    write(out, "concurrency", bench_concurrency(pages, [page], 1, parts))
    for setting in ("draft_steps", "block_size"):
        found = bench_settings(setting, modes["ar"], {1: modes["self-spec"], 2: modes["self-spec"]}, [case], 1)
        write(out, setting, {**found, "mode": "self-spec"})
    equal = bench_equality(modes, [case], Judges(judge, judge), unguarded=modes)
    write(out, "equality", {**equal, "guard_margin": 0.25})
    fast = {"ar": modes["ar"], "made-up": Reader({10: answer([1, 2, 3], forwards=1)})}
    simulated = bench_decode(fast, [case], 1, simulated=True)
    write(out, "simulated", {**simulated, "profile": {"name": "paper", "seed": 0}})
    return out


def test_a_page_without_plots(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_sections, "draw", lambda panels: f"[{'|'.join(panel.title for panel in panels)}]")
    page = render(read_measurements([folder]))
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert titles[:-2] == [title for title, _ in report_sections.SECTIONS.values()]
    assert titles[-2:] == ["SIMULATED", "Decoding alone"]
    measured, simulated = page.split("<h2>SIMULATED</h2>")
    assert "made-up" in simulated and "made-up" not in measured  # never in a table of results
    assert "The paper: " in measured and "The paper: " not in simulated
    assert "nano &lt;b&gt;" in page and "<b>" not in page
    assert "one forward by its rows" in measured  # the cost of a forward is a plot of its own
    assert not re.search(r"https?://(?!www\.w3\.org)|<script|src=", page)


def test_the_papers_figures_stand_in_their_own_frames(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_sections, "draw", lambda panels: "")
    page = render(read_measurements([folder]))
    for frame in re.findall("<div class='paper'>.*?</table>", page, re.S):
        assert "<caption>The paper: " in frame
    without = re.sub("<div class='paper'>.*?</table>", "", page, flags=re.S)
    assert "3057" in page and "3057" not in without and "0.571" not in without


def test_plots_keep_ours_and_the_papers_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Panel] = []
    monkeypatch.setattr(report_sections, "draw", lambda panels: seen.extend(panels) or "")
    render(read_measurements([folder]))
    assert any(panel.is_paper for panel in seen) and any("SIMULATED" in panel.title for panel in seen)
    for panel in seen:
        assert ("the paper" in panel.title) == panel.is_paper
        assert not panel.is_paper or "self-spec" not in panel.series or set(panel.series) == {"AR", "self-spec"}


def test_plots_are_inline_svg(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra 'report'")
    page = render(read_measurements([folder]))
    assert page.count("<svg") == page.count("</svg>") >= 10 and "<?xml" not in page and "<!DOCTYPE svg" not in page
    assert not re.search(r"<script|<image|<link", page)
    assert draw([Panel("a", "x", "y", {"one": []})]) == ""


SHOW = {
    "decode": bench_print.show_crops, "region": bench_print.show_crops, "page": bench_print.show_pages,
    "batch": bench_print.show_batch, "concurrency": bench_print.show_concurrency,
    "draft-steps": bench_print.show_settings, "blocks": bench_print.show_settings,
    "equality": bench_print.show_equality,
}  # fmt: skip


def test_printed_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(SHOW) == set(report_sections.SECTIONS)
    for one in read_measurements([folder]):
        SHOW[one.bench](one.data)
        text = capsys.readouterr().out
        assert one.data["boundary"][:20] in text and "nano <b>" in text and one.data["machine"]["torch"] in text
        assert ("made-up" if one.is_simulated else "ar") in text and text.startswith("SIMULATED") == one.is_simulated


@pytest.mark.parametrize("name", sorted(report_sections.SECTIONS))
def test_a_file_that_lacks_a_part_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, "half", {"bench": name, "simulated": False})
    with pytest.raises(InputError, match=r"half\.json: is no whole measurement"):
        render(read_measurements([tmp_path / "half.json"]))


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "3", '{"bench": "poem"}', '{"modes": {}}', '{"bench": ["decode"]}', "[" * 200_000],
    ids=range(7),
)
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.json"):
        read_measurements([tmp_path])


def test_paths_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no JSON file"):
        read_measurements([tmp_path])
    with pytest.raises(InputError, match=r"none\.json: cannot be read"):
        read_measurements([tmp_path / "none.json"])
