"""Model cards: they state what the run's files say, and no figure that is not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gravityocr.config import load_config
from gravityocr.errors import CheckpointError, InputError
from gravityocr.training.card import write_card
from gravityocr.training.card_figures import card_has_figures, read_figures
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, write_regions
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.run_record import reason_kind

CONFIG = """[train]
folder = "/home/somebody/runs/a"
steps = 40
base = "zai-org/GLM-OCR"
start_from = "none"

[data]
pool = "{pool}"
"""
RECORDS: list[dict[str, Any]] = [
    {"step": 10, "val_ned": 0.5, "val_tpf": 1.25},
    {"step": 20, "loss": 1.0},
    {
        "step": 30, "val_ned": 0.0625, "val_tpf": 3.5, "val_identical": 1.0, "val_ned_table": 0.25, "val_odd_table": 3,
        "val_n_crops": 30, "val_n_crops_table": 29,
        "val_teds_table": 0.8, "val_example": "'a' -> 'b'",
    },
    {"step": 40, "samples": 640, "elapsed_s": 12.5, "loss": 0.5},
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / "block_diffusion.json").write_text('{"bd_size": 16, "mask_id": 3, "tasks": ["text"]}')
    pool = tmp_path / "pool"
    pool.mkdir()
    groups = [
        {"source": "pubtabnet", "task": "table", "origin": "annotation", "read": 40, "train": 17, "validation": 2},
        {"source": "rvlcdip", "task": "text", "origin": "teacher", "read": 9, "train": 0, "validation": 0},
    ]
    report = {"groups": groups, "inputs": ["/home/somebody/data"]}
    (pool / "pool.json").write_text(json.dumps(report), encoding="utf-8")
    (folder / "config.toml").write_text(CONFIG.format(pool=pool), encoding="utf-8")
    log = "".join(json.dumps(record) + "\n" for record in RECORDS)
    (folder / "log.jsonl").write_text(log + '{"step": 41, "val_n', encoding="utf-8")  # a stopped run's last line
    return folder


def card(checkpoint: Path, *arguments: Any, **options: Any) -> str:
    return write_card(checkpoint, *arguments, **options).read_text(encoding="utf-8")


def test_the_card_of_a_run(run: Path) -> None:
    text = card(run / "checkpoint", run, license_id="mit", title="tiny")
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    assert set(front.splitlines()) >= {
        "license: mit", "base_model: zai-org/GLM-OCR", "pipeline_tag: image-to-text", "library_name: transformers",
    }  # fmt: skip
    assert "# tiny" in body and "blocks of 16 tokens" in body and "Adapted from zai-org/GLM-OCR" in body
    assert "(step 30)" in body
    assert "| kind | crops | edit distance (NED) | TEDS | tokens a forward (TPF) | identical with AR | odd |" in body
    assert "| text | 30 | 0.0625 |  | 3.5 | 1 |  |" in body
    assert "| table | 29 (too few to tell) | 0.25 | 0.8 |  |  | 3 |" in body
    assert "640 samples" in body and "steps = 40" in body and "17 regions" in body
    assert "| pubtabnet | table | annotation | 17 |" in body and "rvlcdip" not in body
    assert "drew 640 samples, 37.6 times the pool" in body and "left out" not in body
    assert "somebody" not in text  # a card is published
    assert card_has_figures(text)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (["text"], "Reads text."),
        (["text", "table", "formula"], "Reads text, table (claimed, but not validated: formula)."),
        (["formula"], "It claims to read formula; its run validated none of them."),
    ],
)
def test_only_what_was_validated_is_read(run: Path, tasks: list[str], words: str) -> None:
    settings = {"bd_size": 16, "mask_id": 3, "tasks": tasks}
    (run / "checkpoint" / "block_diffusion.json").write_text(json.dumps(settings), encoding="utf-8")
    assert words in card(run / "checkpoint", run)
    assert "validated none of them" in card(run / "checkpoint")


def test_the_settings_that_matter_stand_in_a_sentence(run: Path) -> None:
    edit(run / "config.toml", "steps = 40\n", 'steps = 40\nfreeze = ["vision", "merger"]\n')
    more = "[optimizer]\nlr_decoder = 1e-4\nlr_lm_head = 3e-5\n[loss]\nar_weight = 0.5\ndiffusion_weight = 2.0\n"
    more += '[noise]\nblock_size = 8\nmask_schedule = "all"\neos_fill = false\n'
    edit(run / "config.toml", "[data]", f"{more}[data]")
    text = card(run / "checkpoint", run)
    assert "Peak learning rates (adamw): embeddings 0.0001, decoder 0.0001, lm_head 3e-05; frozen: vision, mer" in text
    assert "AR weight 0.5, diffusion weight (lambda) 2; blocks of 8 tokens, mask schedule all, 1 EOS behind" in text


def test_the_recipe_can_be_run_again_and_names_its_placeholders(run: Path, tmp_path: Path) -> None:
    edit(run / "config.toml", "[data]", "[network.text]\nvocab_size = 640\n[data]")
    edit(run / "config.toml", "[data]", '[validation]\nshards = "heldout"\n[data]')
    text = card(run / "checkpoint", run)
    assert "(`a`, `pool` stand for folders of the machine that it ran on: placeholders, name your own):" in text
    recipe = tmp_path / "again.toml"
    recipe.write_text(text.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    config = load_config(TrainConfig, recipe)
    assert (config.train.steps, config.train.folder, config.data.pool) == (40, "a", "pool")
    printed = recipe.read_text(encoding="utf-8")
    assert "vocab_size" not in printed and "heldout" not in printed and "# Left out" in printed


def test_changes_on_the_way_are_listed(run: Path) -> None:
    changed = ["loss.diffusion_weight: 1.0 -> 0.5", "data.pool: none -> /home/somebody/p"]
    records = [
        {"step": 5, "resumed_from": 5, "changed": []},
        {"step": 20, "resumed_from": 20, "changed": changed},
        {"step": 40, "resumed_from": 40, "changed": ["train.steps: 20 -> 40"]},
    ]  # fmt: skip
    assert "Changed on the way" not in card(run / "checkpoint", run)
    with (run / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write("\n" + "".join(json.dumps(record) + "\n" for record in records))
    text = card(run / "checkpoint", run)
    changes = text.split("### Changed on the way\n\n")[1].split("\n\n")[0]
    assert changes.splitlines() == [
        "- from step 20 on: loss.diffusion_weight: 1.0 -> 0.5", "- from step 20 on: data.pool: none -> p",
        "- from step 40 on: train.steps: 20 -> 40",
    ]  # fmt: skip
    assert "640 samples" in text and "somebody" not in text


def test_what_was_left_out_of_the_pool_is_counted(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the region format; install the extra 'train'")
    regions = [LabelledRegion(f"t:{i}", b"", 8, 8, "table", "x", "pubtabnet", "d") for i in range(17)]
    write_regions(tmp_path / "pool" / "train" / f"pool-00000{SUFFIX}", regions)
    cost = "its cost of {} forward tokens exceeds packing.row_tokens"
    skipped = [("t:0", cost.format(700)), ("t:1", cost.format(90)), ("t:2", "its loss is not finite"), ("t:2", "again")]
    lines = [json.dumps({"step": 0, "name": name, "reason": reason}) for name, reason in skipped]
    (run / "skipped.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = card(run / "checkpoint", run)
    assert "| source | task | origin | regions | left out |" in text
    assert "| pubtabnet | table | annotation | 17 | 3 |" in text
    assert "3 regions of the pool were left out at some step: 2: its cost exceeds packing.row_tokens; 1: again." in text


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("its cost of 9 forward tokens exceeds packing.row_tokens", "its cost exceeds packing.row_tokens"),
        ("the tokenizer cannot write its target: it lacks U+4E16", "the tokenizer cannot write its target"),
        ("region a:1: its picture is broken (no image); make it", "its picture is broken (no image); make it"),
        ("its loss is not finite", "its loss is not finite"),
    ],
)
def test_reasons_are_told_apart_by_kind(reason: str, kind: str) -> None:
    assert reason_kind(reason) == kind


def test_the_use_names_the_folder(run: Path) -> None:
    text = card(run / "checkpoint", run)
    use = text.split("## Use")[1]
    assert 'from_pretrained("checkpoint")' in use and "--local-dir checkpoint" in use
    assert "FOLDER" not in text


@pytest.mark.parametrize(
    ("base", "given", "stated"),
    [
        ("nano", None, "apache-2.0"),
        ("nano", "mit", "mit"),
        ("zai-org/GLM-OCR", None, "other"),
        ("none", None, "other"),
    ],
)
def test_the_licence(run: Path, base: str, given: str | None, stated: str) -> None:
    edit(run / "config.toml", "zai-org/GLM-OCR", base)
    assert f"\nlicense: {stated}\n" in card(run / "checkpoint", run, license_id=given)


def test_a_card_states_no_figure_that_is_not_there(run: Path) -> None:
    (run / "log.jsonl").write_text('{"step": 3, "loss": 2.5}\n', encoding="utf-8")
    for text in (card(run / "checkpoint", run), card(run / "checkpoint")):
        assert "No figures were measured" in text and not card_has_figures(text)
        figures = text.split("## Figures")[1].split("##")[0]
        assert not any(letter.isdigit() for letter in figures)
    assert "Not recorded" in text


def test_further_figures(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text('{"overall": 95.1, "tables": {"TEDS": 0.93, "set": "ours | v1"}}', encoding="utf-8")
    text = card(run / "checkpoint", None, file)
    assert "| overall | 95.1 |" in text and "| tables.TEDS | 0.93 |" in text and "ours \\| v1" in text
    assert card_has_figures(text)


def test_a_run_from_nothing_and_a_base_in_a_folder(run: Path) -> None:
    config = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(config.replace("zai-org/GLM-OCR", "none"), encoding="utf-8")
    assert "Trained from random weights" in card(run / "checkpoint", run)
    other = config.replace("zai-org/GLM-OCR", "none").replace('start_from = "none"', 'start_from = "/a/first"')
    (run / "config.toml").write_text(other, encoding="utf-8")
    assert "Trained from the weights of first." in card(run / "checkpoint", run)
    (run / "config.toml").write_text(config.replace("zai-org/GLM-OCR", "/home/somebody/my-base"), encoding="utf-8")
    text = card(run / "checkpoint", run)
    assert "Adapted from my-base" in text and "base_model" not in text and "somebody" not in text


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"a": [1]}', '{"a": true}', '{"a": null}', "{"])
def test_figures_that_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "figures.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="figures.json"):
        read_figures(tmp_path / "figures.json")


def test_a_pool_without_its_report(run: Path, tmp_path: Path) -> None:
    (tmp_path / "pool" / "pool.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"pool\.json"):
        card(run / "checkpoint", run)
    (tmp_path / "pool" / "pool.json").unlink()
    assert "The pool `pool` of" in card(run / "checkpoint", run)


def test_a_folder_that_is_no_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="config.toml"):
        card(run / "checkpoint", tmp_path)
    (run / "config.toml").write_text("[train", encoding="utf-8")
    with pytest.raises(InputError, match="broken"):
        card(run / "checkpoint", run)
    with pytest.raises(CheckpointError, match=r"block_diffusion\.json"):
        card(tmp_path)


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("", False),
        ("## Figures\n\n| a | b |\n| --- | --- |\n", False),
        ("## Figures\n\n| a | b |\n| --- | --- |\n| x | |\n", False),
        ("## Figures\n\n| a | b |\n| --- | --- |\n| x | 0.3 |\n", True),
        ("## Figures\n\n| kind | crops |\n| --- | --- |\n| x | 30 |\n", False),
        ("## Recipe\n\n| a | b |\n| --- | --- |\n| x | 0.3 |\n", False),
        ("## Figures\n\nnone\n\n## Recipe\n\n| a | b |\n| --- | --- |\n| x | 0.3 |\n", False),
    ],
)
def test_what_counts_as_figures(text: str, has: bool) -> None:
    assert card_has_figures(text) is has


@pytest.mark.parametrize(
    "content", ['{"a": ' * 5000 + "1" + "}" * 5000, '{"a": NaN}', '{"a": Infinity}', '{"\\ud800": 1}', "[]", "{}"]
)
def test_figures_that_are_none_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "figures.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="figures.json"):
        read_figures(file)


def test_names_of_figures_cannot_break_the_table(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text('{"a|b\\n## Figures": 1.5}', encoding="utf-8")
    assert read_figures(file) == {"a/b ## Figures": 1.5}
