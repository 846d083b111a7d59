"""The dry run: what is printed is what the settings say, and what is missing is named with its remedy."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gravityocr.commands.dry_run import plan_of, plan_text
from gravityocr.config import load_config
from gravityocr.model.checkpoint import resolve_checkpoint
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, encode_picture, write_regions
from gravityocr.training.run_config import TrainConfig


@pytest.fixture(scope="module")
def paper(repo_root: Path) -> dict[str, Any]:
    recipe = repo_root / "recipes" / "paper.toml"
    return plan_of(load_config(TrainConfig, recipe), recipe)


def checks(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in plan["checks"]}


def test_the_paper_s_run_costs_26_b_tokens(paper: dict[str, Any]) -> None:
    assert paper["steps"] == 40000
    assert paper["tokens"] == {"row": 10240, "rows_per_step": 64, "step": 655360, "total": 26_214_400_000}
    assert paper["network"]["parameters"]["total"] == 1_107_405_824
    assert 21 <= paper["samples"]["per_row"] <= 30


def test_memory_and_hours_are_told_by_number_of_gpus(paper: dict[str, Any]) -> None:
    rows = paper["by_n_devices"]
    assert [(row["n_devices"], row["accumulation"]) for row in rows] == [(1, 64), (8, 8), (16, 4), (32, 2)]
    assert rows[2]["memory_bytes"]["zero2"] == paper["memory"]["total_bytes"] < paper["memory"]["largest_row_bytes"]
    assert rows[0]["hours"]["H100"] == pytest.approx(16 * rows[2]["hours"]["H100"])
    assert paper["memory"]["largest_row_bytes"] < 72e9, "the recipe must fit in 80 GB"


def test_the_plan_is_json_and_floats_print_as_in_python(paper: dict[str, Any]) -> None:
    assert '"lr_decoder": 2e-05' in json.dumps(paper)
    text = plan_text(paper)
    assert "lr_decoder = 2e-05" in text and "26,214,400,000 forward tokens (26.2 B)" in text
    assert f"memory    {paper['memory']['total_bytes'] / 1e9:.1f} GB a process (16 processes, sharding zero2)" in text


def test_the_printed_settings_are_the_resolved_ones(repo_root: Path, tmp_path: Path) -> None:
    """What stands before the figures is a recipe of its own."""
    for recipe in ("paper", "nano-tasks"):
        config = load_config(TrainConfig, repo_root / "recipes" / f"{recipe}.toml", ["train.seed=7"])
        printed = tmp_path / f"{recipe}.toml"
        printed.write_text(plan_text(plan_of(config)).split("\nnetwork   ")[0], encoding="utf-8")
        assert load_config(TrainConfig, printed) == config


def test_missing_things_are_named_with_a_remedy(paper: dict[str, Any]) -> None:
    found = checks(paper)
    assert not paper["ready"] and not found["train.base"]["ok"] and not found["data.pool train"]["ok"]
    assert "gravityocr checkpoint convert" in found["train.base"]["detail"]
    assert "gravityocr data pool" in found["data.pool train"]["detail"]
    n_failed = sum(not check["ok"] for check in paper["checks"])
    assert plan_text(paper).endswith(f"not ready: {n_failed} of {len(found)} checks failed")


def write_pool(folder: Path, n_regions: int) -> Path:
    pytest.importorskip("pyarrow", reason="the region format; install the extra 'train'")
    picture = encode_picture(Image.new("L", (160, 32), 255))
    regions = [
        LabelledRegion(f"synth:{i}", picture, 160, 32, "text", "abc" * (1 + i % 4), "synth", f"document-{i}")
        for i in range(n_regions)
    ]
    for split in ("train", "validation"):
        write_regions(folder / split / f"pool-00000{SUFFIX}", regions)
    return folder


def laptop(repo_root: Path, pool: Path, folder: Path, *overrides: str) -> TrainConfig:
    settings = [f"data.pool={pool}", f"train.folder={folder}", *overrides]
    return load_config(TrainConfig, repo_root / "recipes" / "laptop.toml", settings)


def test_a_run_with_all_in_place_is_ready_and_counts_its_pool(repo_root: Path, tmp_path: Path) -> None:
    config = laptop(repo_root, write_pool(tmp_path / "pool", 40), tmp_path / "run")
    plan = plan_of(config)
    assert plan["ready"], plan["checks"]
    assert checks(plan)["data.pool train"]["detail"] == "40 regions in 1 files"
    assert not (tmp_path / "run").exists(), "a dry run leaves nothing behind"
    samples, n_cells = plan["samples"], 10 * 2
    assert samples["source"].startswith("counted in pool-00000") and samples["mean_cells"] == n_cells
    # The mean of 3, 6, 9 and 12 tokens, three times with the fill, and a prefix of markers, prompt and cells.
    n_markers = samples["mean_tokens"] - n_cells - 3 * (7.5 + config.noise.block_size)
    assert n_markers == int(n_markers) and 4 <= n_markers <= 12
    assert samples["epochs"] == pytest.approx(samples["total"] / 40, rel=1e-3)
    filled = 1.0 - samples["waste"]
    assert samples["total"] == pytest.approx(filled * plan["tokens"]["total"] / samples["mean_tokens"], rel=1e-3)
    assert plan["by_n_devices"] == []
    text = plan_text(plan)
    assert text.endswith("\nready") and "of 40 regions" in text


def test_a_broken_base_is_not_ready(repo_root: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(resolve_checkpoint("nano"), base)
    (base / "block_diffusion.json").unlink()
    pool = write_pool(tmp_path / "pool", 4)
    plan = plan_of(laptop(repo_root, pool, tmp_path / "run", f"train.base={base}"))
    assert [check["name"] for check in plan["checks"] if not check["ok"]] == ["train.base"]
    assert "block_diffusion.json" in checks(plan)["train.base"]["detail"]


def test_a_folder_that_cannot_be_written_is_told(repo_root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    plan = plan_of(laptop(repo_root, tmp_path / "none", tmp_path / "file" / "run"))
    assert not checks(plan)["train.folder"]["ok"] and not checks(plan)["data.pool train"]["ok"]


def test_a_run_by_time_has_no_total(repo_root: Path) -> None:
    recipe = repo_root / "recipes" / "nano-tasks.toml"
    plan = plan_of(load_config(TrainConfig, recipe), recipe)
    assert plan["steps"] is plan["tokens"]["total"] is plan["flops"]["total"] is None
    assert "as many as 20,000 s allow" in plan_text(plan)


def test_launch_files_must_say_what_the_recipe_says(repo_root: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="the launcher; install the extra 'train'")
    recipe = tmp_path / "paper.toml"
    shutil.copy(repo_root / "recipes" / "paper.toml", recipe)
    shutil.copytree(repo_root / "recipes" / "paper-slurm", tmp_path / "paper-slurm")
    (tmp_path / "paper-slurm" / "broken.yaml").write_text("a: [", encoding="utf-8")
    (tmp_path / "paper-slurm" / "broken.json").write_text("[]", encoding="utf-8")
    config = load_config(TrainConfig, recipe)
    found = checks(plan_of(config, recipe))
    bad = {name for name, check in found.items() if name.startswith("launch file") and not check["ok"]}
    assert {"launch file broken.yaml", "launch file broken.json"} <= bad
    assert found["launch file fsdp2.yaml"]["ok"] and found["launch file zero2.json"]["ok"]
    other = replace(
        config, train=replace(config.train, n_processes=8), optimizer=replace(config.optimizer, clip_norm=0.5)
    )
    found = checks(plan_of(other, recipe))
    assert "--num_processes 8" in found["launch file fsdp2.yaml"]["detail"]
    assert "optimizer.clip_norm" in found["launch file zero2.json"]["detail"]
