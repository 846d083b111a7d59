"""Exports of adapted checkpoints: the base's own files, new weights, and an earlier export's place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.base_checkpoints import all_weights, base_checkpoint, names_in
from tests.factories import edit_json, tiny_network

from gravityocr.errors import CheckpointError, InputError
from gravityocr.model.checkpoint import BlockDiffusion, Checkpoint, load_checkpoint
from gravityocr.model.conversion import ConversionConfig, convert_checkpoint
from gravityocr.model.draft_head import DRAFT_HEAD_FILE, DraftHead, save_draft_head
from gravityocr.training.export import export_adapted


@pytest.fixture
def base(tmp_path: Path) -> Checkpoint:
    source = base_checkpoint(tmp_path / "base", mtp=True, n_shards=2)
    convert_checkpoint(source, tmp_path / "converted", ConversionConfig(base="zai-org/GLM-OCR"))
    edit_json(tmp_path / "converted" / "config.json", lambda raw: raw["text_config"].update(dtype="bfloat16"))
    return load_checkpoint(str(tmp_path / "converted"))


def trained(base: Checkpoint) -> None:
    for parameter in base.model.parameters():
        parameter.add_(0.25)


def test_an_export_has_new_weights_and_the_base_s_other_files(base: Checkpoint, tmp_path: Path) -> None:
    trained(base)
    out = tmp_path / "run" / "checkpoint"
    diffusion = replace(base.diffusion, bd_size=16, extra={"complementary": True})
    for _ in range(2):  # the second takes the place of the first
        export_adapted(out, base, base.model, diffusion, torch.float32)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "LICENSE", "generation_config.json"):
        assert (out / name).read_bytes() == (base.path / name).read_bytes()
    assert names_in(out.parent) == ["checkpoint"]
    raw = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert raw["dtype"] == raw["text_config"]["dtype"] == "float32"
    loaded = load_checkpoint(str(out))
    assert loaded.diffusion == replace(diffusion, extra={"base": "zai-org/GLM-OCR", "complementary": True})
    expected = base.model.state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in loaded.model.state_dict().items())
    assert all_weights(out).keys() == all_weights(base.path).keys()


def test_a_draft_head_of_other_weights_stays_behind(base: Checkpoint, tmp_path: Path) -> None:
    text = base.model.config.text
    save_draft_head(DraftHead(text.hidden_size, text.vocab_size, 8), base.path)
    edit_json(base.path / "block_diffusion.json", lambda raw: raw.update(draft_head=True))
    with_head = load_checkpoint(str(base.path))
    export_adapted(tmp_path / "out", with_head, with_head.model, with_head.diffusion)
    assert DRAFT_HEAD_FILE not in names_in(tmp_path / "out")
    assert load_checkpoint(str(tmp_path / "out")).diffusion.draft_head is False


def test_what_is_not_the_base_s_is_refused(base: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json"):
        export_adapted(tmp_path / "out", base, tiny_network("mqa"), base.diffusion)
    with pytest.raises(CheckpointError, match="mask_id"):
        export_adapted(tmp_path / "out", base, base.model, BlockDiffusion(8, 1))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="no checkpoint"):
        export_adapted(tmp_path / "notes", base, base.model, base.diffusion)
    assert not (tmp_path / "out").exists() and names_in(tmp_path / "notes") == ["a.txt"]
