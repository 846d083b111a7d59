"""Whose a run's folder is, and what in it can be gone on from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.grpo_runs import small_run, whole_state

from gravityocr.config import dump_config
from gravityocr.errors import ConfigError, InputError
from gravityocr.rl.run_folder import BEST_FOLDER, LAST_FOLDER, check_folder, drop, last_state, mark, marked_step

pytest.importorskip("safetensors")


def test_the_newest_whole_state_is_taken_up(tmp_path: Path) -> None:
    assert last_state(tmp_path / "none") == (None, 0, [])
    whole_state(tmp_path, 2)
    tenth = whole_state(tmp_path, 10)
    (tmp_path / "states" / "checkpoint-x").mkdir()
    assert last_state(tmp_path) == (tenth, 10, [])


@pytest.mark.parametrize(
    "name", ["trainer_state.json", "model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"]
)
@pytest.mark.parametrize("damage", ["cut", "garbage", "missing"])
def test_a_damaged_state_is_named_and_the_one_before_taken(tmp_path: Path, name: str, damage: str) -> None:
    second = whole_state(tmp_path, 2)
    file = whole_state(tmp_path, 4) / name
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(content[: len(content) // 2] if damage == "cut" else b"\x07 garbage")
    state, step, faults = last_state(tmp_path)
    if name == "rng_state.pth" and damage == "missing":  # nothing of a run depends on it
        assert step == 4
        return
    assert (state, step) == (second, 2)
    assert len(faults) == 1 and "checkpoint-4 is not whole" in faults[0]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """Joint training has a checkpoint, a log and settings of other sections there."""
    config = small_run(tmp_path)
    check_folder(config)
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(ConfigError, match="something else than a run of GRPO.*choose another rl.folder"):
        check_folder(config)
    (tmp_path / "config.toml").write_text("[train]\nsteps = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="something else than a run of GRPO"):
        check_folder(config)
    assert (tmp_path / "checkpoint").is_dir()


def test_results_whose_states_are_gone_are_not_overwritten(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    (tmp_path / "config.toml").write_text(dump_config(config), encoding="utf-8")
    (tmp_path / "evaluations").mkdir()
    check_folder(config)  # a run that died before its first state begins anew
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(ConfigError, match="states/ is gone"):
        check_folder(config)
    whole_state(tmp_path, 2)
    check_folder(config)


@pytest.mark.parametrize("place", ["run", "run/best", "run/checkpoint"])
def test_the_start_may_not_lie_in_the_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True)
    with pytest.raises(ConfigError, match="lies in rl.folder"):
        check_folder(small_run(tmp_path / "run", f"rl.checkpoint={tmp_path / place}"))
    check_folder(small_run(tmp_path / "other", f"rl.checkpoint={tmp_path / place}"))


def test_weights_say_of_which_step_they_are(tmp_path: Path) -> None:
    assert marked_step(tmp_path, BEST_FOLDER) is None
    for name, step in ((BEST_FOLDER, 3), (LAST_FOLDER, 7)):
        mark(tmp_path, name, step)
        assert marked_step(tmp_path, name) is None, "a mark without weights says nothing"
        (tmp_path / name).mkdir()
        assert marked_step(tmp_path, name) == step
    (tmp_path / "best.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="best.json is broken"):
        marked_step(tmp_path, BEST_FOLDER)
    drop(tmp_path, BEST_FOLDER)
    assert marked_step(tmp_path, BEST_FOLDER) is None and marked_step(tmp_path, LAST_FOLDER) == 7
