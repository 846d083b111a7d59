"""What happens beside the updates: when it is evaluated, which weights are kept, when a run stops, what is logged."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.grpo_runs import read_log, small_run

from gravityocr.config import dump_config
from gravityocr.errors import ConfigError, InputError
from gravityocr.rl import run_watch
from gravityocr.rl.evaluation_records import RegionRecord, record_file, record_steps, summarize
from gravityocr.rl.run_folder import mark
from gravityocr.rl.run_watch import RunWatch, best_held_step, best_step_of

Scores = dict[int, tuple[float, float]]
"""Quality and TPF by step."""


def records_of(quality: float, tpf: float) -> tuple[RegionRecord, ...]:
    """Give the records of an evaluation of one text."""
    counts = {"n_tokens": 101, "n_decoded": 100, "n_forwards": round(100 / tpf), "n_rounds": 10, "n_accepted": 5}
    one = RegionRecord("a", "text", "text", "ref", "pred", ned=1 - quality, ned_plain=1 - quality, reward=0.5, **counts)
    return (one,)


class ScriptedWatch(RunWatch):
    """A watch whose weights are a number, and whose evaluations are told."""

    def __init__(self, folder: Path, scores: Scores, *overrides: str) -> None:
        super().__init__(
            small_run(folder, "rl.steps=6", "evaluation.every=2", *overrides), SimpleNamespace(engine=None), {}
        )  # type: ignore[arg-type]
        self.scores = scores
        self.evaluated: list[int] = []
        self.step = 0

    def export(self, name: str, step: int) -> None:
        """Write the step instead of weights."""
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / "step").write_text(str(step), encoding="utf-8")
        mark(self.folder, name, step)

    def _take_rounded(self) -> None:
        """Take nothing."""

    def evaluate(self, *_: Any) -> SimpleNamespace:
        self.evaluated.append(self.step)
        records = records_of(*self.scores[self.step])
        return SimpleNamespace(records=records, summary=summarize(records), seconds=0.1)

    def run(self, monkeypatch: pytest.MonkeyPatch, step: int = 0, until: int = 6) -> int:
        """Go on at a step as a trainer would, and return the step at which the run ended."""
        monkeypatch.setattr(run_watch, "evaluate", self.evaluate)
        accelerator = SimpleNamespace(is_main_process=True, num_processes=1, wait_for_everyone=lambda: None)
        self.step = step
        if self.begin(SimpleNamespace(accelerator=accelerator), step):
            return step
        while self.step < until:
            self.step += 1
            if self.step_is_over(self.step):
                break
        return self.step


LEVEL: Scores = {0: (0.5, 4.0), 2: (0.6, 4.0), 4: (0.55, 4.0), 6: (0.6, 4.0)}


def best_of(folder: Path) -> int | None:
    file = folder / "best" / "step"
    return int(file.read_text(encoding="utf-8")) if file.is_file() else None


def test_it_is_evaluated_at_the_start_every_so_often_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {step: (0.5, 4.0) for step in range(8)}
    watch = ScriptedWatch(tmp_path / "even", scores)
    assert watch.run(monkeypatch) == 6 and watch.evaluated == [0, 2, 4, 6]
    odd = ScriptedWatch(tmp_path / "odd", scores, "rl.steps=7", "evaluation.every=3")
    assert odd.run(monkeypatch, until=7) == 7 and odd.evaluated == [0, 3, 6, 7]
    assert record_steps(tmp_path / "odd") == [0, 3, 6, 7]
    assert [line["step"] for line in read_log(tmp_path / "odd") if "eval" in line] == [0, 3, 6, 7]


def test_weights_are_kept_only_if_they_are_better_and_drafting_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, scores, best in (
        ("level", LEVEL, 2),  # of equal ones the first
        ("worse", {**LEVEL, 2: (0.5, 4.0), 6: (0.4, 4.0), 4: (0.3, 4.0)}, 0),
        ("fallen", {**LEVEL, 2: (0.9, 3.5)}, 6),
        ("late", {**LEVEL, 6: (0.7, 4.0)}, 6),
    ):
        watch = ScriptedWatch(tmp_path / name, scores)
        watch.run(monkeypatch)
        assert best_of(tmp_path / name) == (best or None), name
        assert best_step_of(tmp_path / name, watch.config) == best, name


def test_a_fall_of_tpf_is_flagged_or_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fallen = {**LEVEL, 2: (0.9, 3.5)}
    assert ScriptedWatch(tmp_path / "flag", fallen).run(monkeypatch) == 6
    (line,) = [line for line in read_log(tmp_path / "flag") if "alarm" in line]
    assert line["step"] == 2 and "TPF fell by" in line["alarm"] and line["val_tpf"] == pytest.approx(100 / 29, abs=1e-5)
    stop = ScriptedWatch(tmp_path / "stop", fallen, "evaluation.on_tpf_fall=stop")
    assert stop.run(monkeypatch) == 2 and not stop.is_stopped  # it ended, nobody interrupted it
    allowed = ScriptedWatch(tmp_path / "loose", fallen, "evaluation.on_tpf_fall=stop", "evaluation.max_tpf_fall=0.2")
    assert allowed.run(monkeypatch) == 6


def test_a_run_that_a_fall_has_ended_does_not_go_on_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fallen = {**LEVEL, 2: (0.9, 3.5)}
    ScriptedWatch(tmp_path, fallen, "evaluation.on_tpf_fall=stop").run(monkeypatch)
    again = ScriptedWatch(tmp_path, fallen, "evaluation.on_tpf_fall=stop")
    assert again.run(monkeypatch, step=2) == 2 and again.evaluated == []
    flagged = ScriptedWatch(tmp_path, fallen)
    assert flagged.run(monkeypatch, step=2) == 6 and flagged.evaluated == [4, 6]


def test_going_on_drops_what_was_lost_and_reads_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ScriptedWatch(tmp_path, LEVEL).run(monkeypatch, until=4)
    watch = ScriptedWatch(tmp_path, {**LEVEL, 4: (0.8, 4.0)}, "optimizer.lr=3e-4")
    assert watch.run(monkeypatch, step=3) == 6
    assert watch.evaluated == [4, 6] and record_steps(tmp_path) == [0, 2, 4, 6] and best_of(tmp_path) == 4
    steps = [line["step"] for line in read_log(tmp_path) if "eval" in line]
    assert steps == [0, 2, 4, 6]
    (mark,) = [line for line in read_log(tmp_path) if "resumed_from" in line]
    assert mark["resumed_from"] == 3 and mark["changed"] == ["optimizer.lr: 0.0001 -> 0.0003"]
    assert (tmp_path / "config.toml").read_text(encoding="utf-8") == dump_config(watch.config)


def test_the_best_weights_of_a_step_that_was_lost_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ScriptedWatch(tmp_path, {**LEVEL, 4: (0.9, 4.0)}).run(monkeypatch, until=5)
    assert best_of(tmp_path) == 4
    watch = ScriptedWatch(tmp_path, LEVEL)
    watch.run(monkeypatch, step=3, until=3)
    assert best_of(tmp_path) is None and not (tmp_path / "best.json").exists()


def test_an_evaluation_that_cannot_be_compared_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ScriptedWatch(tmp_path, LEVEL).run(monkeypatch, until=4)
    for setting, named in (
        ("evaluation.n_crops=9", r"evaluation\.n_crops changed"), ("prompts.pool=other", r"evaluation\.pool changed"),
        ("evaluation.max_tokens=7", r"evaluation\.max_tokens changed"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=named):
            ScriptedWatch(tmp_path, LEVEL, setting).run(monkeypatch, step=3)
    record_file(tmp_path, 0).unlink()
    with pytest.raises(InputError, match=r"step-00000.jsonl is missing"):
        ScriptedWatch(tmp_path, LEVEL).run(monkeypatch, step=3)


def test_a_new_run_keeps_nothing_of_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that died before its first state leaves weights and records that the next one did not make."""
    ScriptedWatch(tmp_path, {**LEVEL, 2: (0.9, 4.0)}).run(monkeypatch)
    worse = ScriptedWatch(tmp_path, {step: (0.5 - step / 100, 4.0) for step in LEVEL})
    worse.run(monkeypatch, until=2)
    assert best_of(tmp_path) is None and record_steps(tmp_path) == [0, 2]
    assert [line["step"] for line in read_log(tmp_path)] == [0, 2]


