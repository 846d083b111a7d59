"""What a run is told of its prompts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from tests.grpo_runs import small_run
from tests.prompt_pools import region

from gravityocr.model.checkpoint import BlockDiffusion
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.table_pieces import TablePieceSpec
from gravityocr.rl import mining
from gravityocr.rl.mining import mine, mining_lines
from gravityocr.training.corpora.region_shards import encode_picture, write_regions

pytest.importorskip("pyarrow", reason="region files; install the extra 'train'")


def report_of(table_mean: float) -> dict[str, Any]:
    fates = {"chosen": 5, "solved": 3, "not_chosen": 2, "flat": 0}
    means = {"all": {"mean": 0.6}, "table": {"mean": table_mean}}
    return {"n_prompts": 5, "fates": {name: {"all": n} for name, n in fates.items()}, "mean_reward": {"tried": means}}


def engine_of(diffusion: BlockDiffusion) -> Any:
    return SimpleNamespace(checkpoint=SimpleNamespace(diffusion=diffusion))


WHOLE = engine_of(BlockDiffusion(8, 1))


def test_what_became_of_the_candidates_is_told() -> None:
    assert mining_lines(report_of(0.9), [], WHOLE, 5) == ["prompts: 5 (3 solved, 2 not chosen)"]
    assert mining_lines(report_of(0.9), [], WHOLE, 20) == ["prompts: 5 of 20 wanted (3 solved, 2 not chosen)"]


def test_targets_of_another_form_are_suspected() -> None:
    _, warning = mining_lines(report_of(0.07), [], WHOLE, 5)
    assert "warning: trial rollouts of table prompts earn 0.07" in warning and "docs/rl.md" in warning


def test_crops_that_are_no_pieces_are_told(tmp_path: Path) -> None:
    file = tmp_path / "a.regions.parquet"
    picture = encode_picture(Image.new("L", (900, 700), 255))
    target = "<table><tr><td>a</td></tr></table>"
    write_regions(file, [region("big", target=target, image=picture, width_px=900, height_px=700)])
    pieces = engine_of(BlockDiffusion(8, 1, pieces=PieceSpec(), table_pieces=TablePieceSpec()))
    assert "1 of 1 table regions are larger than the pieces" in mining_lines(report_of(0.9), [file], pieces, 5)[-1]
    assert len(mining_lines(report_of(0.9), [file], WHOLE, 5)) == 1


def test_mining_that_is_interrupted_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mining, "mine_prompts", interrupt)
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        mine(small_run(tmp_path), say=told.append)
    assert len(told) == 1 and "the same command goes on" in told[0] and str(tmp_path / "prompts") in told[0]
