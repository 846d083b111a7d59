"""The prompt pool: what it holds, that a killed run goes on, and what it refuses."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.prompt_pools import ScriptedSampler, as_reward, many, region, write_pool

from gravityocr.errors import ConfigError, InputError
from gravityocr.rl.prompt_choice import FATES, PromptConfig
from gravityocr.rl.prompts import REPORT, mine_prompts, prompt_files
from gravityocr.rl.trials import TRIALS_FILE, TrialProgress
from gravityocr.training.corpora.benchmark_index import BenchmarkIndex, DecontaminationConfig
from gravityocr.training.corpora.benchmark_items import read_benchmark
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.state import lock_folder

CONFIG = PromptConfig(n_trials=4, n_prompts=20, table_share=0.6, text_share=0.2, formula_share=0.2, batch_regions=3)


@pytest.fixture
def pool(tmp_path: Path) -> str:
    return write_pool(tmp_path / "pool", many(40, 12, 12), n_files=2)


def mine(config: PromptConfig, folder: Path, sampler: ScriptedSampler | None, mark: str = "nano", **others: Any):
    return mine_prompts(config, folder, sampler, mark, reward=as_reward, **others)


def untimed(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "seconds"}


def prompts_of(folder: Path) -> list[Any]:
    return [one for file in prompt_files(folder) for one in RegionFile(file)]


def test_the_prompts_are_regions_of_the_pool_in_the_wanted_mixture(pool: str, tmp_path: Path) -> None:
    config = replace(CONFIG, pool=pool)
    report = mine(config, tmp_path / "out", ScriptedSampler())
    prompts = prompts_of(tmp_path / "out")
    known = {one.region_id: one for file in sorted(Path(pool).rglob("*.parquet")) for one in RegionFile(file)}
    assert all(one == known[one.region_id] for one in prompts)
    assert Counter(one.task for one in prompts) == {"table": 12, "text": 4, "formula": 4}
    places = [[*known].index(one.region_id) for one in prompts]
    assert places != sorted(places)
    assert report == json.loads((tmp_path / "out" / REPORT).read_text(encoding="utf-8"))
    assert report["mixture"]["table"] == {
        "share_wanted": 0.6, "available": 40, "wanted": 12, "taken": 12, "share": 0.6
    }  # fmt: skip
    assert sum(report["mean_reward"]["chosen"]["all"]["counts"]) == report["n_prompts"] == 20
    assert sum(report["mean_reward"]["tried"]["table"]["counts"]) == 40
    assert report["trials"]["n_rollouts"] == 64 * 4 and report["trials"]["n_tokens"] == 64 * (1 + 2 + 3 + 4)


def test_the_papers_mixture_is_reached_to_the_prompt(tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "pool", many(300, 40, 20))
    mine(PromptConfig(pool=pool, n_trials=2, n_prompts=250), tmp_path / "out", ScriptedSampler())
    assert Counter(one.task for one in prompts_of(tmp_path / "out")) == {"table": 230, "text": 15, "formula": 5}


@pytest.mark.parametrize("n_regions", [0, 1, 7, 30, 63])
@pytest.mark.parametrize("n_cut_off", [0, 9])
def test_a_killed_run_goes_on_to_the_same_pool(pool: str, tmp_path: Path, n_regions: int, n_cut_off: int) -> None:
    config, whole, killed = replace(CONFIG, pool=pool), tmp_path / "whole", tmp_path / "killed"
    expected = mine(config, whole, ScriptedSampler())
    first = ScriptedSampler(n_regions=n_regions)
    with pytest.raises(KeyboardInterrupt):
        mine(config, killed, first)
    journal = killed / TRIALS_FILE
    with journal.open("r+b") as stream:  # the last line, torn
        stream.truncate(stream.seek(0, 2) - n_cut_off)
    n_kept = len(first.seen) - bool(n_cut_off and first.seen)
    with pytest.raises(InputError, match="no finished prompt pool"):
        prompt_files(killed)
    second = ScriptedSampler()
    report = mine(replace(config, batch_regions=5), killed, second)
    assert sorted([*first.seen[:n_kept], *second.seen]) == sorted(f"r/{number}" for number in range(64))
    assert untimed(report) == untimed(expected)
    assert [one.read_bytes() for one in prompt_files(killed)] == [one.read_bytes() for one in prompt_files(whole)]


def test_a_finished_pool_is_used_again_without_a_trial(pool: str, tmp_path: Path) -> None:
    config = replace(CONFIG, pool=pool)
    report = mine(config, tmp_path / "out", ScriptedSampler())
    mark = prompt_files(tmp_path / "out")[0].stat().st_mtime_ns
    moved = shutil.copytree(pool, tmp_path / "moved")
    for again in (config, replace(config, overwrite=True, batch_regions=1), replace(config, pool=str(moved))):
        assert mine(again, tmp_path / "out", None) == report
    assert prompt_files(tmp_path / "out")[0].stat().st_mtime_ns == mark


def test_the_seed_alone_decides_the_draw(pool: str, tmp_path: Path) -> None:
    config = replace(CONFIG, pool=pool)
    ids, seeds = [], []
    for number, seed in enumerate((0, 0, 1)):
        sampler = ScriptedSampler()
        mine(replace(config, seed=seed), tmp_path / f"{number}", sampler)
        ids.append([one.region_id for one in prompts_of(tmp_path / f"{number}")])
        seeds.append(sampler.seeds)
    assert ids[0] == ids[1] != ids[2]
    # One seed for all trials of a run, and none with which training would sample the same rollouts again.
    assert seeds[0] == seeds[1] != seeds[2] and [len(one) for one in seeds] == [1, 1, 1] and 0 not in seeds[0]


def test_prompts_without_variance_are_dropped_and_counted_by_kind(tmp_path: Path) -> None:
    rewards = {
        "solved": [1.0, 1.0], "nearly solved": [1.0, 1.0 - 1e-12], "hopeless": [0.0, 0.0], "flat": [0.3, 0.3],
        "nearly flat": [0.3, 0.301], "cut": [0.1, 0.9], "good": [0.1, 0.9], "half cut": [0.1, 0.9],
    }  # fmt: skip
    pool = write_pool(tmp_path / "pool", [region(name) for name in rewards])
    sampler = ScriptedSampler(rewards, n_cut={"cut": 4, "half cut": 3})
    report = mine(replace(CONFIG, pool=pool, min_std=0.01), tmp_path / "out", sampler)
    assert {one.region_id for one in prompts_of(tmp_path / "out")} == {"good", "half cut"}
    counts = {fate: report["fates"][fate]["table"] for fate in FATES if report["fates"][fate]["all"]}
    assert counts == {"chosen": 2, "solved": 2, "hopeless": 1, "flat": 1, "nearly_flat": 1, "cut": 1}
    assert report["trials"]["n_truncated"] == 7 and report["trials"]["n_candidates_truncated"] == 2
    assert report["stages"]["varied"]["all"] == 2


def test_what_cannot_be_tried_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    odd = [
        region("no picture", image=b"PNG?"), region("pending", target="abc", target_origin="pending"),
        region("no target", target=" "), region("too large"), region("r/0"), region("far too big", "text"),
    ]  # fmt: skip
    pool = write_pool(tmp_path / "pool", [*many(10, 2, 2), *odd])
    sampler = ScriptedSampler(broken={"too large", "far too big"})
    report = mine(replace(CONFIG, pool=pool), tmp_path / "out", sampler)
    reasons = {row["region_id"]: row["reason"] for row in report["skipped"]}
    assert reasons.keys() == {one.region_id for one in odd}
    assert "picture is broken" in reasons["no picture"] and "too large" in reasons["too large"]
    assert "transcribe" in reasons["pending"] and "transcribe" in reasons["no target"] and "twice" in reasons["r/0"]
    assert report["fates"]["skipped"] == {"all": 6, "text": 1, "table": 5, "formula": 0}
    assert report["stages"]["tried"]["all"] == 14
    assert len(sampler.seen) == 14


def test_what_a_benchmark_holds_is_never_tried(tmp_path: Path) -> None:
    row = "".join(f"<td>unlikely cell {number}</td>" for number in range(8))
    held = f"<table><tr>{row}</tr></table>"
    sentence = "the quick brown fox jumps over the lazy dog and nobody ever knew why it did so at all"
    regions = [*many(10, 4, 4), region("held/table", target=held), region("held/text", "text", sentence)]
    part = f"{' '.join(sentence.split()[:11])} while everything else in this long line was written by someone unknown"
    regions.append(region("near", "text", part))
    pool = write_pool(tmp_path / "pool", [*regions, region("held/document", doc_id="secret_document_2031.pdf")])
    lines = [{"id": "a", "task": "table", "text": held, "doc_id": "secret_document_2031"},
             {"id": "b", "task": "text", "text": sentence}]  # fmt: skip
    benchmark = tmp_path / "benchmark.jsonl"
    benchmark.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    config = replace(CONFIG, pool=pool, benchmark=str(benchmark), n_prompts=100)
    sampler = ScriptedSampler()
    report = mine(config, tmp_path / "out", sampler)
    index = BenchmarkIndex([read_benchmark(benchmark)], DecontaminationConfig())
    assert [match.is_removal for match in index.matches("near", "text", part)] == [False] and "near" in sampler.seen
    assert not any(name.startswith("held") for name in sampler.seen)
    assert not any(one.region_id.startswith("held") for one in prompts_of(tmp_path / "out"))
    assert report["decontamination"]["n_removed"] == 3
    assert {row["region_id"] for row in report["decontamination"]["removed"]} == {
        "held/table", "held/text", "held/document"
    }  # fmt: skip
    assert {"document", "table", "text"} <= report["decontamination"]["by_criterion"].keys()
    assert report["fates"]["decontaminated"] == {"all": 3, "text": 1, "table": 2, "formula": 0}


def test_a_limit_of_candidates_is_kept_by_task_and_the_rest_is_told(pool: str, tmp_path: Path) -> None:
    sampler = ScriptedSampler()
    config = replace(CONFIG, pool=pool, max_candidates=7, formula_share=0.0)
    report = mine(config, tmp_path / "out", sampler)
    assert report["stages"]["tried"] == {"all": 14, "text": 7, "table": 7, "formula": 0}
    assert report["fates"]["not_tried"] == {"all": 50, "text": 5, "table": 33, "formula": 12}
    assert len(sampler.seen) == 14
    more = ScriptedSampler()
    mine(replace(config, max_candidates=9, overwrite=True), tmp_path / "out", more)
    assert len(more.seen) == 4 and not {*more.seen} & {*sampler.seen}  # the first ones are still among them


def test_trials_of_other_settings_are_refused_until_overwritten(pool: str, tmp_path: Path) -> None:
    config, out = replace(CONFIG, pool=pool), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        mine(config, out, ScriptedSampler(n_regions=10))
    kept = (out / TRIALS_FILE).read_bytes()
    other_pool = write_pool(tmp_path / "other", many(40, 12, 12, seed=1))
    for change, mark, what in (
        ({"n_trials": 5}, "nano", "n_trials"), ({"seed": 1}, "nano", "seed"), ({}, "another", "checkpoint"),
        ({"pool": other_pool}, "nano", "pool_mark"), ({"max_tokens": 9}, "nano", "max_tokens"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"another {what}.*prompts.overwrite"):
            mine(replace(config, **change), out, None, mark)
        assert (out / TRIALS_FILE).read_bytes() == kept
    sampler = ScriptedSampler()
    mine(replace(config, overwrite=True), out, sampler, "another")
    assert len(sampler.seen) == 64


def test_a_pool_of_other_settings_is_refused_and_drawn_anew_out_of_the_same_trials(pool: str, tmp_path: Path) -> None:
    config, out = replace(CONFIG, pool=pool), tmp_path / "out"
    mine(config, out, ScriptedSampler())
    other = replace(config, n_prompts=10, hardness=3.0)
    with pytest.raises(ConfigError, match=r"prompts\.n_prompts \(20, now 10\).*overwrite"):
        mine(other, out, None)
    with pytest.raises(ConfigError, match="another checkpoint"):
        mine(config, out, None, "another")
    assert len(prompts_of(out)) == 20
    assert mine(replace(other, overwrite=True), out, None)["n_prompts"] == len(prompts_of(out)) == 10
    prompt_files(out)[0].unlink()
    with pytest.raises(ConfigError, match="shards are missing"):
        mine(other, out, None)


def test_prompts_that_are_replaced_are_never_taken_for_the_new_ones(
    pool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*args: object) -> None:
        raise KeyboardInterrupt

    config, out = replace(CONFIG, pool=pool), tmp_path / "out"
    mine(config, out, ScriptedSampler())
    other = replace(config, n_prompts=10, overwrite=True)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("gravityocr.rl.prompts.write_regions", die)
        mine(other, out, None)
    assert len(prompts_of(out)) == 20
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("gravityocr.rl.prompts.write_json", die)
        mine(other, out, None)
    with pytest.raises(InputError, match="no finished prompt pool"):
        prompt_files(out)
    assert mine(replace(other, overwrite=False), out, None)["n_prompts"] == len(prompts_of(out)) == 10


def test_two_runs_do_not_share_a_folder(pool: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with lock_folder(tmp_path / "out"), pytest.raises(ConfigError, match=r"another run mines.*prompts\.folder"):
        mine(replace(CONFIG, pool=pool), tmp_path / "out", None)
    mine(replace(CONFIG, pool=pool), tmp_path / "out", ScriptedSampler())


def test_where_nothing_is_left_the_message_says_why(tmp_path: Path) -> None:
    regions = [region("a"), region("b"), region("c", image=b"no")]
    pool = write_pool(tmp_path / "pool", regions)
    sampler = ScriptedSampler({"a": [1.0], "b": [0.0]})
    with pytest.raises(InputError, match=r"1 solved, 1 hopeless, 1 skipped; .*region c.*n_trials"):
        mine(replace(CONFIG, pool=pool), tmp_path / "out", sampler)
    sampler = ScriptedSampler({"a": [1.0, 0.0]})
    with pytest.raises(InputError, match=r"no text and formula prompt is left.*shortfall.*prompts\.text_share = 0"):
        mine(replace(CONFIG, pool=pool, shortfall="shrink"), tmp_path / "other", sampler)
    assert mine(replace(CONFIG, pool=pool), tmp_path / "kept", sampler)["n_prompts"] == 2
    with pytest.raises(InputError, match=r"prompts\.pool 'nowhere'"):
        mine(replace(CONFIG, pool="nowhere"), tmp_path / "none", sampler)


def test_progress_is_told_from_the_first_trial_to_the_last(pool: str, tmp_path: Path) -> None:
    config, told = replace(CONFIG, pool=pool), []
    tell = lambda progress: told.append(replace(progress))  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        mine(config, tmp_path / "out", ScriptedSampler(n_regions=10))
    mine(config, tmp_path / "out", ScriptedSampler(), on_progress=tell)
    assert told[0] == TrialProgress(64, n_kept=9)
    assert [one.n_tried for one in told] == list(range(56))
    assert told[-1].n_varied == 55 and 0.3 < told[-1].mean_reward < 0.7


def test_what_is_told_is_in_the_journal_already(pool: str, tmp_path: Path) -> None:
    def stop(progress: TrialProgress) -> None:
        if progress.n_tried == 4:  # the first of the second batch
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mine(replace(CONFIG, pool=pool), tmp_path / "out", ScriptedSampler(), on_progress=stop)
    assert len((tmp_path / "out" / TRIALS_FILE).read_text(encoding="utf-8").splitlines()) == 1 + 6


def test_the_shipped_pool_is_mined_with_the_rewards_of_training(tmp_path: Path) -> None:
    class Copyist(ScriptedSampler):
        """Writes tables with a cell too much now and then, and all else as it is."""

        def sample(self, regions, n_rollouts: int, seed: int):
            groups = super().sample(regions, n_rollouts, seed)
            for one, group in zip(regions, groups, strict=True):
                for number, rollout in enumerate(group):
                    damage = "<tr><td>odd</td></tr>" if one.task == "table" and number % 2 else ""
                    group[number] = replace(rollout, text=one.target + damage)
            return groups

    config = PromptConfig(n_trials=2, max_candidates=5, n_prompts=4)
    report = mine_prompts(config, tmp_path / "out", Copyist(), "nano")
    assert report["fates"]["solved"] == {"all": 10, "text": 5, "table": 0, "formula": 5}
    assert report["mixture"]["table"] == {
        "share_wanted": 0.92, "available": 5, "wanted": 4, "taken": 4, "share": 1.0
    }  # fmt: skip
    assert 0.5 < report["mean_reward"]["chosen"]["table"]["mean"] < 1.0


def test_an_empty_train_split_is_not_cured_by_more_trials(tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "pool", [])
    with pytest.raises(InputError, match="the train split is empty") as found:
        mine_prompts(PromptConfig(pool=pool), tmp_path / "out", ScriptedSampler(), "nano")
    assert "n_trials" not in str(found.value)
