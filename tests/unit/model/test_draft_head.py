"""The draft head's file, and what it adds to a hidden state."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.factories import CONFIGS, tiny_network, write_checkpoint

from gravityocr.errors import CheckpointError
from gravityocr.model.checkpoint import load_checkpoint
from gravityocr.model.draft_head import DRAFT_HEAD_FILE, DraftHead, load_draft_head, save_draft_head

HIDDEN, VOCAB = CONFIGS["gqa"].text.hidden_size, CONFIGS["gqa"].text.vocab_size


def random_head(seed: int = 0, width: int = 16) -> DraftHead:
    torch.manual_seed(seed)
    head = DraftHead(HIDDEN, VOCAB, width)
    torch.nn.init.normal_(head.to_hidden.weight)
    return head


def test_a_fresh_head_changes_nothing() -> None:
    head = DraftHead(HIDDEN, VOCAB)
    states = torch.randn(5, HIDDEN)
    tokens = torch.arange(5)
    assert head.correction(head.context(states, states), tokens, tokens).abs().max() == 0


def test_every_input_counts() -> None:
    head, states = random_head(), torch.randn(2, HIDDEN)
    one, two = torch.tensor([1]), torch.tensor([2])

    def corrected(hidden: int, before: int, last: torch.Tensor, token_before: torch.Tensor) -> torch.Tensor:
        return head.correction(head.context(states[hidden], states[before]), last, token_before)

    usual = corrected(0, 1, one, two)
    others = [corrected(1, 1, one, two), corrected(0, 0, one, two), corrected(0, 1, two, two)]
    others.append(corrected(0, 1, one, one))
    assert all(not torch.allclose(usual, other) for other in others)


def test_a_head_comes_back_from_its_file(tmp_path: Path) -> None:
    assert load_draft_head(tmp_path, HIDDEN, VOCAB, torch.float32, "cpu") is None
    head = random_head(width=24)
    save_draft_head(head, tmp_path, torch.float32)
    loaded = load_draft_head(tmp_path, HIDDEN, VOCAB, torch.float32, "cpu")
    assert loaded is not None
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in head.state_dict().items())


def test_a_checkpoint_brings_its_head_and_refuses_a_foreign_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_network("gqa", 1))
    save_draft_head(random_head(), tmp_path)
    assert load_checkpoint(str(tmp_path)).draft_head is not None
    save_draft_head(DraftHead(HIDDEN + 1, VOCAB), tmp_path)
    with pytest.raises(CheckpointError, match=DRAFT_HEAD_FILE):
        load_checkpoint(str(tmp_path))
    (tmp_path / DRAFT_HEAD_FILE).write_bytes(b"no tensors")
    with pytest.raises(CheckpointError, match=DRAFT_HEAD_FILE):
        load_checkpoint(str(tmp_path))


@pytest.mark.parametrize("damage", ["nan", "integers", "width", "folder"])
def test_a_head_that_cannot_be_used_is_refused(tmp_path: Path, damage: str) -> None:
    file = tmp_path / DRAFT_HEAD_FILE
    tensors = random_head(width=4).state_dict()
    if damage == "nan":
        tensors["to_hidden.weight"][0, 0] = torch.nan
    if damage == "width":
        tensors["from_hidden.bias"] = torch.zeros(0)
    if damage == "integers":
        tensors = {name: value.int() for name, value in tensors.items()}
    if damage == "folder":
        file.mkdir()
    else:
        save_file(tensors, str(file))
    with pytest.raises(CheckpointError, match=f"{DRAFT_HEAD_FILE} is broken or belongs"):
        load_draft_head(tmp_path, HIDDEN, VOCAB, torch.float32, "cpu")


def test_a_head_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    head = random_head()
    save_draft_head(head, tmp_path)
    before = (tmp_path / DRAFT_HEAD_FILE).read_bytes()
    torch.nn.init.constant_(head.to_hidden.weight, torch.inf)
    with pytest.raises(CheckpointError, match="not finite"):
        save_draft_head(head, tmp_path)
    assert (tmp_path / DRAFT_HEAD_FILE).read_bytes() == before
    with pytest.raises(CheckpointError, match="cannot be written"):
        save_draft_head(random_head(), tmp_path / "nowhere")
