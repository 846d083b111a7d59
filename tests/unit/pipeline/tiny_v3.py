"""A PP-DocLayoutV3 checkpoint with random weights, small enough to build and run in a test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from gravityocr.pipeline.layout_v3_config import V3_LABELS

SIDE_PX = 128
_SPREAD = {"enc_score_head": 1.5, "enc_bbox_head": 0.1, "decoder_order_head": 1.0, "global_pointer": 1.0}


def save_tiny_v3(folder: Path, classes: Sequence[str] = tuple(V3_LABELS), seed: int = 3) -> Path:
    """Build the network through transformers and save it as a checkpoint folder that detects something."""
    from transformers import HGNetV2Config, PPDocLayoutV3Config, PPDocLayoutV3ForObjectDetection

    backbone = HGNetV2Config(
        stem_channels=[3, 8, 8],
        stage_in_channels=[8, 16, 16, 16],
        stage_mid_channels=[8, 8, 8, 8],
        stage_out_channels=[16, 16, 16, 16],
        stage_num_blocks=[1, 1, 1, 1],
        stage_downsample=[False, True, True, True],
        stage_light_block=[False, False, True, True],
        stage_kernel_size=[3, 3, 3, 3],
        stage_numb_of_layers=[1, 1, 1, 1],
        hidden_sizes=[16, 16, 16, 16],
        depths=[1, 1, 1, 1],
        embedding_size=8,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = PPDocLayoutV3Config(
        backbone_config=backbone,
        encoder_in_channels=[16, 16, 16],
        encoder_hidden_dim=16,
        encoder_ffn_dim=16,
        encoder_attention_heads=2,
        mask_feature_channels=[8, 8],
        x4_feat_dim=16,
        d_model=16,
        num_prototypes=8,
        num_queries=30,
        mask_enhanced=False,  # boxes then start from anchors all over the page, not from masks of random weights
        decoder_in_channels=[16, 16, 16],
        decoder_ffn_dim=16,
        decoder_layers=2,
        decoder_attention_heads=2,
        global_pointer_head_size=8,
        id2label=dict(enumerate(classes)),
        label2id={name: place for place, name in enumerate(classes)},
    )
    torch.manual_seed(seed)
    network = PPDocLayoutV3ForObjectDetection(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            for head, spread in _SPREAD.items():
                if head in name:
                    parameter.normal_(0.0, spread)
    network.save_pretrained(folder)
    settings = {"size": {"height": SIDE_PX, "width": SIDE_PX}, "resample": 3, "rescale_factor": 1 / 255}
    settings |= {"do_rescale": True, "do_normalize": True, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
