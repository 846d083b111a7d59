"""Continuous batching over tiny networks: every sequence as if alone, slots given back, listeners told."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.factories import causal_forward, make_prompts, mask_id, tiny_network

from gravityocr.decoding.plan import CostTable, Planner
from gravityocr.decoding.prompts import DECODE_MODES, DecodeOptions, Networks, decode_prompts
from gravityocr.decoding.request import SequenceOptions
from gravityocr.decoding.sampling import Sampling
from gravityocr.engine.scheduler import Scheduler, Ticket
from gravityocr.errors import ConfigError

CELLS = [(2, 3), (1, 1), (1, 5), (3, 2), (2, 2), (1, 3), (4, 2)]
HOW = DecodeOptions(mask_id(), frozenset({22}), 6, "self-spec", 60, n_candidates=1)
NETWORK = tiny_network("gqa", 4, tuple(range(20, 26)))
PROMPTS = make_prompts("gqa", CELLS)


def alone(number: int, options: SequenceOptions, mode: str) -> list[int]:
    """Decode one prompt with nothing else around, two forwards a round."""
    how = replace(HOW, mode=mode, n_candidates=0, block_size=options.block_size)
    scheduler = Scheduler(Networks.all_of(NETWORK), how)
    ticket = scheduler.submit(PROMPTS[number], options)
    scheduler.run()
    return ticket.result().ids


SAMPLINGS = [Sampling(), Sampling(temperature=1.0, seed=5), Sampling(repetition_penalty=1.5)]
asked = st.tuples(
    st.integers(0, len(PROMPTS) - 1),
    st.sampled_from(DECODE_MODES),
    st.integers(1, 6),
    st.integers(1, 30),
    st.sampled_from(SAMPLINGS),
    st.sampled_from([frozenset[int](), frozenset({22}), frozenset({21, 24})]),
    st.integers(0, 3),
)


@given(st.lists(asked, min_size=1, max_size=7), st.integers(1, 4), st.sampled_from([1, 30, 4096]), st.booleans())
@settings(deadline=None, max_examples=25)
def test_a_sequence_does_not_notice_what_comes_and_goes(
    wanted: list[tuple[int, str, int, int, Sampling, frozenset[int], int]],
    max_running: int,
    batch_tokens: int,
    adaptive: bool,
) -> None:
    planner = Planner(CostTable((1, 64, 512), (1.0, 4.0, 30.0))) if adaptive else None
    how = replace(HOW, planner=planner)
    scheduler = Scheduler(Networks.all_of(NETWORK), how, max_running=max_running, batch_tokens=batch_tokens)
    tickets = []
    for number, mode, block_size, limit, sampling, stops, pause in wanted:
        # Direct diffusion draws no samples: its tokens are the most confident ones.
        options = SequenceOptions(limit, stops, block_size, sampling)
        tickets.append(scheduler.submit(PROMPTS[number], options, mode))  # type: ignore[arg-type]
        for _ in range(pause):
            scheduler.step()
        assert all(len(running) <= max_running for running in scheduler.running.values())
    scheduler.run()
    assert scheduler.is_idle and all(not lane.batch.running for lane in scheduler.lanes.values())
    for ticket, (number, mode, *_) in zip(tickets, wanted, strict=True):
        expected = alone(number, ticket.options, "ar" if mode == "self-spec" else mode)
        assert ticket.result().ids == expected
        assert ticket.seconds["decode"] > 0 or len(expected) == 1


def test_listeners_hear_every_token_once_and_in_order() -> None:
    heard: dict[int, list[int]] = {}

    def listen(ticket: Ticket, ids: list[int]) -> None:
        assert ids
        heard.setdefault(id(ticket), []).extend(ids)

    scheduler = Scheduler(Networks.all_of(NETWORK), HOW, max_running=2)
    options = SequenceOptions(25, frozenset({22}), 6)
    tickets = [scheduler.submit(prompt, options, on_tokens=listen) for prompt in PROMPTS]
    scheduler.run()
    assert [heard[id(ticket)] for ticket in tickets] == [ticket.result().ids for ticket in tickets]


@pytest.mark.parametrize("n_steps", [0, 1, 2, 5])
def test_a_cancelled_ticket_keeps_what_it_has_and_frees_its_slots(n_steps: int) -> None:
    scheduler = Scheduler(Networks.all_of(NETWORK), HOW, max_running=2)
    options = SequenceOptions(60, frozenset(), 6)
    tickets = [scheduler.submit(prompt, options) for prompt in PROMPTS[:4]]
    for _ in range(n_steps):
        scheduler.step()
    scheduler.cancel(tickets[0])
    scheduler.cancel(tickets[3])  # still in the queue
    assert tickets[0].is_done and tickets[0].result().finish == "cancelled"
    assert (tickets[3].result().ids, tickets[3].result().finish) == ([], "cancelled")
    whole = alone(0, options, "ar")
    assert tickets[0].result().ids == whole[: len(tickets[0].result().ids)]
    scheduler.run()
    for number in (1, 2):
        assert tickets[number].result().ids == alone(number, options, "ar")


def test_a_block_over_the_schedulers_own_is_refused() -> None:
    scheduler = Scheduler(Networks.all_of(NETWORK), HOW)
    with pytest.raises(ConfigError, match="block size 7"):
        scheduler.submit(PROMPTS[0], SequenceOptions(5, frozenset(), 7))
    assert scheduler.is_idle


def test_log_probabilities_are_those_of_teacher_forcing() -> None:
    options = SequenceOptions(12, frozenset(), 6, log_probs=True)
    scheduler = Scheduler(Networks.all_of(NETWORK), HOW)
    ticket = scheduler.submit(PROMPTS[0], options)
    scheduler.run()
    decoded = ticket.result()
    again = decode_prompts(NETWORK, [PROMPTS[0]], replace(HOW, mode="ar"), [1])
    assert again.sequences[0].ids == decoded.ids[:1] and len(decoded.log_probs) == 12
    with torch.inference_mode():
        logits, _ = causal_forward(NETWORK, PROMPTS[0], decoded.ids)
    scores = logits[PROMPTS[0].ids.numel() - 1 : -1].clone()
    scores[:, mask_id()] = -torch.inf
    expected = scores.log_softmax(dim=-1).gather(1, torch.tensor(decoded.ids)[:, None])[:, 0]
    assert decoded.log_probs == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_full_lane_keeps_no_other_waiting() -> None:
    scheduler = Scheduler(Networks.all_of(NETWORK), HOW, max_running=1)
    options = SequenceOptions(40, frozenset(), 6)
    first, second = (scheduler.submit(PROMPTS[0], options, "ar") for _ in range(2))
    other = scheduler.submit(PROMPTS[1], options, "self-spec")
    scheduler.step()
    scheduler.step()
    assert first.progress is not None and other.progress is not None and second.progress is None
    scheduler.run()
    assert second.result().ids == first.result().ids == alone(0, options, "ar")


def test_the_cache_bounds_how_many_run_together() -> None:
    text = NETWORK.config.text
    slot = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * 4
    options = SequenceOptions(20, frozenset(), 6)
    n_slots = PROMPTS[0].ids.numel() + 20 + 6 * 2 + 2
    scheduler = Scheduler(Networks.all_of(NETWORK), HOW, cache_bytes=2 * n_slots * slot)
    tickets = [scheduler.submit(PROMPTS[0], options) for _ in range(5)]
    scheduler.step()
    assert len(scheduler.running["self-spec", 0]) == 2
    scheduler.run()
    assert len({tuple(ticket.result().ids) for ticket in tickets}) == 1


@pytest.mark.parametrize(
    "bad",
    [SequenceOptions(5, frozenset(), 6, reference=(20, 96)), SequenceOptions(5, frozenset(), 6, reference=(-1,)),
     SequenceOptions(5, frozenset(), 6, Sampling(logit_bias={10**7: 1.0}))],
)  # fmt: skip
def test_a_ticket_that_names_no_token_is_refused_and_takes_no_other_down(bad: SequenceOptions) -> None:
    scheduler = Scheduler(Networks.all_of(NETWORK), HOW)
    good = scheduler.submit(PROMPTS[0], SequenceOptions(9, frozenset(), 6))
    with pytest.raises(ConfigError, match="does not exist"):
        scheduler.submit(PROMPTS[1], bad)
    scheduler.run()
    assert len(good.result().ids) == 9


def test_tickets_are_queued_once_and_end_once() -> None:
    scheduler = Scheduler(Networks.all_of(NETWORK), HOW)
    ticket = scheduler.submit(PROMPTS[0], SequenceOptions(9, frozenset(), 6))
    with pytest.raises(ConfigError, match="queued before"):
        scheduler.enqueue(ticket)
    with pytest.raises(ConfigError, match="not done"):
        ticket.result()
    scheduler.run()
    scheduler.cancel(ticket)
    assert ticket.result().finish == "length", "what is done changes no more"
    with pytest.raises(ConfigError, match="queued before"):
        scheduler.enqueue(ticket)
    queued = scheduler.submit(PROMPTS[0], SequenceOptions(9, frozenset(), 6))
    scheduler.cancel(queued)
    scheduler.cancel(queued)
    assert scheduler.is_idle and queued.result().finish == "cancelled"
