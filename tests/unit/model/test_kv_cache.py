"""The K/V cache: capacity, compaction, and rolled-back windows that leave no trace."""

from __future__ import annotations

import pytest
import torch
from tests.factories import CONFIGS, make_prompts, mask_id, tiny_network
from torch import Tensor

from gravityocr.errors import CapacityError
from gravityocr.model.kv_cache import KVCache
from gravityocr.model.ocr_model import DecodeSession, OcrModel, prefill

CELLS = [(1, 1), (2, 3), (1, 4)]


def new_cache(n_sequences: int = 2, capacity: int = 6) -> KVCache:
    return KVCache(2, n_sequences, 1, capacity, 4, torch.float32, torch.device("cpu"))


@torch.inference_mode()
def new_session(model: OcrModel, n_free: int = 16, cells: list[tuple[int, int]] = CELLS) -> DecodeSession:
    prompts = make_prompts("gqa", cells)
    return prefill(model, prompts, model.encode_images(prompts)[1], n_free)


def causal_step(session: DecodeSession, tokens: Tensor, start: Tensor) -> Tensor:
    return session.step(tokens, start, start[:, None] + torch.arange(tokens.shape[1]))


def draw_tokens(n_sequences: int, n_rows: int, seed: int) -> Tensor:
    return torch.randint(15, 60, (n_sequences, n_rows), generator=torch.Generator().manual_seed(seed))


def test_a_window_writes_its_slots_and_nothing_else() -> None:
    cache = new_cache()
    window = cache.window(torch.tensor([1, 3]), 2, torch.tensor([[1, 2], [3, 4]]))
    k = torch.arange(1.0, 17.0).view(2, 1, 2, 4)
    window(1, torch.ones(2, 1, 2, 4), k, -k)
    assert cache.keys[0].abs().sum() == 0
    for b, start in enumerate((1, 3)):
        expected = torch.zeros(6, 4)
        expected[start : start + 2] = k[b, 0]
        assert torch.equal(cache.keys[1][b, 0], expected)
        assert torch.equal(cache.values[1][b, 0], -expected)


def test_a_row_sees_the_slots_up_to_its_limit() -> None:
    cache = new_cache(1)
    cache.values[0][0, 0] = torch.arange(6.0)[:, None].expand(-1, 4)
    v = torch.tensor([20.0, 30.0])[None, None, :, None].expand(1, 1, 2, 4)
    window = cache.window(torch.tensor([2]), 2, torch.tensor([[2, 3]]))
    zero = torch.zeros(1, 1, 2, 4)  # equal scores: attention is the mean of what is seen
    seen = window(0, zero, zero, v)[0, 0, :, 0]
    torch.testing.assert_close(seen, torch.tensor([(0 + 1 + 20) / 3, (0 + 1 + 20 + 30) / 4]))


@pytest.mark.parametrize(("start", "n_rows", "fits"), [(4, 2, True), (5, 2, False), (0, 6, True), (0, 7, False)])
def test_no_row_leaves_the_cache(start: int, n_rows: int, fits: bool) -> None:
    cache = new_cache()
    starts = torch.tensor([0, start])
    limits = starts[:, None] + torch.arange(n_rows)
    if fits:
        cache.window(starts, n_rows, limits)
        return
    with pytest.raises(CapacityError, match=rf"slot {start + n_rows - 1} is beyond the cache of 6"):
        cache.window(starts, n_rows, limits)


def test_a_full_session_refuses_the_next_token() -> None:
    session = new_session(tiny_network(), n_free=2)
    longest = session.lens.max()
    assert session.capacity == longest + 2
    causal_step(session, draw_tokens(3, 2, 0), session.lens)
    with pytest.raises(CapacityError, match="fewer tokens"):
        causal_step(session, draw_tokens(3, 1, 0), session.lens + 2)


@pytest.mark.parametrize("rows", [[0, 2], [0], [2], [2, 1], [0, 1, 2], []])
def test_keep_moves_rows_into_the_gaps_and_no_others(rows: list[int]) -> None:
    cache = new_cache(3)
    for layer in range(2):
        cache.keys[layer] += torch.tensor([1.0, 2.0, 3.0])[:, None, None, None]
        cache.values[layer] -= torch.tensor([1.0, 2.0, 3.0])[:, None, None, None]
    cache.keep(torch.tensor(rows, dtype=torch.long))
    assert (cache.n_sequences, cache.n_rows) == (len(rows), 3)
    for layer in range(2):
        assert cache.keys[layer][: len(rows), 0, 0, 0].tolist() == [1.0 + row for row in rows]
        assert cache.values[layer][: len(rows), 0, 0, 0].tolist() == [-1.0 - row for row in rows]


