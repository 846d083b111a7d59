"""Measure what a decode forward costs on this machine, and on how many threads it is best run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from gravityocr.decoding.plan import MANY, WIDEST, CostTable
from gravityocr.decoding.round import Window
from gravityocr.decoding.sequential_draft import SequentialRows
from gravityocr.model.device import ThreadPlan
from gravityocr.model.draft_head import DraftHead
from gravityocr.model.kv_cache import KVCache
from gravityocr.model.ocr_model import DecodeSession, OcrModel

_PREFIX, _HEAD_TOKENS = 64, 8


SMALL_NETWORK = 50_000_000


def is_small(model: OcrModel) -> bool:
    """Tell whether a network's forwards are too short to be shared by threads as a matter of course."""
    return sum(parameter.numel() for parameter in model.parameters()) < SMALL_NETWORK


@dataclass(frozen=True)
class MachineCosts:
    """What a forward costs here, and the threads that make it cost so little."""

    table: CostTable
    threads: ThreadPlan | None


def measure_costs(model: OcrModel, n_threads: int) -> MachineCosts:
    """Time forwards on one thread and on all that are allowed, and return what is best for each number of rows.

    Large networks, whose smallest forward is worth sharing, always take all threads.
    """
    if n_threads == 1 or model.device.type != "cpu" or not is_small(model):
        return MachineCosts(_measure(model), None)
    torch.set_num_threads(1)
    one = _measure(model)
    torch.set_num_threads(n_threads)
    many = _measure(model)
    at = len(one.rows)
    while at > 0 and many.seconds[at - 1] < one.seconds[at - 1]:
        at -= 1
    from_rows = one.rows[at] if at < len(one.rows) else 2 * one.rows[-1]
    return MachineCosts(
        CostTable(one.rows, one.seconds[:at] + many.seconds[at:], many.per_sequence_s), ThreadPlan(n_threads, from_rows)
    )


@torch.inference_mode()
def _measure(model: OcrModel) -> CostTable:
    """Time forwards behind a short prefix, at most 32 rows a sequence."""
    sessions: dict[int, DecodeSession] = {}

    def forward(n_rows: int, n: int) -> float:
        width = n_rows // n
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
        text.num_hidden_layers, n, text.num_key_value_heads, _PREFIX + WIDEST, text.head_dim, model.dtype, model.device
    )
    nothing = torch.zeros(n, dtype=torch.long, device=model.device)
    return DecodeSession(model, cache, nothing + _PREFIX, nothing, nothing[:, None].float())


@torch.inference_mode()
def measure_head(model: OcrModel, head: DraftHead, mask_id: int) -> CostTable:
    """Time the draft head for one token of 1 and of many sequences, and return the table by sequences."""
    sizes = (1, MANY)
    seconds: list[float] = []
    for n in sizes:
        session = _session(model, n)
        rows = SequentialRows(session, head, mask_id)
        tokens = torch.zeros(n, _HEAD_TOKENS + 1, dtype=torch.long, device=model.device)
        slots = _PREFIX + torch.arange(tokens.shape[1], device=model.device).expand(n, -1)
        logits = rows.forward(Window(tokens, slots[:, 0], slots))
        places = (slots - _PREFIX)[:, 1:]
        times = []
        for _ in range(4):
            began = time.perf_counter()
            rows.propose(logits, places, places[:, 0] - 1, tokens[:, 0], tokens[:, 0])[0].tolist()
            times.append(time.perf_counter() - began)
        seconds.append(max([min(times) / _HEAD_TOKENS, *seconds]))
    return CostTable(sizes, tuple(seconds))
