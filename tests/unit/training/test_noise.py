"""The corruption: complements, rates, schedules, block borders."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from gravityocr.training.noise import NoiseConfig, corrupt


def draw(n_tokens: int, config: NoiseConfig, seed: int = 0):
    return corrupt(n_tokens, config, Generator().manual_seed(seed))


@pytest.mark.parametrize("random_offset", [False, True])
def test_the_two_streams_are_exact_complements(random_offset: bool) -> None:
    for seed in range(30):
        first, second = draw(77, NoiseConfig(8, random_offset=random_offset), seed).masked
        assert torch.equal(first, ~second)


def test_the_same_generator_state_draws_the_same_corruption() -> None:
    config = NoiseConfig(8, "mixed", random_offset=True)
    for seed in range(8):
        one, other = draw(50, config, seed), draw(50, config, seed)
        assert torch.equal(one.block, other.block)
        assert all(torch.equal(a, b) for a, b in zip(one.masked, other.masked, strict=True))


def test_uniform_draws_one_rate_per_block() -> None:
    # With t ~ U(0, 1) per block of B = 9, the number of masked tokens of a block is uniform on 0..9 (a
    # Beta(1, 1)-binomial): mean 4.5, variance 8.25. One rate per token would give variance 2.25.
    n_blocks = 6000
    masked = draw(9 * n_blocks, NoiseConfig(9)).masked[0].view(n_blocks, 9).sum(1)
    shares = torch.bincount(masked, minlength=10) / n_blocks
    assert (shares - 0.1).abs().max() < 0.016  # four standard deviations
    assert masked.float().mean() == pytest.approx(4.5, abs=0.15)


def test_rates_of_neighbouring_blocks_are_independent() -> None:
    rates = draw(16 * 8000, NoiseConfig(16)).masked[0].view(-1, 16).float().mean(1)
    correlation = torch.corrcoef(torch.stack([rates[:-1], rates[1:]]))[0, 1]
    assert abs(correlation) < 0.05


def test_all_masks_everything_in_one_stream() -> None:
    corruption = draw(20, NoiseConfig(8, "all"))
    assert len(corruption.masked) == 1
    assert corruption.masked[0].all() and corruption.masked[0].shape == (20,)


def test_mixed_takes_all_for_its_share() -> None:
    counts = [len(draw(8, NoiseConfig(4, "mixed", 0.65), seed).masked) for seed in range(1500)]
    assert set(counts) == {1, 2}
    assert counts.count(1) / 1500 == pytest.approx(0.65, abs=0.05)
    assert all(len(draw(8, NoiseConfig(4, "mixed", 0.0), seed).masked) == 2 for seed in range(20))
    assert all(len(draw(8, NoiseConfig(4, "mixed", 1.0), seed).masked) == 1 for seed in range(20))


def test_blocks_start_at_multiples_of_the_size() -> None:
    assert draw(10, NoiseConfig(4)).block.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]


def test_a_random_offset_shortens_the_first_block_only() -> None:
    first_sizes = set()
    for seed in range(60):
        block = draw(23, NoiseConfig(5, random_offset=True), seed).block
        sizes = torch.bincount(block).tolist()
        assert block[0] == 0 and (block.diff() >= 0).all() and (block.diff() <= 1).all()
        assert 1 <= sizes[0] <= 5 and all(size == 5 for size in sizes[1:-1]) and 1 <= sizes[-1] <= 5
        first_sizes.add(sizes[0])
    assert first_sizes == {1, 2, 3, 4, 5}


def test_the_fill_and_the_copies_are_told() -> None:
    assert [NoiseConfig(8, eos_fill=fill).n_eos for fill in (True, False)] == [8, 1]
    assert [NoiseConfig(8, schedule).n_corrupt for schedule in ("uniform", "all", "mixed")] == [2, 1, 2]
