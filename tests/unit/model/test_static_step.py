"""Forwards of fixed shapes give what forwards of any shape give."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.factories import CONFIGS, make_prompts, mask_id, tiny_network

from gravityocr.decoding.prompts import DECODE_MODES, DecodeOptions, Networks, decode_prompts
from gravityocr.engine.scheduler import Scheduler
from gravityocr.model import ocr_model
from gravityocr.model.ocr_model import prefill
from gravityocr.model.static_step import MAX_BUCKETS, StaticSteps, bucket_of

CELLS = [(2, 3), (1, 1), (1, 5), (3, 2), (2, 2)]


def test_buckets_are_powers_of_two() -> None:
    assert [bucket_of(n) for n in (1, 2, 3, 4, 5, 8, 9)] == [1, 2, 4, 4, 8, 8, 16]


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_static_forward_equals_a_free_one(name: str) -> None:
    model, prompts = tiny_network(name, 1), make_prompts(name, CELLS)
    with torch.inference_mode():
        free, static = (prefill(model, prompts, model.encode_images(prompts)[1], 20) for _ in range(2))
        static.static = StaticSteps(model, graphs=False)
        tokens = torch.randint(20, 60, (5, 6), generator=torch.Generator().manual_seed(0))
        slots = free.lens[:, None] + torch.arange(6)
        spans = torch.stack([slots, slots], dim=-1)
        spans[:, 3:] = torch.stack([slots[:, 3], slots[:, 5]], dim=-1)[:, None]
        limits = torch.where(torch.arange(6) < 3, slots, free.lens[:, None] + 1)
        offsets = torch.where(torch.arange(6) < 3, 0, -1).expand(5, -1)
        for more in ((slots,), (limits, spans, offsets)):
            expected = free.step(tokens, free.lens, *more)
            torch.testing.assert_close(static.step(tokens, free.lens, *more), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", DECODE_MODES)
def test_decoding_with_static_forwards_gives_the_same_ids(mode: str) -> None:
    model, prompts = tiny_network("gqa", 2, (20, 21, 22, 23)), make_prompts("gqa", CELLS)
    free = DecodeOptions(mask_id(), frozenset({22}), 6, mode, 30, n_candidates=1)  # type: ignore[arg-type]
    expected = [one.ids for one in decode_prompts(model, prompts, free).sequences]
    static = replace(free, static_steps=True)
    assert [one.ids for one in decode_prompts(model, prompts, static).sequences] == expected
    scheduler = Scheduler(Networks.all_of(model), static, max_running=2)  # the cache grows and is joined
    tickets = [scheduler.submit(prompt, static.sequence()) for prompt in prompts]
    scheduler.run()
    assert [ticket.result().ids for ticket in tickets] == expected


def test_old_buckets_make_room() -> None:
    model, prompts = tiny_network("gqa", 1), make_prompts("gqa", CELLS[:1])
    with torch.inference_mode():
        session = prefill(model, prompts, model.encode_images(prompts)[1], 2 * MAX_BUCKETS)
        session.static = StaticSteps(model, graphs=False)
        for n_rows in range(1, MAX_BUCKETS + 5):
            slots = session.lens[:, None] + torch.arange(n_rows)
            session.step(torch.full((1, n_rows), 20), session.lens, slots)
    assert len(session.static._forwards) == MAX_BUCKETS


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_captured_graphs_give_the_ids_of_eager_forwards() -> None:
    model, prompts = tiny_network("gqa", 2, (20, 21, 22, 23)).cuda(), make_prompts("gqa", CELLS)
    eager = DecodeOptions(mask_id(), frozenset({22}), 6, "self-spec", 30, n_candidates=1)
    expected = [one.ids for one in decode_prompts(model, prompts, eager).sequences]
    captured = replace(eager, static_steps=True)
    assert [one.ids for one in decode_prompts(model, prompts, captured).sequences] == expected


@pytest.mark.parametrize("rows", [1, 3, 7, 64])
def test_a_prefill_in_chunks_leaves_the_same_cache(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, prompts = tiny_network("nano", 5), make_prompts("nano", CELLS)
    with torch.inference_mode():
        whole = prefill(model, prompts, model.encode_images(prompts)[1], 4)
        monkeypatch.setattr(ocr_model, "PREFILL_ROWS", rows)
        parts = prefill(model, prompts, model.encode_images(prompts)[1], 4)
    torch.testing.assert_close(parts.first_logits, whole.first_logits, rtol=0, atol=1e-5)
    for one, other in zip(parts.cache.keys + parts.cache.values, whole.cache.keys + whole.cache.values, strict=True):
        for row, n in enumerate(whole.lens.tolist()):
            torch.testing.assert_close(one[row, :, :n], other[row, :, :n], rtol=0, atol=1e-5)
