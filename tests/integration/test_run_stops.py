"""Runs that are stopped, go on, or meet another one: nothing is lost, nothing is said that is not so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.training_data import make_region, read_log, read_state, tiny_run, write_base, write_pool

from gravityocr.config import dump_config
from gravityocr.errors import ConfigError
from gravityocr.training.joint import RowData
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.run_log import read_records
from gravityocr.training.stopping import StopRequest
from gravityocr.training.trainer import Trainer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pool(tmp_path_factory.mktemp("pool"), map(make_region, range(24)))


def pool_run(folder: Path, base: Path, pool: Path, *overrides: str) -> TrainConfig:
    """Give a run of six steps that saves only when it has to."""
    settings = [f"train.base={base}", f"data.pool={pool}", "packing.row_tokens=200", "train.steps=6",
                "train.save_every_s=1e9"]  # fmt: skip
    return tiny_run(folder, *settings, *overrides)


class SignalledTrainer(Trainer):
    """A trainer that gets a signal in the middle of its third step."""

    signum = signal.SIGINT

    def step(self, rows: Sequence[RowData]) -> dict[str, Any]:
        if self.progress.step == 2:
            os.kill(os.getpid(), self.signum)
        return super().step(rows)


def test_an_interrupted_run_saves_first_and_goes_on(
    tmp_path: Path, base: Path, pool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        SignalledTrainer(pool_run(tmp_path / "parts", base, pool)).train()
    assert "stopped at step 3, whose state is saved" in capsys.readouterr().err
    assert read_state(tmp_path / "parts")["progress"]["step"] == 3
    assert not (tmp_path / "parts" / "checkpoint").exists()
    Trainer(pool_run(tmp_path / "parts", base, pool)).train()
    assert "going on at step 3" in capsys.readouterr().err
    Trainer(pool_run(tmp_path / "whole", base, pool)).train()
    weights = [(tmp_path / name / "checkpoint" / "model.safetensors").read_bytes() for name in ("parts", "whole")]
    assert weights[0] == weights[1]
    steps = [line["step"] for line in read_log(tmp_path / "parts") if "loss" in line]
    assert steps == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_two_processes_are_interrupted_together(tmp_path: Path, base: Path, pool: Path) -> None:
    """Only the workers get the signal, as from a launcher: the command must not look like one that has finished."""
    recipe = tmp_path / "recipe.toml"
    settings = ("train.n_processes=2", "train.steps=100000", "train.log_every=1", "train.save_every_s=1e9")
    recipe.write_text(dump_config(pool_run(tmp_path / "run", base, pool, *settings)), encoding="utf-8")
    command = [sys.executable, "-m", "gravityocr", "train", str(recipe), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None and run.stdout is not None
        while "step=2 " not in (line := run.stderr.readline()):
            assert line, "the run ended by itself"
        workers = psutil.Process(run.pid).children(recursive=True)
        for worker in workers:
            if "spawn_main" in " ".join(worker.cmdline()):
                worker.send_signal(signal.SIGINT)
        told, shown = run.stderr.read(), run.stdout.read()
    assert run.returncode == 130 and shown == ""
    assert "whose state is saved" in told
    assert read_state(tmp_path / "run")["progress"]["step"] > 2


def test_a_second_signal_acts_at_once(request: pytest.FixtureRequest) -> None:
    # Whoever starts the tests in the background of a shell has them ignore SIGINT.
    known = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, known))
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.signum == signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_changed_settings_are_on_record_and_the_place_in_the_data_is_kept(
    tmp_path: Path, base: Path, pool: Path
) -> None:
    """Two steps of two rows, then of one: the third step takes the row behind the first four."""
    Trainer(pool_run(tmp_path, base, pool, "train.accumulation=2", "train.steps=2")).train()
    config = pool_run(tmp_path, base, pool, "train.accumulation=1", "train.steps=3", "loss.diffusion_weight=0.5")
    trainer = Trainer(config)
    fifth = [row for _, row in zip(range(5), trainer.source.plan(), strict=False)][-1]
    seen: list[int] = []
    trainer.source.rows = lambda ticket, rows=trainer.source.rows: (seen.extend(ticket[0].samples), rows(ticket))[1]
    trainer.train()
    assert tuple(seen[: len(fifth.samples)]) == fifth.samples
    (mark,) = [line for line in read_log(tmp_path) if "resumed_from" in line]
    assert mark["resumed_from"] == 2
    changed = {"train.accumulation: 2 -> 1", "train.steps: 2 -> 3", "loss.diffusion_weight: 1.0 -> 0.5"}
    assert set(mark["changed"]) == changed


def test_regions_that_new_settings_leave_out_are_named(tmp_path: Path, base: Path, pool: Path) -> None:
    Trainer(pool_run(tmp_path, base, pool, "train.steps=1")).train()
    assert not (tmp_path / "skipped.jsonl").exists()
    for _ in range(2):
        Trainer(pool_run(tmp_path, base, pool, "train.steps=2", "packing.response_cap_tokens=10")).train()
    skipped = read_log(tmp_path, "skipped.jsonl")
    assert skipped and len({line["name"] for line in skipped}) == len(skipped)
    assert all("response_cap_tokens" in line["reason"] for line in skipped)


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path, base: Path, pool: Path) -> None:
    first, second = (Trainer(pool_run(tmp_path, base, pool)) for _ in range(2))

    class BothError(Exception):
        """What ends the first run."""

    def step(_rows: Sequence[RowData]) -> dict[str, Any]:
        with pytest.raises(ConfigError, match="another run trains in"):
            second.train()
        raise BothError

    first.step = step  # type: ignore[method-assign]
    with pytest.raises(BothError):
        first.train()


def test_a_torn_log_and_a_broken_cache_stop_nothing(tmp_path: Path, base: Path, pool: Path) -> None:
    Trainer(pool_run(tmp_path, base, pool, "train.steps=2")).train()
    with (tmp_path / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"st')
    for content in (b"", b"junk"):
        (tmp_path / "pool-tokens.npz").write_bytes(content)
        Trainer(pool_run(tmp_path, base, pool, f"train.steps={3 + len(content)}")).train()
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] and read_records(tmp_path)[-1]["step"] == 7
