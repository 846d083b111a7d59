"""What a run tells: JSON lines, TensorBoard, the progress line, and the samples that are left out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.training_data import read_log

from gravityocr.errors import ConfigError
from gravityocr.training.joint import SkippedSample
from gravityocr.training.run_log import RunLog, note_skipped, read_records


def test_a_record_is_a_line_and_is_shown_with_the_time_that_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = RunLog(tmp_path / "run", tensorboard=False)
    log.write({"step": 3}, {"loss": 1.23456789, "n_samples": 4, "example": "ä"}, eta_s=3725.0)
    log.write({"step": 4}, {"loss": float(2)})
    log.close()
    assert read_records(tmp_path / "run") == read_log(tmp_path / "run") == [
        {"step": 3, "loss": 1.234568, "n_samples": 4, "example": "ä"}, {"step": 4, "loss": 2.0},
    ]  # fmt: skip
    shown = capsys.readouterr()
    assert "step=3 loss=1.234568" in shown.err and "eta=1:02:05" in shown.err and shown.out == ""
    assert "eta" not in shown.err.splitlines()[1]
    assert read_records(tmp_path / "none") == []
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is in the extra 'train'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = RunLog(tmp_path, tensorboard=True)
    assert not (tmp_path / "tensorboard").exists(), "a run that has not begun leaves no file of events"
    log.write({"step": 5}, {"loss": 1.5, "val_ned": 0.25, "example": "text"})
    log.write({"step": 6}, {"loss": 0.5})
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"loss", "validation/ned"}
    assert [(one.step, one.value) for one in events.Scalars("loss")] == [(5, 1.5), (6, 0.5)]


def test_a_missing_tensorboard_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    RunLog(tmp_path, tensorboard=False)
    with pytest.raises(ConfigError, match=r"train\.tensorboard needs tensorboard; pip install"):
        RunLog(tmp_path, tensorboard=True)


def test_skipped_samples_are_all_written_and_some_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_skipped(tmp_path, 1, [])
    assert not (tmp_path / "skipped.jsonl").exists()
    note_skipped(tmp_path, 1, [SkippedSample("one", "too long")])
    note_skipped(tmp_path, 7, [SkippedSample(f"n{i}", "broken") for i in range(5)])
    lines = read_log(tmp_path, "skipped.jsonl")
    assert lines[0] == {"step": 1, "name": "one", "reason": "too long"}
    assert [(line["step"], line["name"]) for line in lines[1:]] == [(7, f"n{i}") for i in range(5)]
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("skipped n") == 3 and "and 2 more" in shown.err
    assert all(json.loads(line) for line in (tmp_path / "skipped.jsonl").read_text(encoding="utf-8").splitlines())
