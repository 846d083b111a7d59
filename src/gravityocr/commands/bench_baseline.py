"""The baseline of `gravityocr bench`: transformers' own class and `generate` on the same checkpoint."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from gravityocr.document import Crop, Recognition
from gravityocr.engine.crop_pieces import join_pieces
from gravityocr.engine.engine import Engine
from gravityocr.engine.piece_prompts import prompts_of
from gravityocr.errors import ConfigError
from gravityocr.model.prompt import Prompt

BASELINES = ("transformers",)
BASELINE_BOUNDARY = (
    "transformers: GlmOcrForConditionalGeneration.generate, fp32, greedy, one sequence at a time; its decode time is "
    "that of a whole generate less that of one for a single token, measured right before it"
)


class StockTransformers:
    """Read crops as transformers does, with our pieces and prompts.

    With `parts_decode` each sequence is generated twice, once up to its first token, so that vision and prefill can be
    subtracted; without, only once, as a measurement of whole calls wants it.
    """

    def __init__(self, engine: Engine, parts_decode: bool) -> None:
        self._checkpoint = engine.checkpoint
        self._max_tokens = engine.config.max_tokens
        self._parts_decode = parts_decode
        try:
            import transformers
        except ImportError as error:
            remedy = "install the extra: pip install 'gravityocr[transformers]'"
            raise ConfigError(f"--baseline transformers: transformers is not installed; {remedy}") from error
        network = transformers.GlmOcrForConditionalGeneration
        self._model: Any = network.from_pretrained(self._checkpoint.path, dtype=torch.float32).eval()
        self._model.to(self._checkpoint.model.device)

    @property
    def tasks(self) -> frozenset[str]:
        """Return the claimed tasks."""
        return frozenset(self._checkpoint.diffusion.tasks)

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Read crops one after another."""
        return [self._read(crop) for crop in crops]

    def _read(self, crop: Crop) -> Recognition:
        seconds = {"prefill": 0.0, "decode": 0.0}
        found: list[tuple[int, ...]] = []
        pieces = [*prompts_of(self._checkpoint, crop, self._max_tokens)]
        for piece in pieces:
            prefill_s = self._generate(piece.prompt, 1)[1] if self._parts_decode else 0.0
            ids, whole_s = self._generate(piece.prompt, piece.max_tokens)
            seconds["prefill"] += prefill_s
            seconds["decode"] += max(0.0, whole_s - prefill_s)
            found.append(ids)
        texts = [self._checkpoint.tokenizer.decode(list(ids), skip_special_tokens=True) for ids in found]
        parts = [piece.part for piece in pieces if piece.part is not None]
        text = join_pieces(texts, parts) if parts else "\n".join(texts)
        n_tokens = sum(map(len, found))
        n_forwards = n_tokens - len(found)
        return Recognition(text, n_tokens=n_tokens, n_forwards=n_forwards, seconds=seconds, ids=tuple(found))

    @torch.inference_mode()
    def _generate(self, prompt: Prompt, n_tokens: int) -> tuple[tuple[int, ...], float]:
        device = self._model.device
        self._model.model.rope_deltas = None  # left over from the sequence before
        started = time.perf_counter()
        output = self._model.generate(
            input_ids=prompt.ids[None].to(device),
            attention_mask=torch.ones_like(prompt.ids[None]).to(device),
            mm_token_type_ids=prompt.is_image[None].int().to(device),
            pixel_values=prompt.pixels.to(device),
            image_grid_thw=torch.tensor([[1, *prompt.grid]], device=device),
            max_new_tokens=n_tokens,
            do_sample=False,
            eos_token_id=sorted(self._checkpoint.stop_ids),
            pad_token_id=0,
            suppress_tokens=[self._checkpoint.diffusion.mask_id],
        )
        ids = tuple(output[0, prompt.ids.numel() :].tolist())
        return ids, time.perf_counter() - started
