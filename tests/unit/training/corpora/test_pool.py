"""Pools on disk: contents, reports, determinism, restarts after a kill, refusals; and the command."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.errors import CheckpointError, ConfigError, InputError
from gravityocr.training.corpora import pool, pool_index
from gravityocr.training.corpora.filters import FilterConfig
from gravityocr.training.corpora.mixture import MixtureConfig, SplitConfig
from gravityocr.training.corpora.pool import PoolConfig, build_pool
from gravityocr.training.corpora.region_shards import (
    LabelledRegion,
    RegionFile,
    encode_picture,
    region_files,
    write_regions,
)
from gravityocr.training.pool_tokens import pool_files

N_FILES, N_REGIONS = 4, 60
CONFIG = PoolConfig(shard_regions=10, bucket_mb=1, buffer_mb=1, validation=SplitConfig(n_pages=20, share=0.2))
TARGETS = {"text": "Line {} of a text", "table": "<table><tr><td>{}</td></tr></table>", "formula": "x^{{{}}}"}


def make_region(number: int, **changes) -> LabelledRegion:
    task = ("text", "text", "table", "formula")[number % 4]
    pixels = np.random.default_rng(number).integers(0, 256, (24, 40), dtype=np.uint8)
    values = {
        "region_id": f"s/d{number // 5}/0/{number}", "image": encode_picture(Image.fromarray(pixels)), "width_px": 40,
        "height_px": 24, "task": task, "target": TARGETS[task].format(number), "source": f"s{number % 2}",
        "doc_id": f"d{number // 5}", "page": number % 3, "target_origin": ("annotation", "teacher")[number % 2],
    }  # fmt: skip
    return LabelledRegion(**{**values, **changes})


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for number in range(N_FILES):
        regions = [make_region(number * N_REGIONS + i) for i in range(N_REGIONS)]
        regions += [
            make_region(0, region_id=f"copy {number}"),
            make_region(1000 + 4 * number, target="over and over " * 30),
        ]
        write_regions(folder / f"part-{number}.regions.parquet", regions)
    return folder


@pytest.fixture
def small_buckets(monkeypatch):
    """Several buckets and several flushes, which pools of a few pictures would not have."""
    monkeypatch.setattr(pool, "MEGABYTE", 20_000)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def order(folder: Path) -> list[str]:
    return [region.region_id for file in region_files(folder) for region in RegionFile(file)]


@pytest.mark.usefixtures("small_buckets")
def test_a_pool_holds_what_its_report_says(inputs: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    report = build_pool([inputs], tmp_path / "p", CONFIG, say=lines.append)
    assert json.loads((tmp_path / "p" / "pool.json").read_text()) == report
    n_read = N_FILES * (N_REGIONS + 2)
    stages = report["stages"]
    assert stages["read"] == n_read == sum(n for stage, n in stages.items() if stage != "read")
    # Each file has a copy of the very first region, which stays, and one that repeats itself.
    assert stages["duplicate"] == N_FILES and stages["removed"] == N_FILES
    assert report["removed_by_reason"] == {"repetition": N_FILES}
    assert [example["reason"] for example in report["examples"]] == ["repetition"] * N_FILES
    sides = {name: [region for file in region_files(tmp_path / "p" / name) for region in RegionFile(file)]
             for name in ("train", "validation")}  # fmt: skip
    for name, regions in sides.items():
        assert len(regions) == stages[name] == report["splits"][name]["n_regions"]
        documents = {(region.source, region.doc_id) for region in regions}
        pages = {(region.source, region.doc_id, region.page) for region in regions}
        assert report["splits"][name]["n_documents"] == len(documents)
        assert report["splits"][name]["n_pages"] == len(pages)
    assert not {(r.source, r.doc_id) for r in sides["train"]} & {(r.source, r.doc_id) for r in sides["validation"]}
    n_tasks = {task: sum(region.task == task for region in sides["train"]) for task in TARGETS}
    assert n_tasks == {task: tally["taken"] for task, tally in report["mixture"].items()}
    assert n_tasks["table"] == n_tasks["formula"] and abs(n_tasks["text"] - 3 * n_tasks["table"]) <= 1.5
    assert sum(group["read"] for group in report["groups"]) == n_read
    # Regions are the ones that were put in, pictures and all.
    known = {region.region_id: region for file in region_files(inputs) for region in RegionFile(file)}
    assert all(known[region.region_id] == region for regions in sides.values() for region in regions)
    sizes = [len(RegionFile(file)) for file in region_files(tmp_path / "p" / "train")]
    assert {*sizes[:-1]} == {10} and 0 < sizes[-1] <= 10
    assert any("4 of 4" in line for line in lines) and any("buckets" in line for line in lines)
    assert not (tmp_path / "p" / ".unfinished").exists()


@pytest.mark.usefixtures("small_buckets")
def test_the_seed_decides_and_buckets_do_not(inputs: Path, tmp_path: Path, monkeypatch) -> None:
    build_pool([inputs], tmp_path / "a", CONFIG)
    build_pool([inputs], tmp_path / "b", CONFIG)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    monkeypatch.undo()
    build_pool([inputs], tmp_path / "one-bucket", CONFIG)
    assert contents(tmp_path / "a") == contents(tmp_path / "one-bucket")
    build_pool([inputs], tmp_path / "c", PoolConfig(seed=1, shard_regions=10, validation=CONFIG.validation))
    assert order(tmp_path / "a" / "train") != order(tmp_path / "c" / "train")


def test_processes_do_not_change_the_pool(inputs: Path, tmp_path: Path) -> None:
    build_pool([inputs], tmp_path / "a", CONFIG)
    build_pool([inputs], tmp_path / "b", CONFIG, processes=2)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def whole(inputs: Path, tmp_path_factory) -> dict[str, bytes]:
    """The pool of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pool, "MEGABYTE", 20_000)
        build_pool([inputs], folder, CONFIG)
    return contents(folder)


