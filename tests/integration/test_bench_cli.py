"""`gravityocr bench` from the shell: JSON of every measurement, identity with AR, SIMULATED, wrong usage."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from gravityocr import cli
from gravityocr.commands import bench_modes
from gravityocr.commands.bench_modes import parse_mode, parse_modes
from gravityocr.document import Crop, Recognition
from gravityocr.engine.engine import Engine
from gravityocr.errors import ConfigError

CROPS = Path(__file__).parents[1] / "data" / "crops"
PAGE = CROPS / "line_00.png"  # with no layout it is a page of one region
SMALL = ("--cases", CROPS, "--limit", 1, "--repeats", 1, "--json")


def run(*args: object) -> dict[str, Any]:
    """Run a measurement and return its JSON; stdout holds nothing else."""
    result = CliRunner().invoke(cli.app, ["bench", *map(str, args)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def check(report: dict[str, Any], bench: str) -> None:
    """Check what every measurement names."""
    assert report["bench"] == bench and report["boundary"] and report["checkpoint"] == "nano"
    assert {"processor", "n_cores", "threads", "torch", "dtype", "device"} <= report["machine"].keys()
    assert report["machine"]["dtype"] in ("float32", "mixed", "bfloat16") and report["failed"] == []


@pytest.fixture(scope="module")
def decode() -> dict[str, Any]:
    """Give a `bench decode` of all kinds of modes."""
    modes = "ar,default,self-spec,self-spec+fixed:8,self-spec+head,fused+fixed@1:8"
    return run("decode", *SMALL, "--modes", modes)


def test_decode(decode: dict[str, Any]) -> None:
    check(decode, "decode")
    assert decode["simulated"] is False and decode["protocol"] == "together" and "together" in decode["boundary"]
    assert decode["modes"]["ar"]["tpf"] == 1.0 and decode["modes"]["ar"]["x_ar"] == 1.0
    for row in decode["modes"].values():
        assert row["identical_to_ar"] == row["identical_strings"] == 1.0 and row["n_crops"] == 1
        assert {"s_per_token", "tok_per_s", "tpf", "n_accepted"} <= row.keys()
    assert decode["modes"]["self-spec+fixed:8"]["tpf"] > 1.5
    for groups in (decode["by_kind"], decode["by_length"]):
        assert sum(rows["ar"]["n_crops"] for rows in groups.values()) == 1


def test_decode_tells_what_forwards_cost(decode: dict[str, Any]) -> None:
    costs = decode["costs"]
    assert "1" in costs["batch"] and str(costs["n_together"]) in costs["batch"]
    for batch in costs["batch"].values():
        assert {"1", "2", "5", "9", "13", "17", "25", "33", "65"} <= batch["ms"].keys()
        assert batch["window_over_one_row"]["1"] == 1.0
    # Only forwards that always have the same rows can be reckoned up.
    assert set(costs["modes"]) == {"self-spec+fixed:8", "fused+fixed@1:8"}
    fixed, fused = costs["modes"].values()
    assert fixed["rows"] == 9 and fixed["break_even_hit_rate"] is None and fused["rows"] == 17
    assert fixed["expected_speedup"] == pytest.approx(
        decode["modes"]["self-spec+fixed:8"]["tpf"] / fixed["window_over_one_row"]
    )


def test_one_by_one_is_told_apart() -> None:
    report = run("decode", *SMALL, "--one-by-one", "--no-costs", "--max-tokens", 24)
    assert report["protocol"] == "one-by-one" and "one sequence at a time" in report["boundary"]
    assert "costs" not in report and report["modes"]["self-spec"]["identical_to_ar"] == 1.0


@pytest.mark.parametrize("profile", ["paper", "file"])
def test_a_simulation_says_so_everywhere(tmp_path: Path, profile: str) -> None:
    if profile == "file":
        file = tmp_path / "profile.json"
        file.write_text(json.dumps({"text": [0, 0, 0, 0, 1]}), encoding="utf-8")
        profile = str(file)
    report = run("decode", *SMALL, "--modes", "ar,self-spec+fixed:4", "--acceptance-profile", profile, "--no-costs")
    assert report["simulated"] is True and report["profile"] == {"name": profile, "seed": 0, "exact_tokens": None}
    assert all(row["simulated"] is True and row["identical_to_ar"] == 1.0 for row in report["modes"].values())
    n_accepted = report["modes"]["self-spec+fixed:4"]["n_accepted"]
    assert 2.0 < n_accepted <= 4.0 if profile == "paper" else 3.0 < n_accepted <= 4.0


def test_the_printed_simulation_has_its_heading() -> None:
    args = ["bench", "decode", *map(str, SMALL[:-1]), "--acceptance-profile", "paper", "--no-costs"]
    result = CliRunner().invoke(cli.app, args)
    assert result.exit_code == 0 and result.stdout.startswith("SIMULATED")
    assert "SIMULATED, all crops" in result.stdout and "seed 0" in result.stdout


def test_region() -> None:
    report = run("region", *SMALL)
    check(report, "region")
    for row in report["modes"].values():
        assert set(row["stages"]) == {"vision", "prefill", "decode", "other"}
        assert row["identical_to_ar"] == 1.0 and row["n_tokens"] == run_tokens(row)


def run_tokens(row: dict[str, Any]) -> int:
    """Return the tokens of a region's row: with TPF and forwards, the first of each sequence added."""
    return round(row["tpf"] * row["n_forwards"]) + row["n_sequences"]


