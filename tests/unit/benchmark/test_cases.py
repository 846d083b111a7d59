"""Benchmarks: broken manifests are named, a crop that cannot be read is listed and leaves the others alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import crops as crops_benchmark
from PIL import Image

from gravityocr.benchmark.cases import Case, load_cases
from gravityocr.benchmark.speed import bench_decode
from gravityocr.document import Crop, Recognition
from gravityocr.errors import ConfigError, InputError

CROPS = Path(__file__).parents[2] / "data" / "crops"
ROW = {"file": "a.png", "kind": "text", "language": "english", "ground_truth": {"text": "a"}}


def write_manifest(folder: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "manifest.json").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[" * 200_000, "cannot be read"),
        ({}, "list of cases"),
        (3, "list of cases"),
        ([], "holds no crop"),
        ([3], "case 1"),
        ([ROW, {}], "case 2: KeyError 'kind'"),
        ([ROW | {"file": 3}], "case 1"),
        ([ROW | {"file": None}], "case 1"),
        ([ROW | {"language": ["english"]}], "case 1"),
        ([ROW | {"ground_truth": None}], "case 1: .*ground_truth is None"),
        ([ROW | {"ground_truth": {"text": None}}], "case 1: .*ground_truth is None"),
        ([ROW | {"ground_truth": {"words": "a"}}], "case 1: .*text, html or latex"),
        ([ROW | {"ground_truth": 5}], "case 1: .*ground_truth is 5"),
        ([ROW | {"kind": ["text"]}], "holds no crop"),
    ],
    ids=range(16),
)
def test_a_broken_manifest_names_the_case(tmp_path: Path, content: object, words: str) -> None:
    with pytest.raises(InputError, match=rf"manifest\.json.*{words}"):
        load_cases(write_manifest(tmp_path, content))


def test_a_manifest_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_cases(tmp_path)
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        load_cases(tmp_path)


def test_other_kinds_may_be_anything(tmp_path: Path) -> None:
    folder = write_manifest(tmp_path, [{"kind": "page"}, ROW])
    assert [case.truth for case in load_cases(folder)] == ["a"]


@pytest.mark.parametrize("limit", [0, -1])
def test_limits_below_one(tmp_path: Path, limit: int) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        load_cases(write_manifest(tmp_path, [ROW]), limit=limit)


class Reader:
    """A recognizer that fails on crops wider than they are high."""

    tasks = frozenset({"text"})

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        return [
            Recognition("", "failed", "too wide")
            if crop.image.width > crop.image.height
            else Recognition("ab", "ok", n_tokens=3, n_forwards=2, ids=((1, 2, 3),), seconds={"decode": 0.5})
            for crop in crops
        ]


def make_cases(tmp_path: Path, *names: str) -> list[Case]:
    Image.new("RGB", (20, 40), "white").save(tmp_path / "good.png")
    Image.new("RGB", (40, 20), "white").save(tmp_path / "wide.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnot one")
    return [Case(tmp_path / name, "text", "english", "ab") for name in names]


def test_failed_crops_are_listed_and_leave_the_others_alone(tmp_path: Path) -> None:
    cases = make_cases(tmp_path, "none.png", "good.png", "broken.png", "wide.png")
    ticks: list[int] = []
    report = bench_decode({"ar": Reader(), "self-spec": Reader()}, cases, 2, ticks.append)
    assert ticks == [0, 1, 2, 3]
    assert [Path(one["file"]).name for one in report["failed"]] == ["none.png", "broken.png", "wide.png"]
    assert "too wide" in report["failed"][2]["error"]
    alone = bench_decode({"ar": Reader(), "self-spec": Reader()}, cases[1:2], 2)
    assert report["n_crops"] == 1 and report["modes"] == alone["modes"] and report["by_kind"] == alone["by_kind"]
    assert alone["failed"] == []


def test_nothing_read_is_a_report_too(tmp_path: Path) -> None:
    report = bench_decode({"ar": Reader()}, make_cases(tmp_path, "none.png"), 1)
    assert report["n_crops"] == 0 and report["modes"] == {} and len(report["failed"]) == 1


def run_crops(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = crops_benchmark.main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_the_crops_benchmark_lists_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = json.loads((CROPS / "manifest.json").read_text(encoding="utf-8"))[:1]
    rows[0]["file"] = str(CROPS / rows[0]["file"])
    folder = write_manifest(tmp_path, [ROW, *rows])
    code, out, err = run_crops(capsys, "--cases", folder, "--json", "--worst", 1)
    result = json.loads(out)
    assert code == 1 and "a.png" in err
    assert [Path(one["file"]).name for one in result["failed"]] == ["a.png"]
    assert result["groups"]["all"]["n_crops"] == len(result["crops"]) == 1
    code, out, _ = run_crops(capsys, "--cases", write_manifest(tmp_path, [ROW]), "--json")
    assert code == 1 and json.loads(out)["groups"] == {}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--cases", "no-such-folder"), 1),
        (("--cases", CROPS, "--block-size", 10**6), 2),
        (("--cases", CROPS, "--threads", 0), 2),
        (("--cases", CROPS, "--checkpoint", "nowhere"), 2),
    ],
)
def test_exit_codes_of_the_crops_benchmark(
    capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], code: int
) -> None:
    assert run_crops(capsys, *arguments)[0] == code


@pytest.mark.parametrize("arguments", [("--limit", 0), ("--limit", -3), ("--worst", -1), ("--limit", "x")])
def test_wrong_usage_of_the_crops_benchmark(
    capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_crops(capsys, "--cases", CROPS, *arguments)
    assert caught.value.code == 2


def test_only_the_asked_language(tmp_path: Path) -> None:
    rows = [ROW, ROW | {"file": "b.png", "language": "text_simplified_chinese"}]
    folder = write_manifest(tmp_path, rows)
    assert [case.file.name for case in load_cases(folder, language="simplified_chinese")] == ["b.png"]
    with pytest.raises(InputError, match="in dutch"):
        load_cases(folder, language="dutch")
