"""Warm starts: a larger network that begins by doing what the smaller one did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training_data import TINY_NETWORK, make_prompt

from gravityocr.errors import CheckpointError
from gravityocr.model.checkpoint import BlockDiffusion
from gravityocr.model.ocr_model import OcrConfig, OcrModel, prefill
from gravityocr.training.export import export_checkpoint
from gravityocr.training.glyphs import GlyphHeads
from gravityocr.training.nano import EOS_TOKEN, IMAGE_SPEC, MARKUP_TOKENS, VOCAB_SIZE, build_tokenizer, new_network
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.warm_start import start_from, vocabulary_move, warm_start

OLD = build_tokenizer(CHARSET)
NEW = build_tokenizer("ßzyx" + CHARSET, MARKUP_TOKENS)  # ids that move
TEXT = replace(TINY_NETWORK.text, vocab_size=240)
SMALL = OcrConfig(TINY_NETWORK.vision, TEXT)
LARGER = OcrConfig(TINY_NETWORK.vision, replace(TEXT, vocab_size=VOCAB_SIZE, num_hidden_layers=4))
MOVE = vocabulary_move(OLD, NEW, TEXT.vocab_size, VOCAB_SIZE)


def first_logits(model: OcrModel, to_new: bool) -> torch.Tensor:
    prompt = make_prompt(3)
    if to_new:
        renumbered = [NEW.token_to_id(OLD.id_to_token(i)) for i in prompt.ids.tolist()]
        prompt = replace(prompt, ids=torch.tensor(renumbered))
    _, features = model.encode_images([prompt])
    return prefill(model, [prompt], features, 4).first_logits[0]


def test_a_warm_start_changes_nothing_at_first() -> None:
    small, large = new_network(1, SMALL), new_network(2, LARGER)
    before = first_logits(large, to_new=True)
    warm_start(large, small.state_dict(), MOVE)
    expected, got = first_logits(small, to_new=False)[MOVE.old], first_logits(large, to_new=True)[MOVE.new]
    assert torch.allclose(expected, got, atol=1e-5) and not torch.allclose(expected, before[MOVE.new], atol=1e-2)


def test_the_stacked_vocabularies_of_the_glyph_head_move_too() -> None:
    small, large = GlyphHeads(8, TEXT.vocab_size, 0), GlyphHeads(8, VOCAB_SIZE, 0)
    warm_start(large, small.state_dict(), MOVE)
    for letter in "aZ~":
        i, j = OLD.token_to_id(letter), NEW.token_to_id(letter)
        assert i != j
        for glyph in range(3):
            assert torch.equal(
                small.glyph.weight[glyph * TEXT.vocab_size + i], large.glyph.weight[glyph * VOCAB_SIZE + j]
            )
            assert small.glyph.bias[glyph * TEXT.vocab_size + i] == large.glyph.bias[glyph * VOCAB_SIZE + j]


@pytest.mark.parametrize(
    "network",
    [
        OcrConfig(TINY_NETWORK.vision, replace(TEXT, intermediate_size=48)),
        OcrConfig(TINY_NETWORK.vision, replace(TEXT, vocab_size=VOCAB_SIZE + 1)),
    ],
)
def test_weights_that_do_not_fit_are_named(network: OcrConfig) -> None:
    with pytest.raises(CheckpointError, match=r"does not fit"):
        warm_start(new_network(0, network), new_network(1, SMALL).state_dict(), MOVE)


def test_a_missing_weight_is_named() -> None:
    weights = new_network(1, SMALL).state_dict()
    del weights["lm_head.weight"]
    with pytest.raises(CheckpointError, match=r"lack lm_head\.weight"):
        warm_start(new_network(0, SMALL), weights, MOVE)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nothing here"):
        start_from(str(tmp_path / "nothing here"), new_network(0, SMALL), GlyphHeads(24, 240, 0), NEW)
    (tmp_path / "state.pt").write_bytes(b"no state")
    with pytest.raises(CheckpointError, match=r"state\.pt cannot be read"):
        start_from(str(tmp_path), new_network(0, SMALL), GlyphHeads(24, 240, 0), NEW)


def test_a_run_may_start_from_a_checkpoint(tmp_path: Path) -> None:
    small, large = new_network(1, SMALL), new_network(2, LARGER)
    eos = OLD.token_to_id(EOS_TOKEN)
    mask = OLD.token_to_id("<|mask|>")
    export_checkpoint(tmp_path, small, OLD, IMAGE_SPEC, BlockDiffusion(4, mask), eos, torch.float32)
    start_from(str(tmp_path), large, GlyphHeads(24, VOCAB_SIZE, 0), NEW)
    expected, got = first_logits(small, to_new=False)[MOVE.old], first_logits(large, to_new=True)[MOVE.new]
    assert torch.allclose(expected, got, atol=1e-5)


@pytest.mark.parametrize("content", [{"lm_head.weight": 5}, {"lm_head.weight": torch.tensor(1.0)}, ["lm_head.weight"]])
def test_a_state_of_other_things_than_weights_is_named(tmp_path: Path, content: object) -> None:
    torch.save({"model": content, "heads": {}}, tmp_path / "state.pt")
    network = new_network(1, LARGER)
    with pytest.raises(CheckpointError, match=r"state\.pt cannot be read"):
        start_from(str(tmp_path), network, GlyphHeads(24, VOCAB_SIZE, 0), NEW)


def test_weights_that_are_not_finite_are_named() -> None:
    weights = new_network(1, LARGER).state_dict()
    weights["lm_head.weight"][0, 0] = torch.nan
    with pytest.raises(CheckpointError, match=r"lm_head\.weight that is not finite"):
        warm_start(new_network(2, LARGER), weights, vocabulary_move(NEW, NEW, VOCAB_SIZE, VOCAB_SIZE))


def test_a_new_token_begins_as_the_mean_of_those_that_spelled_it() -> None:
    small, large = new_network(1, SMALL), new_network(2, LARGER)
    warm_start(large, small.state_dict(), MOVE)
    spelling = [OLD.token_to_id(character) for character in "_{i}"]
    expected = small.lm_head.weight[spelling].mean(dim=0)
    assert torch.allclose(large.lm_head.weight[NEW.token_to_id("_{i}")], expected)