def test_a_signal_ends_the_run_behind_the_step_and_before_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = ScriptedWatch(tmp_path, LEVEL)
    watch.stop.signum = signal.SIGTERM
    assert watch.run(monkeypatch) == 1 and watch.is_stopped
    last = ScriptedWatch(tmp_path, LEVEL)
    last.run(monkeypatch, until=1)
    last.stop.signum = signal.SIGTERM
    last.step = 2
    assert last.step_is_over(2) and last.evaluated == [0]


def test_a_batch_of_rollouts_is_used_up_before_a_run_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = ScriptedWatch(tmp_path, {step: (0.5, 4.0) for step in range(7)}, "grpo.n_iterations=3", "rl.save_every=3")
    watch.stop.signum = signal.SIGTERM
    assert watch.run(monkeypatch) == 3 and watch.is_stopped


def test_a_step_s_figures_have_our_names_and_are_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = ScriptedWatch(tmp_path, LEVEL)
    watch.run(monkeypatch, until=1)
    logs = {"reward": 0.5, "reward_std": "0.1", "kl": float("nan"), "loss": 0.25, "grad_norm": float("inf"),
            "rewards/table_reward/mean": 0.75, "completions/clipped_ratio": 0.125, "step_time": 2.0, "epoch": 1.0,
            "learning_rate": None}  # fmt: skip
    watch.logged(2, logs)
    watch.logged(6, {"train_runtime": 3.0})
    shown = capsys.readouterr()
    line = read_log(tmp_path)[-1]
    assert line == {"step": 2, "reward": 0.5, "reward_std": 0.1, "loss": 0.25, "table_reward": 0.75,
                    "truncated_share": 0.125, "seconds": 2.0}  # fmt: skip
    assert "eta=0:00:08" in shown.err and shown.out == ""


def test_the_best_step_is_the_best_of_those_whose_drafting_held(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    summaries = {step: summarize(records_of(*score)) for step, score in {**LEVEL, 4: (0.9, 3.0)}.items()}
    assert best_held_step(summaries, config) == 2
    assert best_held_step({0: summaries[0], 4: summaries[4]}, config) == 0
