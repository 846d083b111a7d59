"""From prompts to token ids: one vision call, one prefill, one decode of the whole batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gravityocr.decoding.autoregressive import decode_autoregressive
from gravityocr.decoding.diffusion import decode_diffusion
from gravityocr.decoding.request import Decoded, Request
from gravityocr.decoding.sampling import greedy
from gravityocr.decoding.sequential_draft import sequential_draft
from gravityocr.decoding.speculative import decode_speculative
from gravityocr.errors import ConfigError
from gravityocr.model.draft_head import DraftHead
from gravityocr.model.ocr_model import OcrModel, prefill
from gravityocr.model.prompt import Prompt

DecodeMode = Literal["self-spec", "ar", "diffusion"]
_CROPS_AT_ONCE = 16
DECODE_MODES: tuple[DecodeMode, ...] = ("self-spec", "ar", "diffusion")


@dataclass(frozen=True)
class DecodeOptions:
    """How a batch is decoded; `mask_id` and `stop_ids` come from the checkpoint.

    `max_tokens` counts y_1. `threshold` is used by direct block diffusion only, `draft_head` by self-speculation.
    `read_in_bf16` computes what precedes decoding, vision and prefill, in bf16: all modes share it, so that their
    equality does not suffer.
    """

    mask_id: int
    stop_ids: frozenset[int]
    block_size: int
    mode: DecodeMode = "self-spec"
    max_tokens: int = 2048
    threshold: float = 0.9
    trace: bool = False
    draft_head: DraftHead | None = None
    read_in_bf16: bool = False


@dataclass(frozen=True)
class DecodedBatch:
    """The sequences of one batch in input order, and the seconds that each stage took for all of them together."""

    sequences: list[Decoded]
    vision_s: float
    prefill_s: float
    decode_s: float


def _encode(model: OcrModel, prompts: Sequence[Prompt]) -> Tensor:
    """Return the features of all crops; on a CPU a few at a time, whose activations stay in its caches."""
    size = _CROPS_AT_ONCE if model.device.type == "cpu" else len(prompts)
    return torch.cat([model.encode_images(prompts[i : i + size])[1] for i in range(0, len(prompts), size)])


@torch.inference_mode()
def decode_prompts(
    model: OcrModel,
    prompts: Sequence[Prompt],
    options: DecodeOptions,
    max_tokens: Sequence[int] | None = None,
) -> DecodedBatch:
    """Read a batch of prompts; `max_tokens` may lower the limit per prompt.

    *Raises*: ConfigError for an unknown mode. *Source*: section 4; the prefill yields y_1.
    """
    if options.mode not in DECODE_MODES:
        raise ConfigError(f"unknown decode mode {options.mode!r}; choose one of {', '.join(DECODE_MODES)}")
    limits = torch.full((len(prompts),), options.max_tokens, device=model.device)
    if max_tokens is not None:
        limits = torch.minimum(limits, torch.tensor(list(max_tokens), device=model.device))
    began = time.perf_counter()
    with torch.autocast(model.device.type, torch.bfloat16, enabled=options.read_in_bf16):
        features = _encode(model, prompts)
        encoded = time.perf_counter()
        session = prefill(model, prompts, features, int(limits.max()) + options.block_size + 2)
    first: Tensor = greedy(session.first_logits[:, None], options.mask_id)[:, 0]
    request = Request(session.lens, first, limits, options.stop_ids, options.block_size, options.mask_id)
    filled = time.perf_counter()
    if options.mode == "ar":
        sequences = decode_autoregressive(session, request)
    elif options.mode == "self-spec":
        head = options.draft_head
        draft = sequential_draft(session, head, options.mask_id) if head is not None else None
        sequences = decode_speculative(session, request, draft=draft, trace=options.trace)
    else:
        sequences = decode_diffusion(session, request, threshold=options.threshold)
    done = time.perf_counter()
    return DecodedBatch(sequences, encoded - began, filled - encoded, done - filled)