def test_page_and_concurrency() -> None:
    page = run("page", "--cases", PAGE, "--layout", "none", "--repeats", 1, "--json")
    check(page, "page")
    assert page["n_pages"] == 1 and page["layout"] == "none"
    for row in page["modes"].values():
        assert {"render", "layout", "recognize", "other"} <= row["stages"].keys() and row["identical_to_ar"] == 1.0
    together = run("concurrency", "--cases", PAGE, "--layout", "none", "--repeats", 1, "--json")
    check(together, "concurrency")
    assert {(way, mode) for way, rows in together["regions"].items() for mode in rows} == {
        (way, mode) for way in ("one by one", "together") for mode in ("ar", "self-spec")
    }


def test_batch() -> None:
    report = run("batch", *SMALL, "--sizes", "1,2", "--max-tokens", 24)
    check(report, "batch")
    assert list(report["sizes"]) == ["1", "2"] and report["n_sequences"] >= 8
    for row in report["sizes"].values():
        assert {"ar_tok_per_s", "self_spec_tok_per_s", "ratio"} <= row.keys()
        assert row["modes"]["self-spec"]["identical_to_ar"] == 1.0
        assert row["modes"]["ar"]["n_sequences"] == report["n_sequences"]


def test_a_simulated_batch(tmp_path: Path) -> None:
    modes = ("--modes", "ar,self-spec+fixed", "--acceptance-profile", "paper", "--seed", 3)
    report = run("batch", *SMALL, *modes, "--sizes", "1,2", "--max-tokens", 12)
    assert report["simulated"] is True and report["profile"] == {"name": "paper", "seed": 3}
    for row in report["sizes"].values():
        assert row["mode"] == "self-spec+fixed" and row["modes"]["ar"]["simulated"] is True
        assert row["modes"]["self-spec+fixed"]["identical_to_ar"] == 1.0


@pytest.mark.parametrize(
    ("args", "bench", "values"),
    [
        (("draft-steps", "--steps", "1,2"), "draft-steps", ["1", "2"]),
        (("blocks", "--sizes", "2,8"), "blocks", ["2", "8"]),
    ],
)
def test_settings(args: tuple[str, ...], bench: str, values: list[str]) -> None:
    report = run(args[0], *SMALL, *args[1:], "--mode", "self-spec+fixed")
    check(report, bench)
    assert list(report["values"]) == values and report["mode"] == "self-spec+fixed"
    rows = report["values"]
    assert all(row["identical_to_ar"] == 1.0 for row in rows.values())
    if bench == "blocks":
        assert rows["8"]["n_accepted"] > rows["2"]["n_accepted"] <= 2.0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_equality(dtype: str) -> None:
    report = run("equality", *SMALL, "--dtype", dtype, "--modes", "ar,self-spec,fused")
    check(report, "equality")
    assert report["machine"]["dtype"] == dtype and report["divergences"] == []
    for row in report["modes"].values():
        assert row["identical_to_ar"] == row["identical_sequences"] == row["identical_strings"] == 1.0
    assert ("guard_cost" in report) == ("unguarded" in report) == (dtype == "bfloat16")


def test_the_baseline_reads_the_same() -> None:
    pytest.importorskip("transformers", reason="the baseline; install the extra 'transformers'")
    report = run("decode", "--cases", CROPS, "--limit", 1, "--repeats", 1, "--json", "--no-costs", "--modes", "ar",
                 "--dtype", "float32", "--baseline", "transformers", "--max-tokens", 16)  # fmt: skip
    row = report["modes"]["transformers"]
    assert row["identical_to_ar"] == row["identical_strings"] == 1.0 and row["tpf"] == 1.0
    assert "GlmOcrForConditionalGeneration" in report["baseline"]


def test_a_report_of_what_was_measured(tmp_path: Path, decode: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib", reason="plots; install the extra 'report'")
    (tmp_path / "decode.json").write_text(json.dumps(decode), encoding="utf-8")
    page = tmp_path / "out" / "report.html"
    for _ in range(2):  # a report is written over
        result = CliRunner().invoke(cli.app, ["bench", "report", str(tmp_path / "decode.json"), "-o", str(page)])
        assert result.exit_code == 0, result.output
    assert "Decoding alone" in page.read_text(encoding="utf-8")
    assert [one.name for one in page.parent.iterdir()] == [page.name]


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("ar", {"decode": "ar"}),
        ("default", {}),
        ("diffusion:16", {"decode": "diffusion", "block_size": 16}),
        ("self-spec", {"n_candidates": 0, "windows": "adaptive", "draft_head": False, "block_size": None}),
        ("self-spec+fixed+head:8", {"n_candidates": 0, "windows": "fixed", "draft_head": True, "block_size": 8}),
        ("fused", {"decode": "self-spec", "n_candidates": 1, "windows": "adaptive"}),
        ("fused+head@4:24", {"n_candidates": 4, "draft_head": True, "block_size": 24}),
    ],
)
def test_the_grammar_of_modes(name: str, overrides: dict[str, Any]) -> None:
    assert overrides.items() <= parse_mode(name).overrides.items()
    assert parse_mode(name).name == name


