"""The three kinds of attention over packed rows: the same outputs, and the same gradients where there are any."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training_data import MASK_ID, features_of, make_sample, tiny_network
from torch import Generator, Tensor

from gravityocr.training.attention import AttentionKind, attend_in, segments_of
from gravityocr.training.losses import packed_hidden
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import PackedRow, Sample, pack

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without")

noises = st.builds(
    NoiseConfig,
    block_size=st.integers(1, 40),
    mask_schedule=st.sampled_from(["uniform", "all", "mixed"]),
    random_offset=st.booleans(),
    eos_fill=st.booleans(),
)


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[Sample], PackedRow]:
    """Draw a row of one to four samples; the longest ones are longer than a block of FlexAttention."""
    grids = st.sampled_from([(2, 2), (2, 6), (4, 8)])
    samples = [
        make_sample(draw(st.integers(0, 60)), draw(noises), draw(st.integers(0, 999)), draw(grids))
        for _ in range(draw(st.integers(1, 4)))
    ]
    return samples, pack(samples, MASK_ID)


def attended(
    row: PackedRow, kind: AttentionKind, heads: tuple[int, int], gradients: bool
) -> tuple[Tensor, list[Tensor]]:
    """Attend with random queries, keys and values; return the output and the gradients of a random sum of it."""
    generator = Generator().manual_seed(row.n_tokens)
    q, k, v = (
        (1.5 * torch.randn(1, n_heads, row.n_tokens, 8, generator=generator)).requires_grad_(gradients)
        for n_heads in (heads[0], heads[1], heads[1])
    )
    out = attend_in(row, kind)(0, q, k, v)
    if not gradients:
        return out, []
    out.mul(torch.randn(out.shape, generator=generator)).sum().backward()
    return out.detach(), [part.grad for part in (q, k, v) if part.grad is not None]


@settings(max_examples=10)
@given(drawn=rows(), heads=st.sampled_from([(1, 1), (2, 2), (4, 2), (6, 1)]))
def test_all_kinds_attend_alike(drawn: tuple[list[Sample], PackedRow], heads: tuple[int, int]) -> None:
    row = drawn[1]
    wanted, _ = attended(row, "dense", heads, gradients=False)
    for kind in ("segments", "flex"):
        torch.testing.assert_close(attended(row, kind, heads, False)[0], wanted, rtol=0, atol=1e-5, msg=kind)


@settings(max_examples=25)
@given(drawn=rows(), heads=st.sampled_from([(1, 1), (4, 2), (6, 1)]))
def test_segments_have_the_gradients_of_the_dense_mask(
    drawn: tuple[list[Sample], PackedRow], heads: tuple[int, int]
) -> None:
    row = drawn[1]
    wanted, wanted_gradients = attended(row, "dense", heads, gradients=True)
    out, gradients = attended(row, "segments", heads, gradients=True)
    torch.testing.assert_close(out, wanted, rtol=0, atol=1e-5)
    assert len(gradients) == 3
    for gradient, other in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-5, atol=1e-5)


@settings(max_examples=5)
@given(drawn=rows())
def test_all_kinds_give_the_network_the_same_hidden_states(drawn: tuple[list[Sample], PackedRow]) -> None:
    samples, row = drawn
    model = tiny_network().requires_grad_(False)
    features = features_of(model, samples)
    dense, *others = (
        packed_hidden(model, row, features, attend_in(row, kind)) for kind in ("dense", "segments", "flex")
    )
    for other in others:
        torch.testing.assert_close(other, dense, rtol=1e-5, atol=1e-5)


@settings(max_examples=40)
@given(drawn=rows())
def test_segments_cover_the_row(drawn: tuple[list[Sample], PackedRow]) -> None:
    samples, row = drawn
    parts = segments_of(row)
    assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])] and parts[-1].end == row.n_tokens
    for sample, part in zip(samples, parts, strict=True):
        assert part.n_prefix == sample.prompt.ids.numel() and part.mask.shape == (sample.n_tokens, sample.n_tokens)
        # What the prefix attends to apart from the streams is all that it sees.
        assert not part.mask[: part.n_prefix, part.n_prefix :].any()
