"""The full-size network on the meta device, key by key; the literals are GLM-OCR's published configuration."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
import torch

from gravityocr.model.checkpoint import dump_config, parse_config
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.prompt import ImageSpec
from gravityocr.model.weights import extra_layer_keys, weight_names

PUBLISHED: dict[str, Any] = {
    "model_type": "glm_ocr",
    "architectures": ["GlmOcrForConditionalGeneration"],
    "image_token_id": 59280,
    "text_config": {
        "model_type": "glm_ocr_text", "vocab_size": 59392, "hidden_size": 1536, "intermediate_size": 4608,
        "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "num_nextn_predict_layers": 1, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
        "eos_token_id": [59246, 59253], "pad_token_id": 59246,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 1.0, "mrope_section": [16, 24, 24],
        },
    },
    "vision_config": {
        "model_type": "glm_ocr_vision", "depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16,
        "patch_size": 14, "temporal_patch_size": 2, "spatial_merge_size": 2, "out_hidden_size": 1536, "in_channels": 3,
        "rms_norm_eps": 1e-5, "attention_bias": True, "hidden_act": "silu",
    },
}  # fmt: skip

MTP = "model.language_model.layers.16."
MTP_KEYS = {
    MTP + key
    for key in (
        "embed_tokens.weight", "enorm.weight", "hnorm.weight", "eh_proj.weight", "shared_head.norm.weight",
        "shared_head.head.weight", "input_layernorm.weight", "post_attention_layernorm.weight",
        "post_self_attn_layernorm.weight", "post_mlp_layernorm.weight", "self_attn.q_proj.weight",
        "self_attn.k_proj.weight", "self_attn.v_proj.weight", "self_attn.o_proj.weight", "mlp.gate_up_proj.weight",
        "mlp.down_proj.weight",
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def network() -> OcrModel:
    with torch.device("meta"):
        return OcrModel(parse_config(PUBLISHED))


def test_our_defaults_are_the_published_sizes() -> None:
    assert parse_config(PUBLISHED) == OcrConfig()
    assert parse_config(dump_config(OcrConfig(), {}, [0], "bfloat16")) == OcrConfig()
    assert (ImageSpec().patch_size, ImageSpec().temporal_patch_size, ImageSpec().merge_size) == (14, 2, 2)


def test_parameters_are_1107_m_of_them_434_m_vision(network: OcrModel) -> None:
    def millions(module: torch.nn.Module) -> int:
        return round(sum(parameter.numel() for parameter in module.parameters()) / 1e6)

    assert (millions(network), millions(network.visual)) == (1107, 434)


def test_names_and_shapes_one_by_one(network: OcrModel) -> None:
    """A few by hand; all of them against the stock class below."""
    names = weight_names(network)
    shapes = {names[key]: tuple(value.shape) for key, value in network.state_dict().items()}
    assert len(set(names.values())) == len(names)
    layer, block = "model.language_model.layers.15.", "model.visual.blocks.23."
    expected = {
        "lm_head.weight": (59392, 1536),
        "model.language_model.embed_tokens.weight": (59392, 1536),
        "model.language_model.norm.weight": (1536,),
        layer + "self_attn.q_proj.weight": (2048, 1536),
        layer + "self_attn.k_proj.weight": (1024, 1536),
        layer + "self_attn.v_proj.weight": (1024, 1536),
        layer + "self_attn.o_proj.weight": (1536, 2048),
        layer + "mlp.gate_up_proj.weight": (9216, 1536),
        layer + "mlp.down_proj.weight": (1536, 4608),
        layer + "post_self_attn_layernorm.weight": (1536,),
        layer + "post_mlp_layernorm.weight": (1536,),
        block + "attn.qkv.weight": (3072, 1024),
        block + "attn.q_norm.weight": (64,),
        block + "mlp.up_proj.bias": (4096,),
        "model.visual.patch_embed.proj.weight": (1024, 3 * 2 * 14 * 14),  # the convolution, flattened
        "model.visual.downsample.weight": (1536, 4 * 1024),  # likewise
        "model.visual.merger.gate_proj.weight": (4608, 1536),
        "model.visual.merger.post_projection_norm.bias": (1536,),
    }
    assert {key: shapes.get(key) for key in expected} == expected
    assert not any(key.startswith(MTP) for key in shapes)


def test_every_key_and_shape_is_the_stock_class_s(network: OcrModel) -> None:
    transformers = pytest.importorskip("transformers", reason="the stock class is the oracle; install the extra 'dev'")
    config = transformers.GlmOcrConfig.from_dict(PUBLISHED)
    with torch.device("meta"):
        stock = transformers.GlmOcrForConditionalGeneration(config)
    theirs = {key: tuple(value.shape) for key, value in stock.state_dict().items()}
    names = weight_names(network)
    ours = {names[key]: tuple(value.shape) for key, value in network.state_dict().items()}
    assert ours.keys() == theirs.keys()
    reshaped = {key for key in ours if ours[key] != theirs[key]}
    assert reshaped == {"model.visual.patch_embed.proj.weight", "model.visual.downsample.weight"}
    for key in reshaped:
        assert ours[key] == (theirs[key][0], prod(theirs[key][1:])), "flattened, nothing else"
    assert sum(map(prod, ours.values())) == sum(parameter.numel() for parameter in stock.parameters())


def test_the_stock_class_reads_our_config_as_the_published_one() -> None:
    transformers = pytest.importorskip("transformers", reason="the stock class is the oracle; install the extra 'dev'")
    ours = transformers.GlmOcrConfig.from_dict(
        dump_config(OcrConfig(), {"image_token_id": 59280}, [59246, 59253], "float32")
    )
    published = transformers.GlmOcrConfig.from_dict(PUBLISHED)
    assert parse_config(ours.to_dict()) == parse_config(published.to_dict()) == OcrConfig()
    for part in ("text_config", "vision_config"):
        one, other = getattr(ours, part).to_dict(), getattr(published, part).to_dict()
        for key in ("dtype", "num_nextn_predict_layers", "tie_word_embeddings", "max_position_embeddings"):
            one.pop(key, None), other.pop(key, None)
        assert one == other


def test_the_multi_token_prediction_layer_is_recognised(network: OcrModel) -> None:
    ours = set(weight_names(network).values())
    assert extra_layer_keys(ours | MTP_KEYS, 16) == MTP_KEYS
    assert extra_layer_keys(ours, 16) == set()
