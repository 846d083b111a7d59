"""`gravityocr data convert`: every source is there; units that fail end in exit code 1; JSON sums up."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
import typer
from tests.table_corpora import RAGGED, boxes_of, sample, write_pubtables, write_pubtabnet
from typer.testing import CliRunner

from gravityocr.commands.data_convert import SOURCES, convert, make_converter
from gravityocr.errors import ConfigError
from gravityocr.training.corpora.conversion import ConversionConfig

app = typer.Typer()
app.command()(convert)


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_is_there_under_its_name(source: str) -> None:
    module, _ = SOURCES[source]
    assert importlib.util.find_spec(module) is not None
    assert make_converter(source, ConversionConfig()).name == source


def test_an_unknown_source_is_told() -> None:
    with pytest.raises(ConfigError, match="'pubtab' is unknown; choose one of pubtables1m, fintabnet"):
        make_converter("pubtab", ConversionConfig())


def test_json_sums_up_and_a_second_run_keeps_all(tmp_path: Path) -> None:
    write_pubtabnet(tmp_path / "in", [sample("PMC1_000_00.png"), sample("PMC2_000_00.png", RAGGED)])
    arguments = ("pubtabnet", tmp_path / "in", "--out", tmp_path / "out")
    done = run(*arguments, "--json")
    assert done.exit_code == 0
    summary = json.loads(done.stdout)
    assert summary == {
        "source": "pubtabnet", "folder": str(tmp_path / "out" / "pubtabnet"), "n_units": 1, "n_made": 1, "n_kept": 0,
        "n_failed": 0, "n_regions": 1, "n_skipped": 1, "n_other_splits": 0, "tasks": {"table": 1},
        "origins": {"annotation": 1}, "reasons": {"ragged rows": 1}, "failed": [],
    }  # fmt: skip
    assert "part-0000: made, 1 regions, 1 skipped (1 ragged rows)" in done.stderr
    again = run(*arguments)
    assert again.exit_code == 0 and "1 units (0 made, 1 kept, 0 failed)" in again.stdout
    assert "  reason ragged rows: 1" in again.stdout


def test_units_that_fail_end_in_exit_code_1(tmp_path: Path) -> None:
    write_pubtables(tmp_path, {"PMC1_table_0": boxes_of(((("a", 1, 1),),))}, packed=True)
    archive = tmp_path / "PubTables-1M-Structure_Table_Words.tar.gz"
    archive.write_bytes(archive.read_bytes()[:30])
    done = run("pubtables1m", tmp_path, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 1
    summary = json.loads(done.stdout)
    assert summary["n_failed"] == summary["n_units"] > 0 and "EOFError" in summary["failed"][0]["error"]
    assert "train-00: failed: EOFError" in done.stderr


def test_a_source_without_any_region_says_why(tmp_path: Path) -> None:
    write_pubtabnet(tmp_path / "empty", [])
    write_pubtabnet(tmp_path / "val", [sample("PMC1_000_00.png", split="val"), sample("PMC2_000_00.png", split="val")])
    write_pubtabnet(tmp_path / "bad", [sample("PMC1_000_00.png", RAGGED)])
    for name, told in {
        "empty": "lists no sample", "val": "all 2 samples are of other splits; take them with --split all",
        "bad": "the reasons above say why",
    }.items():  # fmt: skip
        done = run("pubtabnet", tmp_path / name, "--out", tmp_path / "out" / name)
        assert done.exit_code == 1 and told in done.stderr
    assert "part-0000: kept, 0 regions, 0 skipped, 2 of other splits" in (
        run("pubtabnet", tmp_path / "val", "--out", tmp_path / "out" / "val").stderr
    )
    done = run("pubtabnet", tmp_path / "val", "--out", tmp_path / "out" / "all", "--split", "all", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["n_regions"] == 2


@pytest.mark.parametrize("source", SOURCES)
def test_wrong_usage_is_told_for_every_source(tmp_path: Path, source: str) -> None:
    done = run(source, tmp_path, "--out", tmp_path / "out", "--layout", "nope")
    assert isinstance(done.exception, ConfigError) and "--layout 'nope' is unknown" in str(done.exception)


def test_an_out_that_cannot_be_written_is_wrong_usage(tmp_path: Path) -> None:
    write_pubtabnet(tmp_path / "in", [sample("PMC1_000_00.png")])
    out = tmp_path / "in" / "PubTabNet_2.0.0.jsonl"
    done = run("pubtabnet", tmp_path / "in", "--out", out)
    assert isinstance(done.exception, ConfigError) and f"--out {out} cannot be written" in str(done.exception)
