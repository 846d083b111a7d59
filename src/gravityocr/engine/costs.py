"""Measure what a decode forward costs on this machine."""

from __future__ import annotations

import time

import torch

from gravityocr.decoding.plan import CostTable
from gravityocr.model.kv_cache import KVCache
from gravityocr.model.ocr_model import DecodeSession, OcrModel

_WIDEST = 32
_PREFIX = 64


@torch.inference_mode()
def measure_costs(model: OcrModel) -> CostTable:
    """Time forwards behind a short prefix, at most 32 rows a sequence, and return the table."""
    sessions: dict[int, DecodeSession] = {}

    def forward(n_rows: int) -> float:
        n, width = max(1, n_rows // _WIDEST), min(n_rows, _WIDEST)
        session = sessions.setdefault(n, _session(model, n))
        tokens = torch.zeros(n, width, dtype=torch.long, device=model.device)
        start = torch.full((n,), _PREFIX, device=model.device)
        limits = start[:, None] + torch.arange(width, device=model.device)
        began = time.perf_counter()
        session.step(tokens, start, limits).argmax(dim=-1).tolist()  # the copy waits for the device
        return time.perf_counter() - began

    return CostTable.measure(forward)


def _session(model: OcrModel, n: int) -> DecodeSession:
    text = model.config.text
    cache = KVCache(
        text.num_hidden_layers, n, text.num_key_value_heads, _PREFIX + _WIDEST, text.head_dim, model.dtype, model.device
    )
    nothing = torch.zeros(n, dtype=torch.long, device=model.device)
    return DecodeSession(model, cache, nothing + _PREFIX, nothing, nothing[:, None].float())
