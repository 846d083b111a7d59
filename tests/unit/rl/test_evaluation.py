"""Held-out readings: which regions, how they are read and scored, and that one failure costs one record."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.prompt_pools import region
from tests.tex_tools import needs_tex

from gravityocr.document import Task
from gravityocr.engine.engine import Engine
from gravityocr.engine.uncut import UncutCrop
from gravityocr.errors import CapacityError, ConfigError, InputError
from gravityocr.metrics.formulas.tex_runner import ToolMissingError
from gravityocr.metrics.teds import score_teds
from gravityocr.rl import evaluation
from gravityocr.rl.evaluation import (
    EvaluationConfig,
    as_tables,
    check_tools,
    evaluate,
    held_out,
    reading_engine,
    tpf_alarm,
)
from gravityocr.rl.evaluation_records import RegionRecord, summarize
from gravityocr.rl.rewards import reward_of
from gravityocr.rl.seeds import seed_of
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, write_regions

FEW = EvaluationConfig(n_crops=3, max_tokens=200)


@pytest.fixture(scope="module")
def nano() -> Engine:
    return Engine.from_pretrained("nano")


@pytest.fixture(scope="module")
def sample() -> dict[str, list[LabelledRegion]]:
    return held_out(FEW, "sample")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("every", 0),
        ("n_crops", 0),
        ("n_whole_crops", 0),
        ("block_size", 0),
        ("max_tokens", 0),
        ("max_tpf_fall", -0.1),
        ("seed", -1),
        ("on_tpf_fall", "ignore"),
        ("pool", ""),
        ("whole_crops", ""),
    ],
)
def test_a_setting_out_of_range_is_named(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"evaluation.{field}"):
        EvaluationConfig(**{field: value})


def test_regions_come_by_task_and_the_seed_alone_draws_them(sample: dict[str, list[LabelledRegion]]) -> None:
    assert {task: len(regions) for task, regions in sample.items()} == {"text": 3, "table": 3, "formula": 3}
    assert [*sample] == ["text", "table", "formula"]
    assert all(one.task == task for task, regions in sample.items() for one in regions)
    again = held_out(replace(FEW, every=7), "sample")
    other = held_out(replace(FEW, seed=1), "sample")
    ids = [[one.region_id for regions in drawn.values() for one in regions] for drawn in (sample, again, other)]
    assert ids[0] == ids[1] != ids[2]


def test_more_regions_hold_those_of_fewer_in_the_same_order(tmp_path: Path) -> None:
    file = tmp_path / f"w{SUFFIX}"
    write_regions(file, [region(f"w{i}") for i in range(12)])

    def ids(n: int) -> list[str]:
        kinds = held_out(replace(FEW, whole_crops=str(file), n_whole_crops=n), "sample")
        return [one.region_id for one in kinds["whole_table"]]

    drawn = [ids(n) for n in range(1, 13)]
    for fewer, more in pairwise(drawn):
        assert fewer == [name for name in more if name in fewer]
        assert len(more) == len(fewer) + 1
    assert drawn[3] != drawn[-1][:4]  # drawn, not the first ones
    write_regions(file, [region(f"w{i}") for i in range(13)])  # one more in the pool does not change the others
    assert len({*drawn[3]} & {*ids(4)}) >= 3


def test_regions_without_a_target_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / f"w{SUFFIX}"
    held_back = [region("blank", target=" \n"), region("empty", target=""), region("wait", target_origin="pending")]
    write_regions(file, [*held_back, region("good")])
    kinds = held_out(replace(FEW, whole_crops=str(file), n_whole_crops=9), "sample")
    assert [one.region_id for one in kinds["whole_table"]] == ["good"]


def test_the_pool_of_the_evaluation_goes_before_that_of_the_prompts() -> None:
    assert held_out(replace(FEW, pool="sample"), "no-such-pool").keys() == {"text", "table", "formula"}


def test_a_pool_without_held_out_regions_is_named_with_the_remedy(tmp_path: Path) -> None:
    write_regions(tmp_path / "train" / f"a{SUFFIX}", [region("a")])
    with pytest.raises(InputError, match=rf"{tmp_path.name}.*validation\.share.*evaluation\.pool"):
        held_out(FEW, str(tmp_path))
    write_regions(tmp_path / "validation" / f"a{SUFFIX}", [region("a", target="")])
    with pytest.raises(InputError, match="its validation split holds no target"):
        held_out(FEW, str(tmp_path))


def test_whole_crops_become_kinds_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / f"whole{SUFFIX}"
    write_regions(file, [region(f"w{i}") for i in range(4)] + [region("no", target="")])
    kinds = held_out(replace(FEW, whole_crops=str(file), n_whole_crops=9), "sample")
    assert [one.region_id for one in kinds["whole_table"]] == ["w0", "w1", "w2", "w3"]
    write_regions(file, [region("no", target="")])
    with pytest.raises(InputError, match="evaluation.whole_crops"):
        held_out(replace(FEW, whole_crops=str(file)), "sample")


def test_an_id_that_comes_twice_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    for name in "ab":
        write_regions(tmp_path / f"{name}{SUFFIX}", [region("same"), region(name)])
    with pytest.raises(InputError, match="2 held-out regions of kind whole_table are called same"):
        held_out(replace(FEW, whole_crops=str(tmp_path)), "sample")


def test_a_missing_file_of_whole_crops_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        held_out(replace(FEW, whole_crops=str(tmp_path / "nowhere")), "sample")


def test_nano_reads_the_sample_and_every_record_says_how(nano: Engine, sample) -> None:
    found = evaluate(nano, sample, replace(FEW, identity=True))
    assert [one.region_id for one in found.records] == [one.region_id for part in sample.values() for one in part]
    for one, of in zip(found.records, (one for part in sample.values() for one in part), strict=True):
        assert (one.kind, one.task, one.ref, one.status, one.error) == (of.task, of.task, of.target, "ok", None)
        assert one.reward == reward_of(of.task, one.pred, of.target)
        assert one.n_tokens == one.n_decoded + 1
        assert 0 < one.n_rounds <= one.n_forwards <= one.n_decoded
        assert (one.teds is None) == (of.task != "table")
        assert one.cdm is None
        assert one.identical is True  # fp32: self-speculation is the AR path
    tables = found.summary["kinds"]["table"]
    assert tables["teds"] > 0.9  # of bare rows: without a table around them TEDS would be 0
    assert tables["identical"] == 1.0
    assert found.summary["all"]["tpf"] > 2.0
    assert found.summary["quality"] > 0.8


def test_a_reading_is_the_same_every_time_and_without_being_asked_nothing_is_compared(nano: Engine, sample) -> None:
    first, second = (evaluate(nano, {"text": sample["text"]}, FEW).records for _ in range(2))
    assert first == second
    assert all(one.identical is None for one in first)


def test_the_engine_reads_greedily_in_fixed_windows_whatever_it_did_before(nano: Engine) -> None:
    loose = nano.with_config(decode="ar", windows="adaptive", log_probs=True, stop_strings=("a",), n_candidates=2)
    reader = reading_engine(loose, FEW)
    assert (reader.mode, reader.options.block_size) == ("self-spec", nano.checkpoint.diffusion.bd_size)
    assert reader.options.planner is None
    assert reader.options.draft_head is None
    assert reader.config.sampling.temperature == 0
    assert not reader.config.stop_strings
    assert reading_engine(nano, replace(FEW, block_size=5)).options.block_size == 5
    assert reading_engine(nano, replace(FEW, draft_head=True)).options.draft_head is not None


def test_smaller_blocks_lower_tpf_and_leave_the_text(nano: Engine, sample) -> None:
    own, small = (evaluate(nano, sample, replace(FEW, block_size=size)) for size in (None, 1))
    assert [one.pred for one in own.records] == [one.pred for one in small.records]
    assert small.summary["all"]["tpf"] < own.summary["all"]["tpf"] - 0.5


def test_a_reading_that_reaches_the_limit_is_counted(nano: Engine, sample) -> None:
    found = evaluate(nano, {"text": sample["text"]}, replace(FEW, max_tokens=1))
    assert {one.status for one in found.records} == {"truncated"}
    assert found.summary["kinds"]["text"]["n_truncated"] == 3


def test_a_broken_picture_costs_its_own_record_alone(nano: Engine, sample) -> None:
    good = sample["text"]
    kinds = {"text": [good[0], replace(good[1], image=b"no picture"), good[2]],
             "whole_text": [replace(good[1], image=b"no picture"), good[0]]}  # fmt: skip
    found = evaluate(nano, kinds, FEW)
    assert [one.status for one in found.records] == ["ok", "failed", "ok", "failed", "ok"]
    assert "its picture is broken" in str(found.records[1].error)
    assert found.records[1].reward is None
    assert found.summary["all"]["n_failed"] == 2
    alone = evaluate(nano, {"text": [good[0], good[2]]}, FEW)
    assert [found.records[0], found.records[2]] == [*alone.records]


def test_samples_that_fail_cost_their_own_region_alone(
    nano: Engine, sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(FEW, n_samples=2)
    kinds = {"text": sample["text"]}
    before = evaluate(nano, kinds, config).records
    bad = seed_of(config.seed, kinds["text"][1].region_id, 0)
    real = evaluation.read_uncut

    def refuse(engine: Engine, crops: list[UncutCrop]) -> object:
        if any(bad in crop.seeds for crop in crops):
            raise CapacityError("too large")
        return real(engine, crops)

    monkeypatch.setattr(evaluation, "read_uncut", refuse)
    after = evaluate(nano, kinds, config).records
    assert after[1] == replace(before[1], sampled_reward=None)
    assert (after[0], after[2]) == (before[0], before[2])
    assert before[0].sampled_reward is not None


def test_scores_that_fail_cost_their_own_record_alone(nano: Engine, sample, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = sample["text"][1].target

    def refuse(task: Task, pred: str, ref: str, settings: object) -> float:
        if ref == bad:
            raise RecursionError("too deep")
        return 0.5

    monkeypatch.setattr(evaluation, "reward_of", refuse)
    records = evaluate(nano, {"text": sample["text"]}, FEW).records
    assert [one.status for one in records] == ["ok", "failed", "ok"]
    assert "too deep" in str(records[1].error)


def test_whole_crops_are_cut_and_joined(nano: Engine, repo_root: Path) -> None:
    picture = repo_root / "tests" / "data" / "crops"
    crop = sorted(picture.glob("table*.png"))[0].read_bytes()
    whole = LabelledRegion("w", crop, 1, 1, "table", "<table><tr><td>a</td></tr></table>", "s", "d")
    (record,) = evaluate(nano, {"whole_table": [whole]}, FEW).records
    assert record.pred.startswith("<table>")
    assert record.pred.count("<tr>") > 1
    assert record.n_tokens - record.n_decoded > 1  # of every piece the first token costs no forward
    assert record.teds == score_teds(record.pred, whole.target).teds


def test_bare_rows_are_wrapped_only_where_the_reference_is_such() -> None:
    rows, table = "<tr><td>a</td></tr>", "<table><tr><td>a</td></tr></table>"
    assert as_tables(rows, rows) == (table, table)
    assert as_tables(table, rows) == (table, table)
    assert as_tables(rows, table) == (rows, table)
    assert as_tables("", rows) == ("<table></table>", table)


def records(kind: str, n_decoded: int, n_forwards: int) -> list[RegionRecord]:
    task = kind.removeprefix("whole_")
    return [RegionRecord("a", kind, task, "x", n_decoded=n_decoded, n_forwards=n_forwards)]  # type: ignore[arg-type]


def test_an_alarm_names_the_fall_and_small_kinds_alone_raise_none() -> None:
    before = summarize(records("text", 40, 10) + records("table", 4000, 1000))
    small = summarize(records("text", 20, 10) + records("table", 4000, 1000))
    large = summarize(records("text", 40, 10) + records("table", 3800, 1000))
    config = EvaluationConfig(max_tpf_fall=0.02)
    assert tpf_alarm(config, before, before) is None
    assert tpf_alarm(config, before, small) is None
    assert tpf_alarm(config, large, before) is None  # a rise
    assert "TPF fell by 5.0%" in str(tpf_alarm(config, before, large))
    assert "table 4.00 to 3.80" in str(tpf_alarm(config, before, large))


def test_tools_are_proven_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(config: object) -> None:
        raise ToolMissingError("pdflatex is not installed")

    monkeypatch.setattr(evaluation, "check_toolchain", missing)
    check_tools(EvaluationConfig())
    with pytest.raises(ConfigError, match=r"pdflatex is not installed; .*evaluation\.cdm = false"):
        check_tools(EvaluationConfig(cdm=True))


@needs_tex
def test_formulas_are_scored_by_what_they_look_like(nano: Engine, sample) -> None:
    good = sample["formula"][0]
    kinds = {"formula": [good, replace(good, region_id="odd", target=r"\nosuchcommand")], "text": sample["text"][:1]}
    found = evaluate(nano, kinds, replace(FEW, cdm=True))
    right, odd, text = found.records
    assert right.cdm is not None
    assert right.cdm > 0.5
    assert odd.cdm is None  # a reference that shows nothing has no score
    assert text.cdm is None
    assert found.summary["kinds"]["formula"]["cdm"] == right.cdm
