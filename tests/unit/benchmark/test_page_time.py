"""Page times: readers take turns on the same file, medians count, broken pages and wrong usage are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import page_time
from benchmarks.page_time import PageCase, load_pages, measure_page, summarize
from PIL import Image

from gravityocr.document import Box, Document, DocumentStatus, Page, Region
from gravityocr.errors import InputError


class Clock:
    """Stands in for both readers: every call takes the next of its seconds."""

    def __init__(self, ours: list[float], theirs: list[float], status: DocumentStatus = "ok") -> None:
        self.now, self.cpu, self.calls = 0.0, 0.0, []  # type: float, float, list[str]
        self.ours, self.theirs, self.status = iter(ours), iter(theirs), status

    def perf_counter(self) -> float:
        return self.now

    def parse(self, file: Path) -> Document:
        assert Image.open(file).size == (30, 20)
        self._pass(next(self.ours), "ours")
        box = Box(0, 0, 9, 9)
        regions = (
            Region(0, "text", "text", "text", box, "a b", n_tokens=3),
            Region(1, "table", "table", "table", box, status="skipped"),
            Region(2, "figure", "figure", None, box),
        )
        return Document(str(file), self.status, (Page(0, (30, 20), regions, seconds={"layout": 0.5}),), "why")

    def read_file(self, file: Path, language: str) -> tuple[str, float]:
        assert file.is_file() and language == "english"
        seconds = next(self.theirs)
        self._pass(seconds, "theirs")
        return " a\nbc ", seconds

    def _pass(self, seconds: float, who: str) -> None:
        self.now += seconds
        self.cpu += seconds * (2 if who == "ours" else 1)
        self.calls.append(who)


def page(folder: Path) -> PageCase:
    Image.new("RGB", (30, 20), "white").save(folder / "page.jpg")
    return PageCase(folder / "page.jpg", "english")


def measured(monkeypatch: pytest.MonkeyPatch, clock: Clock, case: PageCase, repeats: int) -> dict[str, Any]:
    monkeypatch.setattr(page_time, "time", clock)
    monkeypatch.setattr(page_time, "cpu_seconds", lambda: clock.cpu)
    return measure_page(clock, clock, case, repeats)  # type: ignore[arg-type]


def test_readers_take_turns_and_the_median_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock([99.0, 1.0, 7.0, 2.0], [99.0, 4.0, 5.0, 3.0])
    row = measured(monkeypatch, clock, page(tmp_path), 3)
    assert clock.calls == ["ours", "theirs"] * 4
    assert (row["gravityocr_s"], row["tesseract_s"], row["ratio"]) == (2.0, 4.0, 0.5)
    assert (row["gravityocr_cpu_s"], row["tesseract_cpu_s"], row["cpu_ratio"]) == (4.0, 4.0, 1.0)
    assert row["times_s"] == {"gravityocr": [1.0, 7.0, 2.0], "tesseract": [4.0, 5.0, 3.0]}
    assert row["regions"] == {"ok": 1, "skipped": 1, "picture": 1} and row["n_tokens"] == 3
    assert (row["gravityocr_characters"], row["tesseract_characters"]) == (2, 3)
    assert row["size_px"] == (30, 20) and row["first_call_parts_s"] == {"layout": 0.5}


def test_a_page_that_cannot_be_read_is_an_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"page\.jpg: why"):
        measured(monkeypatch, Clock([1.0], [], "failed"), page(tmp_path), 1)
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnot one")
    with pytest.raises(InputError, match=r"broken\.png"):
        measured(monkeypatch, Clock([], []), PageCase(tmp_path / "broken.png", "english"), 1)


def timed(ours: float, theirs: float, language: str) -> dict[str, Any]:
    times = {"gravityocr_s": ours, "tesseract_s": theirs, "gravityocr_cpu_s": 2 * ours, "tesseract_cpu_s": theirs}
    return {"language": language, "ratio": ours / theirs, **times}


def test_the_summary_of_pages() -> None:
    times = [(1.0, 2.0, "english"), (6.0, 2.0, "english"), (2.0, 4.0, "dutch")]
    rows = [timed(*one) for one in times]
    groups = summarize(rows)
    assert groups["all"] == {
        "n_pages": 3,
        "gravityocr_s_per_page": 3.0,
        "tesseract_s_per_page": 8 / 3,
        "gravityocr_cpu_s_per_page": 6.0,
        "tesseract_cpu_s_per_page": 8 / 3,
        "ratio_of_totals": 9 / 8,
        "cpu_ratio_of_totals": 18 / 8,
        "ratio_median": 0.5,
        "n_no_slower": 2,
    }
    assert groups["dutch"]["n_pages"] == 1 and groups["english"]["ratio_of_totals"] == 7 / 4
    assert summarize([]) == {}


def test_pages_of_a_manifest(tmp_path: Path) -> None:
    rows = [
        {"file": "a.png", "kind": "page", "language": "text_english"},
        {"file": "b.png", "kind": "text", "language": "english"},
        {"file": "c.pdf", "kind": "page", "language": "dutch"},
    ]
    (tmp_path / "manifest.json").write_text(json.dumps(rows), encoding="utf-8")
    assert load_pages(tmp_path) == [PageCase(tmp_path / "a.png", "english"), PageCase(tmp_path / "c.pdf", "dutch")]
    assert len(load_pages(tmp_path, 1)) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read"),
        ("3", "cannot be read"),
        ("[3]", "cannot be read"),
        ('[{"kind": "page"}]', "'language'|'file'"),
        ('[{"kind": "page", "file": 3, "language": "x"}]', "cannot be read"),
        ("[]", "holds no page"),
    ],
)
def test_broken_manifests(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=rf"manifest\.json.*({words})"):
        load_pages(tmp_path)


def test_a_missing_folder_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert page_time.main(["--cases", "no-such-folder"]) == 1
    assert "no-such-folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("--repeats", "0"), ("--limit", "0"), ("--threads", "0"), ("--threads", "x")])
def test_wrong_usage(arguments: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as caught:
        page_time.main(["--cases", "x", *arguments])
    assert caught.value.code == 2


def test_the_readable_report() -> None:
    run = {"threads": 2, "groups": summarize([timed(1.0, 2.0, "english")]), "tesseract_start_s": 0.125}
    text = page_time.readable({"runs": [run], "boundary": page_time.BOUNDARY})
    (line,) = [line.split() for line in text.splitlines() if line.startswith("english")]
    assert line == ["english", "2", "1", "1.000", "2.000", "2.000", "2.000", "0.50", "1.00", "0.50", "1"]
    assert "0.125 s with 2" in text and "one process a page" in text