@pytest.mark.usefixtures("small_buckets")
@pytest.mark.parametrize("survived", [0, 3, 4, 9, 17, 33])
def test_a_killed_run_goes_on_and_gives_the_same_pool(
    inputs: Path, whole, tmp_path: Path, monkeypatch, survived: int
) -> None:
    left = [survived]

    def until_killed(function):
        def call(*arguments, **named):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return function(*arguments, **named)

        return call

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(pool_index.np, "savez", until_killed(np.savez))
        patched.setattr(pool, "write_regions", until_killed(write_regions))
        build_pool([inputs], tmp_path, CONFIG)
    assert not (tmp_path / "pool.json").exists()
    filtered = []
    with monkeypatch.context() as patched:
        judge = pool_index.removal_of
        patched.setattr(pool_index, "removal_of", lambda *given: filtered.append(given) or judge(*given))
        build_pool([inputs], tmp_path, CONFIG)
    # What was done is not done again.
    assert len(filtered) == (N_FILES - min(survived, N_FILES)) * (N_REGIONS + 2)
    assert contents(tmp_path) == whole


def test_a_finished_pool_is_not_overwritten_unasked(inputs: Path, tmp_path: Path) -> None:
    build_pool([inputs], tmp_path, CONFIG)
    before = contents(tmp_path)
    other = replace(CONFIG, seed=3)
    with pytest.raises(ConfigError, match=r"holds a finished pool of other inputs or settings.*--overwrite"):
        build_pool([inputs], tmp_path, other)
    with pytest.raises(ConfigError, match="holds a finished pool of other"):
        build_pool([inputs / "part-0.regions.parquet"], tmp_path, CONFIG)
    assert contents(tmp_path) == before
    (tmp_path / "mine.txt").write_text("keep")
    build_pool([inputs], tmp_path, PoolConfig(seed=3, shard_regions=200), overwrite=True)
    assert len(region_files(tmp_path / "train")) == 1 and (tmp_path / "mine.txt").read_text() == "keep"


