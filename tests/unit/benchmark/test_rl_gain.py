"""Two checkpoints on the same held-out regions."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.rl_gain import measure

from gravityocr.rl.evaluation import EvaluationConfig, held_out


@pytest.mark.slow
def test_a_checkpoint_against_itself_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="region files need pyarrow; install the extra 'train'")
    config = EvaluationConfig(n_crops=3, n_samples=2, max_tokens=60, seed=1)
    changes, text = measure("nano", "nano", config, held_out(config, "sample"), tmp_path)
    assert set(changes["kinds"]) == {"text", "table", "formula", "all"}
    for kind in changes["kinds"].values():
        assert {"reward", "sampled_reward", "tpf"} <= kind["figures"].keys()
        assert all(one["difference"] == 0.0 and not one["excludes_0"] for one in kind["figures"].values())
    assert "reward of samples" in text and (tmp_path / "after.jsonl").is_file()