def test_join_takes_free_rows_and_grows_where_they_do_not_suffice() -> None:
    cache = new_cache(3)
    cache.keys[1][0] = 5.0
    cache.keep(torch.tensor([0]))
    kept = cache.keys[1]
    for n, capacity in ((2, 6), (2, 8)):
        other = new_cache(n, capacity)
        other.keys[1] += 7.0
        cache.join(other)
    assert (cache.n_sequences, cache.n_rows, cache.capacity) == (5, 5, 8)
    assert cache.keys[1][:, 0, 0, 0].tolist() == [5.0, 7.0, 7.0, 7.0, 7.0]
    assert cache.keys[1][0, 0, :, 0].tolist() == [5.0] * 6 + [0.0] * 2
    assert kept.shape[0] == 3, "the first join needed no new memory"


@pytest.mark.parametrize("rows", [[0, 2], [1], [2]])
def test_who_stays_does_not_notice_who_left(rows: list[int]) -> None:
    model, tokens = tiny_network(seed=3), draw_tokens(3, 4, 1)
    whole, kept = new_session(model), new_session(model)
    index = torch.tensor(rows)
    lens = whole.lens
    for session in (whole, kept):
        causal_step(session, tokens[:, :2], lens)
    kept.keep(index)
    expected = causal_step(whole, tokens[:, 2:], lens + 2)[index]
    torch.testing.assert_close(causal_step(kept, tokens[index, 2:], lens[index] + 2), expected, rtol=0, atol=1e-5)


def test_a_shorter_prompt_does_not_notice_its_padding() -> None:
    model, tokens = tiny_network(seed=4), draw_tokens(3, 3, 2)
    together = new_session(model)
    logits = causal_step(together, tokens, together.lens)
    for i, prompt in enumerate(make_prompts("gqa", CELLS)):
        with torch.inference_mode():
            alone = prefill(model, [prompt], model.encode_images([prompt])[1], 16)
        torch.testing.assert_close(together.first_logits[i : i + 1], alone.first_logits, rtol=0, atol=1e-5)
        same = causal_step(alone, tokens[i : i + 1], alone.lens)
        torch.testing.assert_close(logits[i : i + 1], same, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", list(CONFIGS))
@pytest.mark.parametrize("n_garbage", [1, 3, 9])
def test_a_rolled_back_window_leaves_no_trace(name: str, n_garbage: int) -> None:
    """Rollback is nothing but a smaller length: a garbage draft and a garbage verify are as if they had not been."""
    model, prompts = tiny_network(name, 5), make_prompts(name, CELLS)
    with torch.inference_mode():
        features = model.encode_images(prompts)[1]
    fresh, used = (prefill(model, prompts, features, 16) for _ in range(2))
    lens = fresh.lens
    masks = torch.full((3, n_garbage), mask_id())
    used.step(masks, lens, (lens + n_garbage - 1)[:, None].expand(-1, n_garbage))
    causal_step(used, draw_tokens(3, n_garbage, 7), lens + 1)
    tokens = draw_tokens(3, 6, 8)
    for n_rows, done in ((1, 0), (3, 1), (2, 4)):
        here = tokens[:, done : done + n_rows]
        assert torch.equal(causal_step(used, here, lens + done), causal_step(fresh, here, lens + done))


def test_stale_slots_weigh_nothing_however_large() -> None:
    model, tokens = tiny_network(seed=6), draw_tokens(3, 2, 9)
    fresh, poisoned = new_session(model), new_session(model)
    with torch.inference_mode():
        for b, n in enumerate(poisoned.lens.tolist()):
            for cached in (*poisoned.cache.keys, *poisoned.cache.values):
                cached[b, :, n:] = 1e4
    logits = [causal_step(session, tokens, session.lens) for session in (fresh, poisoned)]
    assert torch.equal(*logits)


def test_the_draft_window_is_two_way() -> None:
    """A row sees the rows of its window behind itself exactly up to its limit."""
    model = tiny_network(seed=7)
    tokens, other = draw_tokens(3, 4, 10), draw_tokens(3, 4, 10)
    other[:, 3] = 14
    session = new_session(model)
    column = torch.tensor([0, 1, 3, 3])
    limits = session.lens[:, None] + column
    one, two = (session.step(ids, session.lens, limits) for ids in (tokens, other))
    changed = (one - two).abs().amax((0, 2)) > 1e-5
    assert changed.tolist() == [False, False, True, True]
