"""Whole runs of GRPO: one that is killed goes on as if nothing had happened, two processes do what one does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from tests.grpo_runs import evaluations_of, read_log, small_run, steps_of
from torch import Tensor

from gravityocr.config import dump_config
from gravityocr.engine.engine import Engine
from gravityocr.model.checkpoint import resolve_checkpoint
from gravityocr.rl.evaluation import evaluate, held_out
from gravityocr.rl.evaluation_records import read_records, record_file
from gravityocr.rl.launch import mine, run_grpo
from gravityocr.rl.rl_config import RlConfig

transformers = pytest.importorskip("transformers", reason="GRPO; install the extra 'rl'")
pytest.importorskip("trl", reason="GRPO; install the extra 'rl'")

pytestmark = pytest.mark.slow
CROPS = 2


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Mine four prompts once for all runs: two steps take all of them."""
    folder = tmp_path_factory.mktemp("prompts")
    report = mine(small_run(folder, f"prompts.folder={folder}"))
    assert report["n_prompts"] == 4
    return f"prompts.folder={folder}"


def six_steps(folder: Path, prompts: str, *overrides: str) -> RlConfig:
    """Give a run that comes three times to each prompt, and saves and reads held-out regions every two steps."""
    settings = ("rl.steps=6", "rl.save_every=2", "rl.keep_states=10", "evaluation.every=2", "optimizer.lr=3e-4")
    return small_run(folder, prompts, *settings, f"evaluation.n_crops={CROPS}", *overrides)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, prompts: str) -> tuple[Path, dict[str, Any]]:
    """Give the folder and the figures of a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    figures = run_grpo(six_steps(folder, prompts))
    assert figures is not None
    return folder, figures


def weights_of(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(str(folder / "model.safetensors"))


def command(folder: Path, config: RlConfig, *arguments: str) -> list[str]:
    recipe = folder.parent / f"{folder.name}.toml"
    recipe.write_text(dump_config(config), encoding="utf-8")
    return [sys.executable, "-m", "gravityocr", "rl", str(recipe), "--json", *arguments]


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def assert_as_uninterrupted(folder: Path, whole: Path) -> None:
    """Compare the last weights, the log and the records of a run that went on with one that never stopped."""
    ours, theirs = (weights_of(one / "states" / "checkpoint-6") for one in (folder, whole))
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name
    assert steps_of(folder) == steps_of(whole)
    assert [line["step"] for line in steps_of(folder)] == [1, 2, 3, 4, 5, 6]
    assert evaluations_of(folder) == evaluations_of(whole)
    for step in (0, 2, 4, 6):
        assert read_records(record_file(folder, step)) == read_records(record_file(whole, step))
    assert weights_of(folder / "checkpoint").keys() == weights_of(whole / "checkpoint").keys()
    assert (folder / "best").is_dir() == (whole / "best").is_dir()


def test_the_log_of_a_run(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, figures = whole
    steps, evaluations = steps_of(folder), evaluations_of(folder)
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    for line in steps:
        assert 0 <= line["reward"] <= 1 and 0 < line["completion_tokens"] <= 40
        assert {"kl", "entropy", "loss", "gradient_norm", "reward_std", "truncated_share"} <= line.keys()
    assert [line["lr"] for line in steps] == sorted((line["lr"] for line in steps), reverse=True)
    assert steps[0]["kl"] == 0.0 < steps[-1]["kl"]
    assert [line["step"] for line in evaluations] == [0, 2, 4, 6]
    for line in evaluations:
        assert 0 < line["quality"] <= 1 and line["val_tpf"] > 1
        assert {"val_text_reward", "val_table_reward"} <= line.keys()
    (gap,) = [line for line in read_log(folder) if "gap_mean" in line]
    assert gap["step"] == 0 and gap["gap_max"] < 1e-4 and gap["n_tokens"] > 10
    assert figures["step"] == 6 and [one["step"] for one in figures["evaluations"]] == [0, 2, 4, 6]
    assert (folder / "report.md").is_file() and (folder / "config.toml").is_file()


def test_the_last_checkpoint_reads_as_the_last_evaluation(whole: tuple[Path, dict[str, Any]], prompts: str) -> None:
    """In our engine and, token by token, in stock transformers; the draft head stays behind."""
    folder, config = whole[0], six_steps(whole[0], prompts)
    checkpoint = folder / "checkpoint"
    nano = resolve_checkpoint("nano")
    assert (nano / "draft_head.safetensors").is_file() and not (checkpoint / "draft_head.safetensors").exists()
    engine = Engine.from_pretrained(str(checkpoint), dtype="float32")
    assert not engine.checkpoint.diffusion.draft_head
    regions = held_out(config.evaluation, config.prompts.pool)
    last = read_records(record_file(folder, 6))
    assert list(evaluate(engine, regions, config.evaluation).records) == last and len(last) == 3 * CROPS
    model, info = transformers.GlmOcrForConditionalGeneration.from_pretrained(
        checkpoint, dtype=torch.float32, output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    by_id = {record.region_id: record for record in last}
    moved = weights_of(checkpoint)
    assert any(not torch.equal(value, moved[name]) for name, value in weights_of(nano).items())
    for region in (members[0] for members in regions.values()):
        prompt = engine.checkpoint.prompts.build(region.picture(), region.task)
        with torch.inference_mode():
            output = model.generate(
                input_ids=prompt.ids[None], attention_mask=torch.ones_like(prompt.ids[None]),
                mm_token_type_ids=prompt.is_image[None].int(), pixel_values=prompt.pixels,
                image_grid_thw=torch.tensor([[1, *prompt.grid]]), max_new_tokens=config.evaluation.max_tokens,
                do_sample=False,
            )  # fmt: skip
        ids = output[0, prompt.ids.numel() :].tolist()
        assert engine.checkpoint.tokenizer.decode(ids, skip_special_tokens=True) == by_id[region.region_id].pred


def test_a_run_that_was_told_to_stop_goes_on(tmp_path: Path, whole: tuple[Path, dict[str, Any]], prompts: str) -> None:
    """SIGTERM in the third step or later: the step ends, its state is saved, nothing is lost."""
    folder = tmp_path / "run"
    config = six_steps(folder, prompts)
    with subprocess.Popen(
        command(folder, config), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as run:
        assert run.stderr is not None and run.stdout is not None
        while "step=2 reward=" not in (line := run.stderr.readline()):
            assert line, "the run ended by itself"
        run.send_signal(signal.SIGTERM)
        told, shown = run.stderr.read(), run.stdout.read()
    assert run.returncode == -signal.SIGTERM and shown == ""
    (stopped,) = [line for line in told.splitlines() if line.startswith("stopped at step ")]
    step = int(stopped.split()[3].rstrip(","))
    assert 2 <= step < 6 and (folder / "states" / f"checkpoint-{step}").is_dir()
    assert not (folder / "checkpoint").exists()
    assert run_grpo(config) is not None
    assert [line["resumed_from"] for line in read_log(folder) if "resumed_from" in line] == [step]
    assert_as_uninterrupted(folder, whole[0])


def test_a_run_that_was_killed_goes_on_from_its_last_state(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]], prompts: str
) -> None:
    """Killed behind its first state, which leaves steps in the log that no state holds; the command goes on."""
    folder = tmp_path / "run"
    config = six_steps(folder, prompts)
    with subprocess.Popen(
        command(folder, config), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    ) as run:
        while not (folder / "states" / "checkpoint-2" / "trainer_state.json").is_file():
            assert run.poll() is None, "the run ended by itself"
            time.sleep(0.01)
        while not any(line["step"] == 3 for line in steps_of(folder)):
            assert run.poll() is None, "the run ended by itself"
            time.sleep(0.01)
        run.kill()
    half = folder / "states" / "checkpoint-4"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()  # a state that was being written
    (half / "model.safetensors").write_bytes(b"half")
    again = subprocess.run(command(folder, config), capture_output=True, text=True, env=ENVIRONMENT, check=True)
    figures = json.loads(again.stdout)
    assert "going on at step 2" in again.stderr
    assert figures["step"] == 6 and figures["checkpoint"] == str(folder / "checkpoint")
    same = json.loads(json.dumps(whole[1]))
    assert all(figures[name] == same[name] for name in ("changes", "evaluations", "best_step"))
    assert_as_uninterrupted(folder, whole[0])


def test_an_evaluation_that_a_stop_left_out_is_made_up_for(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]], prompts: str
) -> None:
    """Stopped behind the last step and before it was read: what goes on reads with the weights of the state."""
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    shutil.rmtree(folder / "checkpoint")
    record_file(folder, 6).unlink()
    assert read_records(record_file(whole[0], 6)) != read_records(record_file(whole[0], 0))
    assert run_grpo(six_steps(folder, prompts)) is not None
    assert read_records(record_file(folder, 6)) == read_records(record_file(whole[0], 6))
    ours, theirs = weights_of(folder / "checkpoint"), weights_of(whole[0] / "checkpoint")
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())


def test_two_processes_do_what_one_does(tmp_path: Path, prompts: str) -> None:
    """Samples belong to the place in the step, whichever process takes them: rollouts, rewards and gradients agree.

    Each step is two forwards, of two in both or of four in one. Weights agree but for what Adam makes of rounding where
    a gradient is next to nothing; entropy and divergence are means of the forwards' means.
    """
    folders = tmp_path / "two", tmp_path / "one"
    for folder, n_processes, micro_batch in zip(folders, (2, 1), (2, 4), strict=True):
        settings = (
            prompts,
            f"rl.n_processes={n_processes}",
            f"rl.micro_batch={micro_batch}",
            "evaluation.every=1",
            "grpo.n_rollouts=4",
        )
        figures = run_grpo(small_run(folder, *settings))
        assert figures is not None and figures["step"] == 2
    two, one = map(steps_of, folders)
    assert [line["step"] for line in two] == [1, 2]
    assert [line["step"] for line in evaluations_of(folders[0])] == [0, 1, 2]
    assert one[0]["gradient_norm"] > 0 < one[1]["kl"]  # the second step begins with other weights
    for ours, theirs in zip(two, one, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            if name not in ("entropy", "kl"):
                assert ours[name] == pytest.approx(value, rel=1e-3, abs=1e-5), (ours["step"], name)
    start = weights_of(resolve_checkpoint("nano"))
    ours, theirs = (weights_of(folder / "states" / "checkpoint-2") for folder in folders)
    apart = sum(float((ours[name] - value).square().sum()) for name, value in theirs.items())
    way = sum(float((value - start[name].float().view(value.shape)).square().sum()) for name, value in theirs.items())
    assert way > 0 and (apart / way) ** 0.5 < 0.02


def test_two_processes_are_interrupted_together(tmp_path: Path, prompts: str) -> None:
    """Only one worker gets the signal: both save and end, and the command does not look like one that has finished."""
    folder = tmp_path / "run"
    config = small_run(folder, prompts, "rl.n_processes=2", "rl.steps=10000", "rollouts.n_compared=0")
    with subprocess.Popen(
        command(folder, config), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as run:
        assert run.stderr is not None and run.stdout is not None
        while "step=1 reward=" not in (line := run.stderr.readline()):
            assert line, "the run ended by itself"
        workers = [
            worker for worker in psutil.Process(run.pid).children(recursive=True)
            if "spawn_main" in " ".join(worker.cmdline())
        ]  # fmt: skip
        assert len(workers) == 2
        workers[1].send_signal(signal.SIGINT)
        told, shown = run.stderr.read(), run.stdout.read()
    assert run.returncode == 130 and shown == ""
    assert "whose state is saved" in told and not (folder / "checkpoint").exists()
    assert any((folder / "states").glob("checkpoint-*/trainer_state.json"))
