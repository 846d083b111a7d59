"""Acceptance profiles: the paper's means are met, one p serves all block sizes, draws follow the weights."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from gravityocr.decoding.acceptance import (
    PAPER_MEANS,
    AcceptanceProfile,
    paper_profile,
    read_profiles,
    truncated_geometric,
)
from gravityocr.errors import ConfigError, InputError


@pytest.mark.parametrize(("mean", "block_size"), [(15.0, 32), (18.9, 32), (25.0, 32), (0.5, 1), (3.0, 12), (0.0, 4)])
def test_the_mean_is_met(mean: float, block_size: int) -> None:
    profile = AcceptanceProfile(truncated_geometric(mean, block_size))
    assert profile.block_size == block_size and sum(profile.weights) == pytest.approx(1.0)
    assert profile.mean == pytest.approx(mean, abs=1e-9)


def test_it_is_a_geometric_whose_rest_is_at_the_end() -> None:
    weights = truncated_geometric(PAPER_MEANS["text"], 32)
    p = weights[1] / weights[0]
    assert all(b / a == pytest.approx(p) for a, b in zip(weights[:-2], weights[1:-1], strict=True))
    assert weights[-1] == pytest.approx(p**32) and weights[0] == pytest.approx(1 - p)


@pytest.mark.parametrize("task", PAPER_MEANS)
def test_other_block_sizes_share_the_parameter(task: str) -> None:
    short, paper = paper_profile(task, 8), paper_profile(task, 32)
    assert paper.mean == pytest.approx(PAPER_MEANS[task])
    assert short.weights[:8] == pytest.approx(paper.weights[:8])
    assert short.weights[8] == pytest.approx(sum(paper.weights[8:]))


@pytest.mark.parametrize(("mean", "block_size"), [(-1.0, 8), (9.0, 8), (math.nan, 8), (1.0, 0)])
def test_impossible_means(mean: float, block_size: int) -> None:
    with pytest.raises(ConfigError):
        truncated_geometric(mean, block_size)


def test_draws_follow_the_weights_and_the_seed() -> None:
    profile = AcceptanceProfile((1.0, 0.0, 3.0), seed=7)
    draws = profile.draw(4000, torch.Generator().manual_seed(profile.seed))
    assert set(draws.tolist()) == {0, 2}
    assert draws.float().mean().item() == pytest.approx(profile.mean, abs=0.06)
    assert torch.equal(draws, profile.draw(4000, torch.Generator().manual_seed(7)))


@pytest.mark.parametrize("weights", [(), (1.0,), (0.0, 0.0), (1.0, -1.0), (1.0, math.nan), (1.0, math.inf)])
def test_weights_that_are_none(weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError):
        AcceptanceProfile(weights)


def write(folder: Path, content: object) -> Path:
    file = folder / "profile.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def test_histograms_of_a_file(tmp_path: Path) -> None:
    found = read_profiles(write(tmp_path, {"text": [1, 2, 1], "table": [0, 0, 1.5]}), 2, seed=3)
    assert found == {"text": AcceptanceProfile((1.0, 2.0, 1.0), 3), "table": AcceptanceProfile((0.0, 0.0, 1.5), 3)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read"), ([], "object"), ({}, "object"), ({"poem": [1, 1, 1]}, "poem"), ({"text": 3}, "text"),
        ({"text": [1, "a", 1]}, "text"), ({"text": [1, True, 1]}, "text"), ({"text": [1, 1]}, "B = 1.*B = 2"),
        ({"text": [0, 0, 0]}, "text: the weights"), ({"text": [-1, 0, 2]}, "text: the weights"),
    ],
    ids=range(10),
)  # fmt: skip
def test_broken_files_are_named(tmp_path: Path, content: object, words: str) -> None:
    with pytest.raises(InputError, match=rf"profile\.json.*{words}"):
        read_profiles(write(tmp_path, content), 2)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json"):
        read_profiles(tmp_path / "none.json", 2)
