"""The embedded checkpoint's network, tokenizer and start: a tiny GLM-OCR that trains on two CPU cores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from gravityocr.errors import ConfigError
from gravityocr.model.checkpoint import MASK_TOKEN
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.prompt import IMAGE_TOKEN, TASK_PROMPTS, ImageSpec, token_id
from gravityocr.model.rope import inverse_frequencies
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionBlock, VisionConfig
from gravityocr.training.synthetic.latex_vocabulary import LATEX_TOKENS, MERGED_LATEX_TOKENS
from gravityocr.training.synthetic.table_tags import MERGED_TAGS

EOS_TOKEN = "<|endoftext|>"
SPECIAL_TOKENS = (
    EOS_TOKEN, "<|user|>", "<|assistant|>", "[gMASK]", "<sop>", "<|begin_of_image|>", "<|end_of_image|>", IMAGE_TOKEN,
    "<|begin_of_video|>", "<|end_of_video|>", "<|video|>", MASK_TOKEN,
)  # fmt: skip
TABLE_TOKENS = ("<tr>", "</tr>", "<td>", "</td>", "<td", ' colspan="', ' rowspan="', *MERGED_TAGS)
MARKUP_TOKENS = (*TABLE_TOKENS, *LATEX_TOKENS, *MERGED_LATEX_TOKENS)
VOCAB_SIZE = 640
IMAGE_SPEC = ImageSpec(
    patch_size=8, min_pixels=2 * 16 * 16, max_pixels=2 * 1024 * 1024, mean=(1.0, 1.0, 1.0), std=(0.3, 0.3, 0.3)
)
"""White is zero: an empty cell carries no signal."""

NETWORK = OcrConfig(
    VisionConfig(
        depth=4, hidden_size=192, intermediate_size=512, num_heads=3, patch_size=8, out_hidden_size=192,
        rope_theta=100.0,
    ),
    # Short grids need fast frequencies; the width axis gets most of them, since lines are wide and low.
    TextConfig(
        vocab_size=VOCAB_SIZE, hidden_size=192, intermediate_size=512, num_hidden_layers=5, num_attention_heads=3,
        num_key_value_heads=3, head_dim=64, rope_theta=100.0, mrope_section=(6, 4, 22),
    ),
)  # fmt: skip


def build_tokenizer(charset: str, markup: Sequence[str] = ()) -> Tokenizer:
    """Return a character tokenizer whose task prompts, GLM-OCR markers and `markup` are single tokens."""
    words = [*dict.fromkeys((*SPECIAL_TOKENS, *TASK_PROMPTS.values(), *charset, *markup))]
    if len(words) > VOCAB_SIZE:
        what = "shorten the character set or the markup"
        raise ConfigError(f"{len(words)} tokens do not fit in a vocabulary of {VOCAB_SIZE}; {what}")
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=" "))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    whole = [*TASK_PROMPTS.values(), *(word for word in markup if len(word) > 1)]
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in whole])
    return tokenizer


def new_network(seed: int, config: OcrConfig = NETWORK) -> OcrModel:
    """Return a network with random weights that already looks at neighbouring patches.

    Vision heads start local through their q and k biases: with a constant bias the rotary phase alone decides, and it
    peaks at a chosen offset. Without it nothing is learned for the first hundred steps.
    """
    torch.manual_seed(seed)
    model = OcrModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                std = 0.5 if "embed_tokens" in name else 0.7 * parameter.shape[1] ** -0.5
                torch.nn.init.normal_(parameter, std=min(std, 0.5))
            elif name.endswith("bias"):
                torch.nn.init.zeros_(parameter)
        model.lm_head.weight.mul_(0.3)
        _localise(model)
    return model


def _localise(model: OcrModel) -> None:
    vision = model.config.vision
    frequencies = inverse_frequencies(vision.rope_theta, vision.head_dim // 2)
    for depth, block in enumerate(model.visual.blocks):
        assert isinstance(block, VisionBlock)
        qkv, reach = block.attn.qkv, 1.0 + depth
        qkv.weight[: 2 * vision.hidden_size].mul_(0.125)
        for head in range(vision.num_heads):
            offset = ((0.0, -reach), (0.0, reach), (1.0 if depth % 2 else -1.0, 0.0))[head % 3]
            phase = torch.cat([frequencies * offset[0], frequencies * offset[1]])
            q_start = head * vision.head_dim
            k_start = q_start + vision.hidden_size
            qkv.bias[q_start : q_start + vision.head_dim] = torch.cat([phase.cos(), phase.sin()])
            qkv.bias[k_start : k_start + vision.head_dim // 2] = 1.0


def token_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids that a GLM-OCR config.json names."""
    names = {
        "image_token_id": IMAGE_TOKEN,
        "video_token_id": "<|video|>",
        "image_start_token_id": "<|begin_of_image|>",
        "image_end_token_id": "<|end_of_image|>",
        "video_start_token_id": "<|begin_of_video|>",
        "video_end_token_id": "<|end_of_video|>",
    }
    return {name: token_id(tokenizer, token) for name, token in names.items()}


def write_processor_files(path: Path, tokenizer: Tokenizer, spec: ImageSpec, eos_ids: list[int]) -> None:
    """Write tokenizer.json, tokenizer_config.json, preprocessor_config.json and generation_config.json."""
    tokenizer.save(str(path / "tokenizer.json"))
    files = {
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": EOS_TOKEN,
            "pad_token": EOS_TOKEN,
            "mask_token": MASK_TOKEN,
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
        },
        "preprocessor_config.json": {
            "image_processor_type": "Glm46VImageProcessor",
            "do_convert_rgb": True, "do_resize": True, "do_rescale": True, "do_normalize": True, "resample": 3,
            "rescale_factor": 1 / 255,
            "image_mean": list(spec.mean), "image_std": list(spec.std),
            "patch_size": spec.patch_size, "temporal_patch_size": spec.temporal_patch_size,
            "merge_size": spec.merge_size,
            "size": {"shortest_edge": spec.min_pixels, "longest_edge": spec.max_pixels},
        },
        "generation_config.json": {"eos_token_id": eos_ids, "pad_token_id": eos_ids[0], "do_sample": False},
    }  # fmt: skip
    for name, content in files.items():
        (path / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

