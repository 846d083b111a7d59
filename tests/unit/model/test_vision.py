"""The vision tower: packed crops never meet, and the packing does not show."""

from __future__ import annotations

import pytest
import torch
from tests.factories import CONFIGS, make_prompts, tiny_network
from torch import Tensor

from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.prompt import Prompt
from gravityocr.model.rope import axial_rope, patch_positions, rotate_halves

# Sizes that are equal, that have equal areas and different shapes, and that interrupt each other.
CELLS = [(2, 3), (1, 1), (3, 2), (1, 6), (2, 3), (4, 4), (1, 1)]


@torch.inference_mode()
def encode(model: OcrModel, prompts: list[Prompt]) -> list[tuple[Tensor, Tensor]]:
    """Return both features of each crop."""
    sizes = [prompt.grid[0] * prompt.grid[1] // 4 for prompt in prompts]
    cells, merged = model.encode_images(prompts)
    return list(zip(cells.split(sizes), merged.split(sizes), strict=True))


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_crop_does_not_notice_its_pack(name: str) -> None:
    model, prompts = tiny_network(name, 5), make_prompts(name, CELLS)
    packed = encode(model, prompts)
    for prompt, (cells, merged) in zip(prompts, packed, strict=True):
        ((cells_alone, merged_alone),) = encode(model, [prompt])
        torch.testing.assert_close(cells, cells_alone, rtol=0, atol=1e-5)
        torch.testing.assert_close(merged, merged_alone, rtol=0, atol=1e-5)
    assert packed[0][0].std() > 0.1


def test_the_order_of_a_pack_is_the_order_of_its_crops() -> None:
    model, prompts = tiny_network(seed=5), make_prompts("gqa", CELLS)
    forward, backward = encode(model, prompts), encode(model, prompts[::-1])[::-1]
    for (cells, _), (same, _) in zip(forward, backward, strict=True):
        torch.testing.assert_close(cells, same, rtol=0, atol=1e-5)


@pytest.mark.parametrize("changed", range(len(CELLS)))
def test_attention_never_crosses_crops(changed: int) -> None:
    model, prompts = tiny_network(seed=6), make_prompts("gqa", CELLS)
    before = encode(model, prompts)
    prompts[changed].pixels[0, :] += 3.0  # one patch of one crop
    after = encode(model, prompts)
    for i, ((cells, merged), (cells_after, merged_after)) in enumerate(zip(before, after, strict=True)):
        if i == changed:
            # Attention is two-way within the crop: every cell of it has changed.
            assert (cells - cells_after).abs().amax(1).min() > 1e-5
        else:
            assert torch.equal(cells, cells_after) and torch.equal(merged, merged_after)


def test_patch_positions_keep_the_patches_of_a_cell_together() -> None:
    first = [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    second = [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1], [3, 0], [3, 1]]
    assert patch_positions([(2, 4), (4, 2)], 2).tolist() == first + second


def test_the_patches_of_a_cell_are_neighbours_in_the_image() -> None:
    """Pixels, positions and merge agree on one order: a marked patch shows in its own cell first of all."""
    model = tiny_network(seed=7)
    (prompt,) = make_prompts("gqa", [(2, 3)])
    places = patch_positions([prompt.grid], 2)
    for cell in range(6):
        row, column = divmod(cell, 3)
        assert places[4 * cell].tolist() == [2 * row, 2 * column]
    for block in model.visual.blocks:
        block.attn.proj.weight.zero_()  # type: ignore[union-attr,operator]
        block.attn.proj.bias.zero_()  # type: ignore[union-attr,operator]
    ((before, _),) = encode(model, [prompt])
    prompt.pixels[4 * 4 + 1] += 3.0  # without attention: nothing but cell 4 changes
    ((after, _),) = encode(model, [prompt])
    assert ((before - after).abs().amax(1) > 1e-5).tolist() == [False] * 4 + [True, False]


def test_rotary_scores_depend_on_offsets_only() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(16), torch.randn(16)

    def score(at: list[int], to: list[int]) -> Tensor:
        turns = axial_rope(torch.tensor([at, to]), 100.0, 16)
        return rotate_halves(q, turns[0]) @ rotate_halves(k, turns[1])

    torch.testing.assert_close(score([3, 5], [1, 9]), score([13, 2], [11, 6]), rtol=0, atol=1e-4)
    assert (score([3, 5], [1, 9]) - score([5, 3], [9, 1])).abs() > 1e-3  # the axes are told apart
