"""The dry run: what is printed is what the settings say, and what is missing is named with its remedy."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gravityocr.commands.dry_run import plan_of
from gravityocr.commands.dry_run_text import SETTINGS, plan_text
from gravityocr.config import dump_config, load_config
from gravityocr.model.checkpoint import resolve_checkpoint
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, encode_picture, write_regions
from gravityocr.training.effective_settings import effective_toml
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
    assert f"memory    {paper['memory']['total_bytes'] / 1e9:.1f} GB a process (16 processes, gradients and" in text
    assert "with the forwards that activation checkpointing repeats" in text


def test_figures_and_checks_come_before_the_settings(paper: dict[str, Any]) -> None:
    text = plan_text(paper)
    heads = ["network  ", "steps  ", "tokens  ", "samples  ", "FLOPs  ", "memory  ", "     GPUs", "ok    ", "not ready"]
    places = [text.index(f"{chr(10)}{head}") if head != heads[0] else text.index(head) for head in [*heads, SETTINGS]]
    assert places == sorted(places) and places[0] == 0


def test_small_figures_read_well(repo_root: Path) -> None:
    plan = plan_of(load_config(TrainConfig, repo_root / "recipes" / "laptop.toml"))
    text = plan_text(plan)
    assert "409,600 forward tokens: 2,048 a step, in 2 rows of 1,024" in text and "(0.0" not in text
    assert "(1 process)" in text and "repeats" not in text and "buckets" not in text
    assert checks(plan)["data.pool train"]["detail"] == "205 regions in 1 file"


@pytest.mark.parametrize("recipe", ["paper", "laptop", "nano-tasks"])
def test_the_printed_settings_are_the_resolved_ones(repo_root: Path, tmp_path: Path, recipe: str) -> None:
    """What stands behind the figures is a recipe of its own, and does what the resolved settings do."""
    config = load_config(TrainConfig, repo_root / "recipes" / f"{recipe}.toml", ["train.seed=7"])
    plan = plan_of(config)
    printed = tmp_path / f"{recipe}.toml"
    printed.write_text(plan_text(plan).split(SETTINGS)[1], encoding="utf-8")
    again = load_config(TrainConfig, printed)
    assert effective_toml(dump_config(again)) == effective_toml(dump_config(config))
    assert again.train == replace(config.train, steps=again.train.steps, tasks=again.train.tasks,
                                  n_samples=again.train.n_samples)  # fmt: skip
    assert load_config(TrainConfig, _written(tmp_path / "all.toml", plan["toml"])) == config, "the JSON keeps all"


def _written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("setting", "n_tokens"),
    [
        ("noise.block_size=32", 150 + 3 * (52 + 32)),
        ("noise.block_size=16", 150 + 3 * (52 + 16)),
        ("noise.eos_fill=false", 150 + 3 * (52 + 1)),
        ("noise.mask_schedule=all", 150 + 2 * (52 + 32)),
    ],
)
def test_the_assumed_sample_follows_the_noise(repo_root: Path, setting: str, n_tokens: int) -> None:
    plan = plan_of(load_config(TrainConfig, repo_root / "recipes" / "paper.toml", [setting]))
    samples = plan["samples"]
    assert samples["mean_tokens"] == n_tokens
    assert samples["per_row"] == pytest.approx(10240 / n_tokens, abs=0.05)
    n_eos = 1 if "fill" in setting else 16 if "16" in setting else 32
    assert samples["source"].endswith(f"of response + {n_eos} EOS")
    assert f"and {2 if 'all' in setting else 3} times 52" in samples["source"]
    assert samples["source"] in plan_text(plan)


def test_missing_things_are_named_with_a_remedy(paper: dict[str, Any]) -> None:
    found = checks(paper)
    assert not paper["ready"] and not found["train.base"]["ok"] and not found["data.pool train"]["ok"]
    assert "gravityocr checkpoint convert" in found["train.base"]["detail"]
    assert "gravityocr data pool" in found["data.pool train"]["detail"]
    n_failed = sum(not check["ok"] for check in paper["checks"])
    assert f"\nnot ready: {n_failed} of {len(found)} checks failed\n" in plan_text(paper)


def write_pool(folder: Path, n_regions: int, height_px: int = 32, bad_targets: int = 0) -> Path:
    pytest.importorskip("pyarrow", reason="the region format; install the extra 'train'")
    picture = encode_picture(Image.new("L", (160, height_px), 255))
    targets = ["\u4e16\u754c" if i < bad_targets else "abc" * (1 + i % 4) for i in range(n_regions)]
    regions = [
        LabelledRegion(f"synth:{i}", picture, 160, height_px, "text", target, "synth", f"document-{i}")
        for i, target in enumerate(targets)
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
    assert checks(plan)["data.pool train"]["detail"] == "40 regions in 1 file"
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
    assert "\nready\n" in text and "times the 40 regions" in text
    assert checks(plan)["pool fits"]["detail"] == "all 40 regions of its first file can be trained on"


def test_a_pool_that_does_not_fit_the_packing_is_told(repo_root: Path, tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "pool", 40)
    plan = plan_of(laptop(repo_root, pool, tmp_path / "run", "packing.row_tokens=120"))
    fits = checks(plan)["pool fits"]
    # 20 cells and the prompt, and three times 24 EOS with 9 or 12 tokens: half of the regions exceed 120.
    assert not fits["ok"] and "20 of the first file's 40 regions cannot be trained on" in fits["detail"]
    assert "20 of them because its cost exceeds packing.row_tokens: raise packing.row_tokens" in fits["detail"]
    plan = plan_of(laptop(repo_root, pool, tmp_path / "run", "packing.response_cap_tokens=30"))
    assert "raise packing.response_cap_tokens" in checks(plan)["pool fits"]["detail"]
    plan = plan_of(laptop(repo_root, pool, tmp_path / "run", "packing.row_tokens=20"))
    fits = checks(plan)["pool fits"]
    assert not plan["ready"] and not fits["ok"] and "none of its 40 regions" in fits["detail"]
    assert plan["samples"]["source"].startswith("assumed")


def test_few_regions_may_be_left_out(repo_root: Path, tmp_path: Path) -> None:
    for n_bad, ok in ((2, True), (3, False)):
        pool = write_pool(tmp_path / f"pool-{n_bad}", 200, bad_targets=n_bad)
        fits = checks(plan_of(laptop(repo_root, pool, tmp_path / "run")))["pool fits"]
        assert fits["ok"] is ok
        assert f"{n_bad} of the first file's 200 regions" in fits["detail"]
        assert "the tokenizer cannot write its target: take another train.base" in fits["detail"]


def test_regions_larger_than_the_base_s_pieces_are_told(repo_root: Path, tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "pool", 40, height_px=64)
    fits = checks(plan_of(laptop(repo_root, pool, tmp_path / "run")))["pool fits"]
    assert not fits["ok"] and "training does not cut crops: 40 of 40 text regions" in fits["detail"]
    assert "docs/training.md" in fits["detail"]


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
