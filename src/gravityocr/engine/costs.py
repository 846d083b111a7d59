"""Measure what a decode forward costs on this machine, and on how many threads it is best run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from gravityocr.decoding.plan import CostTable
from gravityocr.model.device import ThreadPlan
from gravityocr.model.kv_cache import KVCache
from gravityocr.model.ocr_model import DecodeSession, OcrModel

_WIDEST, _MANY = 32, 16
_PREFIX = 64


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

    table = CostTable.measure(lambda n_rows: forward(n_rows, max(1, n_rows // _WIDEST)))
    many = min(forward(_MANY, _MANY) for _ in range(4))
    per_sequence_s = max(0.0, many - table(_MANY)) / (_MANY - 1)
    # What the wide forwards of the table spent on their sequences is not to be counted twice.
    own = [per_sequence_s * (max(1, n_rows // _WIDEST) - 1) for n_rows in table.rows]
    seconds = [max(total - part, table.seconds[0]) for total, part in zip(table.seconds, own, strict=True)]
    return CostTable(table.rows, tuple(seconds), per_sequence_s)


def _session(model: OcrModel, n: int) -> DecodeSession:
    text = model.config.text
    cache = KVCache(
        text.num_hidden_layers, n, text.num_key_value_heads, _PREFIX + _WIDEST, text.head_dim, model.dtype, model.device
    )
    nothing = torch.zeros(n, dtype=torch.long, device=model.device)
    return DecodeSession(model, cache, nothing + _PREFIX, nothing, nothing[:, None].float())
