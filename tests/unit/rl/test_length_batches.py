"""Rows of like length are scored together: the same figures in the same order, with less padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gravityocr.rl.length_batches import ROWS_AT_ONCE, scores_by_length

KEEP = 6


class Scorer:
    """Scores a token by its id, its row's pixels and the sum of what its row attends to: padding must not matter."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, model: Any, ids: Tensor, mask: Tensor, keep: int, batch_size: int | None = None,
                 **fields: Any) -> tuple[Tensor, Tensor | None, None]:  # fmt: skip
        self.shapes.append((*ids.shape, keep))
        assert ids.shape == mask.shape == fields["mm_token_type_ids"].shape
        sizes = fields["image_grid_thw"].prod(dim=-1).tolist()
        pixels = torch.stack([part.sum() for part in fields["pixel_values"].split(sizes)])
        assert len(pixels) == len(ids) == len(fields["num_images"])
        seen = (ids * mask + 100 * fields["mm_token_type_ids"] * mask).sum(dim=1)
        own = ids[:, ids.shape[1] - keep :] * mask[:, ids.shape[1] - keep :]
        scores = (own + 1000.0 * pixels[:, None] + 7.0 * seen[:, None]) * mask[:, ids.shape[1] - keep :]
        return scores, scores / 2 if fields.get("compute_entropy") else None, None


def batch(n_rows: int, seed: int = 0, n_images: int = 1) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    n_prompt = torch.randint(2, 30, (n_rows,), generator=generator).tolist()
    n_response = torch.randint(0, KEEP + 1, (n_rows,), generator=generator).tolist()
    longest = max(n_prompt)
    ids = torch.randint(1, 50, (n_rows, longest + KEEP), generator=generator)
    mask = torch.zeros_like(ids)
    for row, (before, after) in enumerate(zip(n_prompt, n_response, strict=True)):
        mask[row, longest - before : longest + after] = 1
    kinds = torch.randint(0, 2, ids.shape, generator=generator)
    grids = torch.stack([torch.tensor([1, 1 + row % 3, 2]) for row in range(n_rows)])
    pixels = torch.rand(int(grids.prod(dim=-1).sum()), 4, generator=generator)
    return {
        "input_ids": ids, "attention_mask": mask, "logits_to_keep": KEEP, "pixel_values": pixels,
        "image_grid_thw": grids, "num_images": [n_images] * n_rows, "mm_token_type_ids": kinds,
    }  # fmt: skip


def called(score: Any, rows: dict[str, Any], **more: Any) -> Any:
    rest = dict(rows)
    first = [rest.pop(name) for name in ("input_ids", "attention_mask", "logits_to_keep")]
    return score(None, *first, **rest, **more)


@pytest.mark.parametrize("n_rows", [1, 7, 8, 21])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_scores_are_those_of_the_whole_batch(n_rows: int, seed: int) -> None:
    rows = batch(n_rows, seed)
    whole = called(Scorer(), rows, compute_entropy=True)
    scorer = Scorer()
    parts = called(lambda *args, **fields: scores_by_length(scorer, *args, **fields), rows, compute_entropy=True)
    assert torch.allclose(parts[0], whole[0]) and torch.allclose(parts[1], whole[1])
    assert len(scorer.shapes) == -(-n_rows // ROWS_AT_ONCE)


def test_less_padding_is_computed() -> None:
    rows = batch(24)
    scorer = Scorer()
    scores_by_length(scorer, None, **rows)
    computed = sum(n * width for n, width, _ in scorer.shapes)
    assert computed < 0.85 * rows["input_ids"].numel()


def test_a_smaller_batch_of_the_caller_is_kept_and_rows_without_any_completion_are_fine() -> None:
    rows = batch(6)
    rows["attention_mask"][:, -KEEP:] = 0
    scorer = Scorer()
    log_probs, entropies, _ = scores_by_length(scorer, None, **rows, batch_size=2)
    assert log_probs.shape == (6, KEEP) and not log_probs.any() and entropies is None
    assert [shape[0] for shape in scorer.shapes] == [2, 2, 2]
    assert {shape[2] for shape in scorer.shapes} == {1}, "every chunk keeps a column of the completions"


def test_other_than_one_picture_a_row_goes_through_as_it_is() -> None:
    rows = batch(4)
    called_with = []

    def score(*args: Any, **fields: Any) -> Any:
        called_with.append(args[1].shape)
        return torch.zeros(4, KEEP), None, None

    scores_by_length(score, None, **{**rows, "num_images": [2, 0, 1, 1]})
    scores_by_length(score, None, **{**rows, "num_images": None})
    assert called_with == [rows["input_ids"].shape] * 2
