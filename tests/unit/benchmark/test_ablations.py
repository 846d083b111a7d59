"""The ablations: arms that differ in one setting, rows of the table, and no arm run twice."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from benchmarks import ablations
from benchmarks.ablations import ABLATIONS, RECIPE, arm_row, as_table, figures

from gravityocr.config import load_config
from gravityocr.training.run_config import TrainConfig

RECORD = {
    "step": 7, "samples": 70, "val_ned": 0.1, "val_teds_table": 0.8, "val_ned_formula": 0.3, "val_tpf": 4.0,
    "val_tpf_table": 3.0, "val_tpf_formula": 2.0, "val_n_decoded": 400, "val_n_forwards": 100,
    "val_n_decoded_table": 300, "val_n_forwards_table": 100, "val_n_decoded_formula": 200,
    "val_n_forwards_formula": 100, "val_n_crops": 9, "val_n_crops_table": 8, "val_n_crops_formula": 7,
    "val_identical": 1.0, "val_identical_table": 1.0, "val_identical_formula": 0.5,
}  # fmt: skip


def test_a_row_by_hand() -> None:
    row = figures("arm", RECORD, (95.0, 6.75))
    assert row["overall"] == pytest.approx(100 * (0.9 + 0.8 + 0.7) / 3)
    assert row["tpf"] == pytest.approx(900 / 300)
    assert row["identical"] == 0.5
    assert "| arm | 80.00 | 0.9000 | 0.8000 | 0.7000 | 3.00 | 4.00 / 3.00 / 2.00 | 95.00, 6.75 |" in as_table([row])
    assert as_table([row]).startswith("9 / 8 / 7 held-out crops")


@pytest.mark.parametrize("name", [*ABLATIONS])
def test_arms_are_valid_and_differ(name: str) -> None:
    configs = [load_config(TrainConfig, RECIPE, list(arm.settings)) for arm in ABLATIONS[name]]
    assert len({repr(config) for config in configs}) == len(configs)
    if name == "block-size":
        assert [config.noise.block_size for config in configs] == [8, 16, 24, 32]
        assert all(config.reading.block_size == config.noise.block_size for config in configs)


def test_a_finished_arm_is_read_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablations, "run_training", lambda config: pytest.fail("it was run again"))
    (tmp_path / "loss_ar_weight_0_0").mkdir()
    log = tmp_path / "loss_ar_weight_0_0" / "log.jsonl"
    lines = [{"step": 7, "samples": 70, "loss": 1.0, "ar": 0.5, "diffusion": 1.5}, RECORD]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    args = argparse.Namespace(out=tmp_path, settings=["train.steps=7"])
    row = arm_row(ABLATIONS["ar-loss"][1], args)
    assert row["steps"] == 7 and row["last_losses"] == {"ar": 0.5, "diffusion": 1.5}
    with pytest.raises(pytest.fail.Exception, match="run again"):
        arm_row(ABLATIONS["ar-loss"][1], argparse.Namespace(out=tmp_path, settings=["train.steps=8"]))
