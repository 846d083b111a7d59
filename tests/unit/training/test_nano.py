"""The embedded checkpoint's start: tokenizer, sizes, reproducible weights, processor files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.training_data import EOS_ID, IMAGE_SPEC, MASK_ID, TINY_NETWORK, TOKENIZER

from gravityocr.errors import ConfigError
from gravityocr.model.checkpoint import MASK_TOKEN, read_image_spec
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.prompt import AFTER_IMAGE, BEFORE_IMAGE, IMAGE_TOKEN, TASK_PROMPTS
from gravityocr.model.rope import axial_rope, rotate_halves
from gravityocr.training.nano import (
    NETWORK,
    SPECIAL_TOKENS,
    VOCAB_SIZE,
    build_tokenizer,
    new_network,
    token_ids,
    write_processor_files,
)
from gravityocr.training.synthetic.charset import CHARSET


def test_every_character_survives_the_round_trip() -> None:
    encoded = TOKENIZER.encode(CHARSET, add_special_tokens=False)
    assert len(encoded.ids) == len(CHARSET) == len(set(encoded.ids))  # one token each, all different
    assert TOKENIZER.decode(encoded.ids) == CHARSET
    text = 'Mr. O\'Neill said: "5 %  of x ≤ y"\n\nand left.'
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False).ids) == text


def test_special_tokens_are_left_out_of_decoded_text() -> None:
    ids = [MASK_ID, *TOKENIZER.encode("a b", add_special_tokens=False).ids, EOS_ID, EOS_ID]
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == "a b"


@pytest.mark.parametrize("text", [*TASK_PROMPTS.values(), *SPECIAL_TOKENS])
def test_prompts_and_markers_are_single_tokens(text: str) -> None:
    assert TOKENIZER.encode(text, add_special_tokens=False).ids == [TOKENIZER.token_to_id(text)]


def test_the_prompt_around_the_image_has_no_unknown_token() -> None:
    for task in TASK_PROMPTS.values():
        around = BEFORE_IMAGE + IMAGE_TOKEN + AFTER_IMAGE.format(task=task)
        encoded = TOKENIZER.encode(around, add_special_tokens=False)
        assert "".join(encoded.tokens) == around
        assert len(encoded.ids) == 10


def test_the_mask_token_is_there_and_the_vocabulary_fits() -> None:
    assert TOKENIZER.token_to_id(MASK_TOKEN) == MASK_ID != EOS_ID
    assert TOKENIZER.get_vocab_size() <= VOCAB_SIZE == NETWORK.text.vocab_size
    assert sorted(TOKENIZER.get_vocab().values()) == list(range(TOKENIZER.get_vocab_size()))
    with pytest.raises(ConfigError, match="do not fit"):
        build_tokenizer("".join(chr(0x4E00 + i) for i in range(VOCAB_SIZE)))


def test_token_ids_name_existing_tokens() -> None:
    ids = token_ids(TOKENIZER)
    assert ids["image_token_id"] == TOKENIZER.token_to_id("<|image|>")
    assert len(set(ids.values())) == 6 and all(TOKENIZER.id_to_token(i) in SPECIAL_TOKENS for i in ids.values())


def test_the_network_is_a_function_of_its_seed() -> None:
    one, same, other = (new_network(seed, TINY_NETWORK).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(one[name], same[name]) for name in one)
    matrices = [name for name, value in one.items() if value.dim() == 2]
    assert matrices and not any(torch.equal(one[name], other[name]) for name in matrices)
    assert all(bool(value.isfinite().all()) for value in one.values())


def test_the_embedded_network_fits_in_40_mb() -> None:
    n_weights = sum(p.numel() for p in OcrModel(NETWORK).parameters())
    assert 2 * n_weights < 40e6


def test_fresh_vision_heads_look_at_neighbours() -> None:
    """The q and k biases alone prefer a patch beside the query's, along a row of patches."""
    model = new_network(0, NETWORK)
    vision, block = model.config.vision, model.visual.blocks[0]
    with torch.no_grad():
        block.attn.qkv.weight.zero_()
        q, k, _ = block.attn.qkv.bias.view(3, vision.num_heads, vision.head_dim).unbind(0)
        q, k = block.attn.q_norm(q), block.attn.k_norm(k)
    positions = torch.tensor([[0, column] for column in range(9)])
    turns = axial_rope(positions, vision.rope_theta, vision.head_dim)
    scores = [rotate_halves(k[h].expand(9, -1), turns) @ rotate_halves(q[h], turns[4]) for h in (0, 1)]
    assert sorted(int(score.argmax()) for score in scores) == [3, 5]


def test_processor_files_carry_the_image_spec(tmp_path: Path) -> None:
    write_processor_files(tmp_path, TOKENIZER, IMAGE_SPEC, [EOS_ID])
    assert read_image_spec(tmp_path) == IMAGE_SPEC
    assert {path.name for path in tmp_path.iterdir()} == {
        "tokenizer.json",
        "tokenizer_config.json",
        "preprocessor_config.json",
        "generation_config.json",
    }