def test_the_same_call_again_finds_the_pool_there(inputs: Path, tmp_path: Path, monkeypatch) -> None:
    report = build_pool([inputs], tmp_path, CONFIG)
    before = contents(tmp_path)
    (tmp_path / ".unfinished" / "index").mkdir(parents=True)  # of a run that was killed at its very end
    monkeypatch.setattr(pool, "index_file", _raise)
    lines: list[str] = []
    assert build_pool([inputs], tmp_path, CONFIG, say=lines.append) == report
    assert contents(tmp_path) == before and "there already" in lines[0]
    assert not (tmp_path / ".unfinished").exists()
    # Neither one that went through decontamination nor one that lost a shard is that pool.
    told = tmp_path / "pool.json"
    kept = told.read_text()
    told.write_text(json.dumps({**report, "decontamination": {}}))
    with pytest.raises(ConfigError, match="finished pool of other"):
        build_pool([inputs], tmp_path, CONFIG)
    told.write_text(kept)
    region_files(tmp_path / "train")[-1].unlink()
    with pytest.raises(ConfigError, match=r"train lacks shards of the finished pool.*--overwrite"):
        build_pool([inputs], tmp_path, CONFIG)


def test_an_edited_input_makes_another_pool(tmp_path: Path) -> None:
    file, config = tmp_path / "in" / "a.regions.parquet", replace(CONFIG, mixture=MixtureConfig(1.0, 0.0, 0.0))
    write_regions(file, [make_region(0), make_region(1)])
    build_pool([tmp_path / "in"], tmp_path / "p", config)
    write_regions(file, [make_region(0), make_region(5)])
    with pytest.raises(ConfigError, match="finished pool of other inputs"):
        build_pool([tmp_path / "in"], tmp_path / "p", config)


def interrupted(inputs: Path, out: Path, step: str, monkeypatch) -> None:
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(pool, step, _raise)
        build_pool([inputs], out, CONFIG)


def test_an_unfinished_pool_of_other_settings_is_refused_once_it_is_scattered(
    inputs: Path, tmp_path: Path, monkeypatch
) -> None:
    interrupted(inputs, tmp_path, "_gather", monkeypatch)
    with pytest.raises(ConfigError, match="unfinished pool of other inputs or settings"):
        build_pool([inputs], tmp_path, PoolConfig(seed=5))
    build_pool([inputs], tmp_path, CONFIG)


@pytest.mark.parametrize(
    ("changes", "n_filtered"),
    [
        ({"seed": 5}, 0),
        ({"mixture": MixtureConfig(1.0, 0.0, 0.0)}, 0),
        ({"filters": FilterConfig(check_repetition=False)}, N_FILES),
        ({"checkpoint": "nano"}, N_FILES),
    ],
)
def test_an_unfinished_pool_is_begun_anew_where_only_the_index_is_there(
    inputs: Path, tmp_path: Path, monkeypatch, changes: dict, n_filtered: int
) -> None:
    interrupted(inputs, tmp_path / "p", "plan_pool", monkeypatch)
    config = replace(CONFIG, **changes)
    filtered = []
    with monkeypatch.context() as patched:
        judge = pool_index.removal_of
        patched.setattr(pool_index, "removal_of", lambda *given: filtered.append(given) or judge(*given))
        report = build_pool([inputs], tmp_path / "p", config)
    assert len(filtered) == n_filtered * (N_REGIONS + 2)
    assert report == build_pool([inputs], tmp_path / "q", config)
    assert contents(tmp_path / "p") == contents(tmp_path / "q")


def _raise(*_):
    raise Killed


