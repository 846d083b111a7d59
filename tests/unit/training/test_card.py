"""Model cards: they state what the run's files say, and no figure that is not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gravityocr.errors import CheckpointError, InputError
from gravityocr.training.card import card_has_figures, read_figures, write_card

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
    assert "| crops | edit distance (NED) | TEDS | tokens a forward (TPF) | identical with AR | odd |" in body
    assert "| text | 0.0625 |  | 3.5 | 1 |  |" in body
    assert "| table | 0.25 | 0.8 |  |  | 3 |" in body
    assert "640 samples" in body and "steps = 40" in body and "17 regions" in body
    assert "| pubtabnet | table | annotation | 17 |" in body and "rvlcdip" not in body
    assert "somebody" not in text  # a card is published
    assert card_has_figures(text)


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
        ("## Recipe\n\n| a | b |\n| --- | --- |\n| x | 0.3 |\n", False),
        ("## Figures\n\nnone\n\n## Recipe\n\n| a | b |\n| --- | --- |\n| x | 0.3 |\n", False),
    ],
)
def test_what_counts_as_figures(text: str, has: bool) -> None:
    assert card_has_figures(text) is has
