"""Properties of joint training: who depends on whom, packed = unpacked, targets, complements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training_data import EOS_ID, MASK_ID, features_of, make_sample, tiny_network
from torch import Generator, Tensor
from torch.nn import functional as F

from gravityocr.model.attention import attention
from gravityocr.model.masks import RowTags
from gravityocr.model.ocr_model import OcrModel
from gravityocr.training.attention import AttentionKind, attend_in, dense_attention
from gravityocr.training.losses import LossConfig, joint_loss, packed_hidden, target_scale
from gravityocr.training.noise import NoiseConfig, corrupt
from gravityocr.training.packing import IGNORE, PackedRow, Sample, pack
from gravityocr.training.row_plan import PackingConfig, plan_rows

MODEL = tiny_network()
DOUBLE = tiny_network().double()

noises = st.builds(
    NoiseConfig,
    block_size=st.integers(1, 5),
    mask_schedule=st.sampled_from(["uniform", "all", "mixed"]),
    random_offset=st.booleans(),
    eos_fill=st.booleans(),
)


@st.composite
def sample_lists(draw: st.DrawFn, most: int = 4) -> list[Sample]:
    """Draw one to `most` samples that differ in crop, length and noise."""
    grids = st.sampled_from([(2, 2), (2, 4), (4, 4), (2, 6)])
    return [
        make_sample(draw(st.integers(0, 9)), draw(noises), draw(st.integers(0, 999)), draw(grids))
        for _ in range(draw(st.integers(1, most)))
    ]


@dataclass(frozen=True)
class Token:
    """One column of a row, in the words of section 3."""

    sample: int
    stream: str
    index: int
    block: int


def tokens_of(samples: list[Sample]) -> list[Token]:
    """List the columns of a row that holds these samples: prefix, clean, corrupt a, corrupt b."""
    tokens = []
    for number, sample in enumerate(samples):
        tokens += [Token(number, "prefix", i, -1) for i in range(sample.prompt.ids.numel())]
        for stream in ("clean", "a", "b")[: 1 + len(sample.corruption.masked)]:
            tokens += [Token(number, stream, i, int(k)) for i, k in enumerate(sample.corruption.block)]
    return tokens


def depends(q: Token, k: Token) -> bool:
    """Say by section 3 whether the hidden state of `q` is a function of `k`."""
    if q.sample != k.sample:
        return False
    if q.stream == "prefix":
        return k.stream == "prefix" and k.index <= q.index
    if k.stream == "prefix":
        return True
    if q.stream == "clean":
        return k.stream == "clean" and k.index <= q.index
    if k.stream == "clean":
        return k.block < q.block
    return k.stream == q.stream and k.block == q.block


@torch.no_grad()
def influence(model: OcrModel, row: PackedRow, features: Tensor) -> Tensor:
    """Return [column disturbed, row changed] of a packed row, through the whole decoder.

    Every column is disturbed in a copy of its own; the last copy stays as it was.
    """
    n = row.n_tokens
    embedded = model.embed(row.ids, row.is_image, features).expand(n + 1, -1, -1).clone()
    noise = torch.randn(n, embedded.shape[-1], generator=Generator().manual_seed(0), dtype=embedded.dtype)
    embedded[torch.arange(n), torch.arange(n)] += 3 * noise
    hidden = model.hidden(embedded, row.positions.expand(-1, n + 1, -1), dense_attention(row.tags))
    return (hidden[:-1] - hidden[-1]).abs().amax(-1) > 1e-10


@settings(max_examples=25)
@given(samples=sample_lists(most=3))
def test_rows_depend_on_exactly_what_section_3_says(samples: list[Sample]) -> None:
    row = pack(samples, MASK_ID)
    tokens = tokens_of(samples)
    assert row.ids.shape == (1, len(tokens))
    found = influence(DOUBLE, row, features_of(DOUBLE, samples))
    wanted = torch.tensor([[depends(q, k) for q in tokens] for k in tokens])
    assert torch.equal(found, wanted)


@dataclass
class Step:
    """The losses of a step and its gradients."""

    ar: float
    diffusion: float
    scaled: float
    gradients: dict[str, Tensor]


def step_of(rows: Sequence[Sequence[Sample]], kind: AttentionKind, config: LossConfig) -> Step:
    """Run the rows of one step, as a trainer does, scaled by the targets of all of them."""
    MODEL.zero_grad(set_to_none=True)
    packed = [pack(samples, MASK_ID) for samples in rows]
    scale = target_scale(*(sum(column) for column in zip(*(row.n_targets for row in packed), strict=True)), config)
    step = Step(0.0, 0.0, 0.0, {})
    for samples, row in zip(rows, packed, strict=True):
        hidden = packed_hidden(MODEL, row, features_of(MODEL, samples), attend_in(row, kind))
        loss = joint_loss(MODEL, row, hidden, scale)
        loss.scaled.backward()
        step.ar += float(loss.ar_sum)
        step.diffusion += float(loss.diffusion_sum)
        step.scaled += float(loss.scaled.detach())
    step.gradients = {name: p.grad.clone() for name, p in MODEL.named_parameters() if p.grad is not None}
    return step


def assert_same_step(one: Step, other: Step) -> None:
    assert [one.ar, one.diffusion, one.scaled] == pytest.approx([other.ar, other.diffusion, other.scaled], rel=1e-5)
    assert one.gradients.keys() == other.gradients.keys()
    for name, value in one.gradients.items():
        largest = max(1.0, float(other.gradients[name].abs().max()))
        torch.testing.assert_close(value, other.gradients[name], rtol=0, atol=1e-5 * largest, msg=name)


def unpacked(sample: Sample) -> Step:
    """Run the streams of one sample as plain sequences, each with a prefix of its own, and add up the plain losses.

    Nothing of packing is used: the clean copy is causal, and each block of a corrupt copy is a sequence
    `[prefix | clean blocks before | corrupt block]` whose last block attends in both directions.
    """
    MODEL.zero_grad(set_to_none=True)
    prompt, response, block = sample.prompt, sample.response, sample.corruption.block
    n_prefix = prompt.ids.numel()
    sums = []
    for number, masked in enumerate((None, *sample.corruption.masked)):
        logits = []
        for k in (None,) if masked is None else range(int(block[-1]) + 1):
            first, end = (0, len(response)) if k is None else (int((block < k).sum()), int((block <= k).sum()))
            ids = response[:end].clone()
            if masked is not None:
                ids[first:] = ids[first:].masked_fill(masked[first:end], MASK_ID)
            both_ways = n_prefix + first if masked is not None else n_prefix + end
            seen = torch.ones(n_prefix + end, n_prefix + end, dtype=torch.bool).tril()
            seen[both_ways:, both_ways:] = True
            rows = logits_alone(sample, ids, seen)
            logits += [*(rows[n_prefix - 1 : n_prefix] if not logits else []), *rows[n_prefix + first :]]
        supervised = torch.arange(len(response)) < sample.n_supervised if number == 0 else masked
        losses = F.cross_entropy(torch.stack(logits[: len(response)]), response, reduction="none")
        sums.append(losses[supervised].sum())
    ar, diffusion = sums[0], torch.stack(sums[1:]).sum()
    scale = target_scale(sample.n_supervised, len(response), LossConfig(0.7, 1.3))
    scaled = scale.ar * ar + scale.diffusion * diffusion
    scaled.backward()
    gradients = {name: p.grad.clone() for name, p in MODEL.named_parameters() if p.grad is not None}
    return Step(float(ar.detach()), float(diffusion.detach()), float(scaled.detach()), gradients)


def logits_alone(sample: Sample, ids: Tensor, seen: Tensor) -> Tensor:
    """Return the logits of a prefix and some response tokens under a mask."""
    prompt = sample.prompt
    tokens = torch.cat([prompt.ids, ids])[None]
    is_image = torch.cat([prompt.is_image, torch.zeros(len(ids), dtype=torch.bool)])[None]
    positions = torch.cat([prompt.positions, (prompt.next_position + torch.arange(len(ids))).expand(3, -1)], 1)[:, None]
    embedded = MODEL.embed(tokens, is_image, features_of(MODEL, [sample]))
    return MODEL.logits(MODEL.hidden(embedded, positions, lambda _, q, k, v: attention(q, k, v, seen[None, None])))[0]


@settings(max_examples=15)
@given(samples=sample_lists(most=1), kind=st.sampled_from(["dense", "segments"]))
def test_a_packed_sample_loses_what_its_unpacked_streams_lose(samples: list[Sample], kind: AttentionKind) -> None:
    """The packed row against plain sequences, one for each block, that share no code with packing."""
    assert_same_step(step_of([samples], kind, LossConfig(0.7, 1.3)), unpacked(samples[0]))


@settings(max_examples=20)
@given(
    samples=sample_lists(most=5), slack=st.integers(0, 200), open_rows=st.integers(1, 4),
    kind=st.sampled_from(["dense", "segments"]),
)  # fmt: skip
def test_planning_packing_and_accumulation_change_nothing(
    samples: list[Sample], slack: int, open_rows: int, kind: AttentionKind
) -> None:
    """Planned rows, or one sample at a time: the same sums, the same loss and the same gradients in fp32."""
    budget = max(sample.n_tokens for sample in samples) + slack
    costs = [(number, sample.n_tokens) for number, sample in enumerate(samples)]
    planned = [
        [samples[i] for i in row.samples] for row in plan_rows(costs, PackingConfig(budget, open_rows=open_rows))
    ]
    assert sum(map(len, planned)) == len(samples)
    config = LossConfig(0.7, 1.3)
    alone = step_of([[sample] for sample in samples], "dense", config)
    for rows in (planned, [samples]):
        assert_same_step(step_of(rows, kind, config), alone)


@settings(max_examples=60)
@given(samples=sample_lists())
def test_targets_restore_every_response_token_once(samples: list[Sample]) -> None:
    row = pack(samples, MASK_ID)
    n_ar = n_diffusion = 0
    for sample, place in zip(samples, row.places, strict=True):
        last_prefix = place.prefix + sample.prompt.ids.numel() - 1
        for number, column in enumerate(place.streams):
            supervised = (
                torch.arange(sample.response.numel()) < sample.n_supervised
                if number == 0
                else sample.corruption.masked[number - 1]
            )
            target = (row.ar_target if number == 0 else row.diffusion_target)[0]
            for token, wanted in enumerate(supervised.tolist()):
                predicting = column + token - 1 if token else last_prefix
                if wanted:
                    assert target[predicting] == sample.response[token]
                elif token:
                    assert target[predicting] == IGNORE
        n_ar += sample.n_supervised
        n_diffusion += sample.response.numel()
        assert (sample.response[: sample.n_supervised] == EOS_ID).sum() == 1
    # Nothing beyond what was counted above.
    assert row.n_targets == (n_ar, n_diffusion)


@settings(max_examples=60)
@given(n_tokens=st.integers(1, 80), noise=noises, seed=st.integers(0, 10**6))
def test_every_token_is_masked_in_exactly_one_stream(n_tokens: int, noise: NoiseConfig, seed: int) -> None:
    corruption = corrupt(n_tokens, noise, Generator().manual_seed(seed))
    assert torch.stack(corruption.masked).sum(0).tolist() == [1] * n_tokens
    sizes = torch.bincount(corruption.block).tolist()
    assert corruption.block.tolist() == sorted(corruption.block.tolist()) and min(sizes) >= 1
    assert all(size == noise.block_size for size in sizes[1:-1]) and max(sizes) <= noise.block_size
    if not noise.random_offset and len(sizes) > 1:
        assert sizes[0] == noise.block_size


def test_the_oracle_of_dependence_would_see_a_leak() -> None:
    """A mask that lets corrupt blocks see their own clean block is told apart."""
    samples = [make_sample(4, NoiseConfig(2), 3)]
    row = pack(samples, MASK_ID)
    tags = row.tags
    shifted = RowTags(tags.segment, tags.stream, tags.index, tags.block - (tags.stream == 1).long())
    tokens = tokens_of(samples)
    leaky = influence(DOUBLE, replace(row, tags=shifted), features_of(DOUBLE, samples))
    assert not torch.equal(leaky, torch.tensor([[depends(q, k) for q in tokens] for k in tokens]))