@pytest.mark.parametrize(
    "names",
    ["", "AR", "poem", "ar:8", "ar+fixed", "default+head", "diffusion@1", "diffusion+head", "self-spec@2", "fused@",
     "self-spec+", "self-spec+head+head", "self-spec+wide", "self-spec:", "fused:8@2", "self-spec:x", "ar,ar", "ar,",
     "self-spec:99999999999"],
)  # fmt: skip
def test_modes_that_are_none(names: str) -> None:
    with pytest.raises(ConfigError, match="--modes"):
        parse_modes(names)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("decode", "--cases", CROPS, "--modes", "poem"), "poem"),
        (("decode", "--cases", CROPS, "--modes", "self-spec:9999"), "block_size"),
        (("decode", "--cases", CROPS, "--baseline", "poem"), "--baseline"),
        (("decode", "--cases", CROPS, "--acceptance-profile", "paper", "--modes", "ar,diffusion"), "diffusion"),
        (("decode", "--cases", CROPS, "--acceptance-profile", "none.json"), "none.json"),
        (("batch", "--cases", CROPS, "--sizes", "0,1"), "--sizes"),
        (("batch", "--cases", CROPS, "--sizes", "4,1"), "--sizes"),
        (("batch", "--cases", CROPS, "--sizes", "1,x"), "--sizes"),
        (("batch", "--cases", CROPS, "--sizes", "1", "--modes", "ar"), "--modes"),
        (("blocks", "--cases", CROPS, "--sizes", "8,9999"), "--sizes"),
        (("blocks", "--cases", CROPS, "--mode", "ar"), "--mode"),
        (("blocks", "--cases", CROPS, "--mode", "self-spec:8"), "--mode"),
        (("draft-steps", "--cases", CROPS, "--steps", ""), "--steps"),
        (("equality", "--cases", CROPS, "--limit", "1", "--modes", "self-spec"), "equality needs ar"),
        (("page", "--cases", CROPS.parent / "none"), "none"),
        (("page", "--cases", PAGE, "--layout", "poem"), "poem"),
        (("region", "--cases", CROPS.parent), "manifest.json"),
        (("report", CROPS / "manifest.json", "-o", "x.html"), "manifest.json"),
        (("report", CROPS, "-o", CROPS), "is a folder"),
        (("report", CROPS, "-o", CROPS / "manifest.json"), "is no report"),
    ],
)
def test_wrong_usage_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], args: tuple[object, ...], words: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["gravityocr", "bench", *map(str, args)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    output = capsys.readouterr()
    line = output.err.strip().splitlines()[-1]
    assert caught.value.code in (1, 2) and line.startswith("error: ") and words in line and not output.out


def test_a_baseline_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    args = ["gravityocr", "bench", "decode", "--cases", str(CROPS), "--limit", "1", "--baseline", "transformers"]
    monkeypatch.setattr(sys, "argv", args)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2 and "gravityocr[transformers]" in capsys.readouterr().err


def test_modes_learn_for_themselves() -> None:
    engine = Engine.from_pretrained("nano")
    one, other = (bench_modes.apart(engine, windows="adaptive") for _ in range(2))
    assert one.options.planner is not other.options.planner
    assert one.checkpoint.model is other.checkpoint.model


class Echo:
    """Stands in for an engine: answers with its task and the widths of the crops of a call."""

    def __init__(self, task: str) -> None:
        self.task = task

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        return [Recognition(f"{self.task} {crop.image.width}") for crop in crops]


def test_simulated_crops_go_to_the_engine_of_their_task() -> None:
    engines = {task: Echo(task) for task in ("text", "table")}
    reader = bench_modes.ByTask(engines)  # type: ignore[arg-type]
    crops = [Crop(Image.new("RGB", (w, 4), "white"), task) for w, task in ((1, "table"), (2, "text"), (3, "table"))]  # type: ignore[arg-type]
    assert [one.text for one in reader.recognize(crops)] == ["table 1", "text 2", "table 3"]
    assert reader.tasks == {"text", "table"}


def test_exact_tokens_are_decoded_past_stop_tokens() -> None:
    how = ["--modes", "ar,self-spec+fixed:4", "--no-costs", "--exact-tokens", "40"]
    report = run("decode", *SMALL, *how, "--acceptance-profile", "paper")
    for row in report["modes"].values():
        assert row["n_tokens"] == 39 * row["n_sequences"] and row["identical_to_ar"] == 1.0
