"""Properties of joint training: who depends on whom, packed = unpacked, targets, first fit, complements."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training_data import EOS_ID, MASK_ID, features_of, make_sample, tiny_network
from torch import Generator, Tensor

from gravityocr.model.masks import RowTags
from gravityocr.model.ocr_model import OcrModel
from gravityocr.training.losses import JointLoss, LossConfig, joint_loss, masked_attention, packed_hidden
from gravityocr.training.noise import NoiseConfig, corrupt
from gravityocr.training.packing import IGNORE, PackedBatch, Sample, assign_rows, pack

MODEL = tiny_network()
DOUBLE = tiny_network().double()

noises = st.builds(
    NoiseConfig,
    block_size=st.integers(1, 5),
    mask_schedule=st.sampled_from(["uniform", "all", "mixed"]),
    random_offset=st.booleans(),
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
def influence(model: OcrModel, batch: PackedBatch, features: Tensor) -> Tensor:
    """Return [column disturbed, row changed] of the only row of a batch, through the whole decoder.

    Every column is disturbed in a copy of its own; the last copy stays as it was.
    """
    n = batch.ids.shape[1]
    embedded = model.embed(batch.ids, batch.is_image, features).expand(n + 1, -1, -1).clone()
    noise = torch.randn(n, embedded.shape[-1], generator=Generator().manual_seed(0), dtype=embedded.dtype)
    embedded[torch.arange(n), torch.arange(n)] += 3 * noise
    hidden = model.hidden(embedded, batch.positions.expand(-1, n + 1, -1), masked_attention(batch.tags))
    return (hidden[:-1] - hidden[-1]).abs().amax(-1) > 1e-10


@settings(max_examples=25)
@given(samples=sample_lists(most=3))
def test_rows_depend_on_exactly_what_section_3_says(samples: list[Sample]) -> None:
    batch = pack(samples, MASK_ID, 10**6)
    tokens = tokens_of(samples)
    assert batch.ids.shape == (1, len(tokens))
    found = influence(DOUBLE, batch, features_of(DOUBLE, samples, batch))
    wanted = torch.tensor([[depends(q, k) for q in tokens] for k in tokens])
    assert torch.equal(found, wanted)


def loss_and_gradients(samples: list[Sample], budget_tokens: int) -> tuple[JointLoss, dict[str, Tensor]]:
    """Give the loss sums of packed samples and the gradients of 1 x AR sum + 0.5 x diffusion sum."""
    MODEL.zero_grad(set_to_none=True)
    batch = pack(samples, MASK_ID, budget_tokens)
    hidden = packed_hidden(MODEL, batch, features_of(MODEL, samples, batch), masked_attention(batch.tags))
    loss = joint_loss(MODEL, batch, hidden)
    (loss.ar_sum + 0.5 * loss.diffusion_sum).backward()
    gradients = {name: p.grad.clone() for name, p in MODEL.named_parameters() if p.grad is not None}
    return replace(loss, ar_sum=loss.ar_sum.detach(), diffusion_sum=loss.diffusion_sum.detach()), gradients


def total(parts: list[JointLoss]) -> JointLoss:
    return JointLoss(
        torch.stack([part.ar_sum for part in parts]).sum(),
        sum(part.n_ar for part in parts),
        torch.stack([part.diffusion_sum for part in parts]).sum(),
        sum(part.n_diffusion for part in parts),
    )


def assert_same_loss(one: JointLoss, other: JointLoss) -> None:
    assert (one.n_ar, one.n_diffusion) == (other.n_ar, other.n_diffusion)
    torch.testing.assert_close(one.ar_sum, other.ar_sum, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(one.diffusion_sum, other.diffusion_sum, rtol=1e-5, atol=1e-5)


@settings(max_examples=20)
@given(samples=sample_lists(), n_rows=st.integers(1, 4), cut=st.integers(1, 3))
def test_packing_and_accumulation_change_nothing(samples: list[Sample], n_rows: int, cut: int) -> None:
    """One row, several rows, or one sample at a time: the same sums, counts and gradients in fp32."""
    alone = [loss_and_gradients([sample], 10**6) for sample in samples]
    sizes = [sample.n_tokens for sample in samples]
    budget = max(max(sizes), sum(sizes) // n_rows)
    ways = [[samples]] + ([[samples[:cut], samples[cut:]]] if cut < len(samples) else [])
    for micro_batches in ways:
        results = [loss_and_gradients(part, budget) for part in micro_batches]
        loss, wanted = total([r[0] for r in results]), total([a[0] for a in alone])
        assert_same_loss(loss, wanted)
        torch.testing.assert_close(loss.mean(LossConfig(0.7, 1.3)), wanted.mean(LossConfig(0.7, 1.3)))
        for name in {name for _, gradients in alone for name in gradients}:
            one, other = (sum(g[name] for _, g in parts) for parts in (results, alone))
            scale = max(1.0, float(other.abs().max()))
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * scale, msg=name)


@settings(max_examples=60)
@given(samples=sample_lists(), slack=st.integers(0, 80))
def test_targets_restore_every_response_token_once(samples: list[Sample], slack: int) -> None:
    budget = max(sample.n_tokens for sample in samples) + slack
    batch = pack(samples, MASK_ID, budget)
    assert sorted(batch.order) == list(range(len(samples))) and batch.ids.shape[1] <= budget
    n_ar = n_diffusion = 0
    for place, i in zip(batch.places, batch.order, strict=True):
        sample = samples[i]
        last_prefix = place.prefix + sample.prompt.ids.numel() - 1
        for number, column in enumerate(place.streams):
            supervised = (
                torch.arange(sample.response.numel()) < sample.n_supervised
                if number == 0
                else sample.corruption.masked[number - 1]
            )
            target = (batch.ar_target if number == 0 else batch.diffusion_target)[place.row]
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
    assert (batch.ar_target != IGNORE).sum() == n_ar
    assert (batch.diffusion_target != IGNORE).sum() == n_diffusion


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


@given(sizes=st.lists(st.integers(1, 50), max_size=30), slack=st.integers(0, 40))
def test_first_fit_keeps_the_budget_and_every_sample(sizes: list[int], slack: int) -> None:
    budget = max(sizes, default=1) + slack
    rows = assign_rows(sizes, budget)
    assert sorted(i for row in rows for i in row) == list(range(len(sizes)))
    assert all(row == sorted(row) and sum(sizes[i] for i in row) <= budget for row in rows)
    for number, row in enumerate(rows):
        for i in row:  # no earlier row had room when the sample came
            for earlier in rows[:number]:
                assert sum(sizes[j] for j in earlier if j < i) + sizes[i] > budget


def test_padding_changes_nothing() -> None:
    """The shorter of two rows gives the same hidden states as when it is alone."""
    long, short = make_sample(9, NoiseConfig(3), 1, (2, 6)), make_sample(2, NoiseConfig(3), 2)
    both = pack([long, short], MASK_ID, long.n_tokens)
    alone = pack([short], MASK_ID, long.n_tokens)
    with torch.no_grad():
        padded, bare = (
            packed_hidden(DOUBLE, batch, features_of(DOUBLE, [long, short][-n:], batch), masked_attention(batch.tags))
            for batch, n in ((both, 2), (alone, 1))
        )
    torch.testing.assert_close(padded[1, : short.n_tokens], bare[0], rtol=0, atol=1e-12)
    assert padded.isfinite().all()


def test_the_oracle_of_dependence_would_see_a_leak() -> None:
    """A mask that lets corrupt blocks see their own clean block is told apart."""
    samples = [make_sample(4, NoiseConfig(2), 3)]
    batch = pack(samples, MASK_ID, 1000)
    tags = batch.tags
    shifted = RowTags(tags.segment, tags.stream, tags.index, tags.block - (tags.stream == 1).long())
    tokens = tokens_of(samples)
    leaky = influence(DOUBLE, replace(batch, tags=shifted), features_of(DOUBLE, samples, batch))
    assert not torch.equal(leaky, torch.tensor([[depends(q, k) for q in tokens] for k in tokens]))