def test_places_that_cannot_hold_a_pool_are_refused(inputs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no region file"):
        build_pool([tmp_path], tmp_path / "p", CONFIG)
    with pytest.raises(ConfigError, match="holds the input"):
        build_pool([inputs], inputs, CONFIG)
    (tmp_path / "p" / "train").mkdir(parents=True)
    with pytest.raises(ConfigError, match="no part of a pool"):
        build_pool([inputs], tmp_path / "p", CONFIG)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        build_pool([inputs], tmp_path / "file" / "p", CONFIG)


def test_a_broken_input_is_named(inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bad.regions.parquet").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"bad\.regions\.parquet"):
        build_pool([inputs, tmp_path / "in"], tmp_path / "p", CONFIG)


def test_missing_tasks_are_told_before_anything_is_filtered(tmp_path: Path) -> None:
    file = tmp_path / "in" / "a.regions.parquet"
    write_regions(file, [make_region(0, target="", target_origin="pending")])
    told = "no text and no table and no formula region is left .*pending are 1 text: gravityocr data transcribe .*data$"
    with pytest.raises(InputError, match=told):
        build_pool([tmp_path / "in"], tmp_path / "p", CONFIG)
    write_regions(file, [make_region(0)])
    with pytest.raises(InputError, match=r"no table and no formula region .*\(the inputs hold none\)"):
        build_pool([tmp_path / "in"], tmp_path / "p", CONFIG)
    assert not (tmp_path / "p").exists()


def test_tasks_that_the_filters_took_are_told_with_the_reasons(tmp_path: Path) -> None:
    regions = [*(make_region(number) for number in range(8)), make_region(2, target="<table><tr></table>")]
    broken = [replace(one, target="<table><tr></table>") if one.task == "table" else one for one in regions]
    write_regions(tmp_path / "in" / "a.regions.parquet", broken)
    with pytest.raises(InputError, match=r"no table region is left .*\(removed were 3 (broken|empty)_table\)"):
        build_pool([tmp_path / "in"], tmp_path / "p", CONFIG)


def test_tasks_that_the_validation_split_took_are_told(tmp_path: Path) -> None:
    regions = [make_region(0, doc_id="a"), make_region(1, doc_id="a"), make_region(3, doc_id="b")]
    mixture = MixtureConfig(1.0, 0.0, 1.0)
    for seed in range(20):  # one of the two documents is held out
        out = tmp_path / str(seed)
        write_regions(tmp_path / "in" / "a.regions.parquet", [replace(one, source="s") for one in regions])
        with pytest.raises(InputError, match=r"the validation split holds all there are: \d (text|formula); --set v"):
            build_pool([tmp_path / "in"], out, replace(CONFIG, seed=seed, mixture=mixture))
    free = replace(CONFIG, mixture=mixture, validation=SplitConfig(share=0.0))
    assert build_pool([tmp_path / "in"], tmp_path / "0", free)["splits"]["train"]["n_regions"] == 2


def test_the_command_line_of_the_message_works(tmp_path: Path) -> None:
    write_regions(tmp_path / "my in" / "a.regions.parquet", [make_region(number) for number in (0, 1, 4, 5)])
    arguments = ["data", "pool", str(tmp_path / "my in"), "--out", str(tmp_path / "p"), "--set", "seed=4"]
    failed = CliRunner().invoke(app, arguments)
    line = str(failed.exception).partition(", which is: ")[2]
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == 0, done.exception
    assert json.loads((tmp_path / "p" / "pool.json").read_text())["seed"] == 4
    again = CliRunner().invoke(app, shlex.split(line)[1:])
    assert again.exit_code == 0 and "there already" in again.stderr and again.stdout == done.stdout


def test_targets_that_a_checkpoint_cannot_write_are_removed(tmp_path: Path) -> None:
    odd = make_region(4, target="Line \u0e01 and \U0001f600 and \u0e01")
    write_regions(tmp_path / "in" / "a.regions.parquet", [*(make_region(number) for number in range(4)), odd])
    arguments = ["data", "pool", str(tmp_path / "in"), "--set", "validation.share=0", "--json", "--out"]
    kept = json.loads(CliRunner().invoke(app, [*arguments, str(tmp_path / "a")]).stdout)
    assert kept["stages"]["removed"] == 0 and kept["settings"]["checkpoint"] == "none"
    done = json.loads(CliRunner().invoke(app, [*arguments, str(tmp_path / "b"), "--checkpoint", "nano"]).stdout)
    assert done["removed_by_reason"] == {"unwritable": 1} and done["settings"]["checkpoint"] == "nano"
    detail = "the tokenizer of nano lacks U+0E01 \u0e01, U+1F600 \U0001f600"
    assert [example["detail"] for example in done["examples"]] == [detail]
    missing = CliRunner().invoke(app, [*arguments, str(tmp_path / "c"), "--checkpoint", str(tmp_path / "none")])
    assert isinstance(missing.exception, CheckpointError)


def test_no_message_has_an_address(tmp_path: Path) -> None:
    cut = make_region(4).image[:200]
    bad = [make_region(4, image=b"no picture"), make_region(8, image=cut), make_region(12, image=b"")]
    write_regions(tmp_path / "in" / "a.regions.parquet", [*(make_region(number) for number in range(4)), *bad])
    report = build_pool([tmp_path / "in"], tmp_path / "p", replace(CONFIG, validation=SplitConfig(share=0.0)))
    assert report["removed_by_reason"] == {"broken_picture": 3} and len(report["examples"]) == 3
    assert "0x" not in json.dumps(report["examples"])


def test_the_command_makes_a_pool_and_prints_its_report(inputs: Path, tmp_path: Path) -> None:
    config = tmp_path / "pool.toml"
    config.write_text("seed = 7\n[mixture]\ntable = 0.0\n[filters.length]\ntext = [1, 100000]\n")
    arguments = ["data", "pool", str(inputs), "--out", str(tmp_path / "p"), "--config", str(config)]
    done = CliRunner().invoke(app, [*arguments, "--set", "filters.check_repetition=false", "--json"])
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and report["seed"] == 7 and report["stages"]["removed"] == 0
    assert report["mixture"]["table"]["taken"] == 0 and report["mixture"]["text"]["wanted"] == 0.75
    assert report["settings"]["filters"]["length"]["text"] == [1, 100000]
    again = CliRunner().invoke(app, [*arguments, "--overwrite"])
    assert "repetition         4" in again.stdout and "wanted 75.0 %" in again.stdout
    wrong = CliRunner().invoke(app, [*arguments, "--set", "mixture.tables=1"])
    assert isinstance(wrong.exception, ConfigError) and "did you mean" in str(wrong.exception)


def test_mixtures_of_one_task_need_no_other(inputs: Path, tmp_path: Path) -> None:
    report = build_pool([inputs], tmp_path, PoolConfig(mixture=MixtureConfig(1.0, 0.0, 0.0)))
    assert {group["task"] for group in report["groups"] if group["train"]} == {"text"}


def test_lost_parts_of_an_unfinished_pool_are_told(inputs: Path, tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(pool, "_gather", _raise)
        build_pool([inputs], tmp_path, CONFIG)
    next((tmp_path / ".unfinished" / "scatter").rglob("*.scattered")).unlink()
    with pytest.raises(InputError, match=r"lacks regions of the unfinished pool.*--overwrite"):
        build_pool([inputs], tmp_path, CONFIG)


def test_nothing_but_a_pool_is_overwritten(tmp_path: Path) -> None:
    write_regions(tmp_path / "in.regions.parquet", map(make_region, range(30)))
    photos = tmp_path / "out" / "train" / "photos.txt"
    photos.parent.mkdir(parents=True)
    photos.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"photos\.txt is no part of a pool; remove it yourself"):
        build_pool([tmp_path / "in.regions.parquet"], tmp_path / "out", PoolConfig(), overwrite=True)
    assert photos.read_text(encoding="utf-8") == "mine"


def test_a_pool_inside_of_its_input_is_refused(tmp_path: Path) -> None:
    write_regions(tmp_path / "in" / "a.regions.parquet", map(make_region, range(30)))
    with pytest.raises(ConfigError, match="lies in the input"):
        build_pool([tmp_path / "in"], tmp_path / "in" / "out", PoolConfig())
    assert not (tmp_path / "in" / "out").exists()


def test_a_pool_without_validation_says_so(tmp_path: Path) -> None:
    write_regions(tmp_path / "in.regions.parquet", map(make_region, range(30)))
    said: list[str] = []
    config = PoolConfig(validation=SplitConfig(share=0.0))
    build_pool([tmp_path / "in.regions.parquet"], tmp_path / "out", config, say=said.append)
    assert any("no document is held out" in line for line in said)
    with pytest.raises(InputError, match=r"holds no document out for validation"):
        pool_files(str(tmp_path / "out"), "validation")
