"""Crop and task to pixels, ids and positions, against literals (transformers is the oracle elsewhere)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.factories import image_spec, prompt_builder, random_image, tiny_tokenizer

from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.image_size import fit_size
from gravityocr.model.prompt import TASK_PROMPTS, ImageSpec, PromptBuilder, image_patches
from gravityocr.training.nano import build_tokenizer


def test_the_prompts_byte_for_byte() -> None:
    assert dict(TASK_PROMPTS) == {
        "text": "Text Recognition:", "table": "Table Recognition:", "formula": "Formula Recognition:",
    }  # fmt: skip
    prompt = prompt_builder("mqa").build(Image.new("RGB", (32, 16)), "table")
    text = tiny_tokenizer().decode(prompt.ids.tolist(), skip_special_tokens=False)
    assert text == (
        "[gMASK]<sop><|user|>\n<|begin_of_image|><|image|><|image|><|end_of_image|>Table Recognition:<|assistant|>\n"
    )


def test_positions_by_hand() -> None:
    """Two rows and three columns behind five tokens: the text goes on behind the longer side."""
    prompt = prompt_builder("mqa").build(Image.new("RGB", (48, 32)), "text")
    before, after = [0, 1, 2, 3, 4], [8, 9, 10, 11]
    assert prompt.grid == (4, 6) and prompt.pixels.shape == (24, 3 * 2 * 8 * 8)
    assert prompt.is_image.tolist() == [False] * 5 + [True] * 6 + [False] * 4
    assert prompt.positions.tolist() == [
        [*before, 5, 5, 5, 5, 5, 5, *after],
        [*before, 5, 5, 5, 6, 6, 6, *after],
        [*before, 5, 6, 7, 5, 6, 7, *after],
    ]
    assert prompt.next_position == 12


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((448, 448), (448, 448)),
        ((450, 470), (448, 476)),
        ((20, 200), (28, 280)),  # too low: enlarged until a cell fits
        ((56, 56), (84, 84)),  # fewer than the least pixels
        ((3000, 4000), (2100, 2800)),  # more than the most
    ],
)
def test_sizes_that_fit(size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert fit_size(*size, ImageSpec()) == expected


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_a_size_is_whole_cells_within_the_limits(height: int, width: int) -> None:
    if max(height, width) > 100 * min(height, width):
        return  # the caller pads these
    spec = image_spec("gqa")
    fitted = fit_size(height, width, spec)
    assert all(side >= 28 and side % 28 == 0 for side in fitted)
    n_pixels = 2 * fitted[0] * fitted[1]
    smallest_of_its_shape = 2 * 28 * max(fitted)  # one row or column of cells may not shrink further
    assert spec.min_pixels <= n_pixels <= max(spec.max_pixels, smallest_of_its_shape)


def test_patches_are_channel_time_row_column_and_cells_stay_together() -> None:
    spec = ImageSpec(patch_size=2, min_pixels=1, mean=(0, 0, 0), std=(1, 1, 1))
    values = torch.arange(3 * 4 * 8).view(3, 4, 8)
    image = Image.fromarray(values.permute(1, 2, 0).to(torch.uint8).contiguous().numpy())
    patches, grid = image_patches(image, spec)
    assert grid == (2, 4) and patches.shape == (8, 3 * 2 * 2 * 2)
    places = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    for patch, (row, column) in zip(patches.view(8, 3, 2, 2, 2), places, strict=True):
        for time in range(2):
            expected = values[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] / 255
            assert torch.equal(patch[:, time], expected)


def test_a_grey_image_is_one_of_three_equal_channels() -> None:
    grey = random_image(40, 24, seed=5).convert("L")
    spec = image_spec("nano")
    assert torch.equal(image_patches(grey, spec)[0], image_patches(grey.convert("RGB"), spec)[0])


def test_pixels_are_normalised() -> None:
    spec = ImageSpec(patch_size=8, min_pixels=1, mean=(1.0, 1.0, 1.0), std=(0.3, 0.3, 0.3))
    white, _ = image_patches(Image.new("RGB", (32, 32), "white"), spec)
    assert white.abs().max() == 0.0  # an empty cell carries no signal
    black, _ = image_patches(Image.new("L", (32, 32)), spec)
    torch.testing.assert_close(black, torch.full_like(black, -1 / 0.3))


def test_transparent_pixels_are_paper() -> None:
    clear = Image.new("RGBA", (32, 32), (0, 0, 0, 0))
    pixels, _ = image_patches(clear, image_spec("mqa"))
    white, _ = image_patches(Image.new("RGB", (32, 32), "white"), image_spec("mqa"))
    assert torch.equal(pixels, white)


def test_the_image_is_not_changed() -> None:
    image = random_image(50, 30)
    before = image.tobytes()
    prompt_builder().build(image)
    assert image.tobytes() == before


def test_an_unknown_task_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'chart'.*text, table, formula"):
        prompt_builder().build(Image.new("RGB", (32, 32)), "chart")  # type: ignore[arg-type]


def test_a_tokenizer_without_the_image_token_is_refused() -> None:
    other = build_tokenizer("\n ").to_str().replace("<|image|>", "<|picture|>")
    with pytest.raises(CheckpointError, match=r"<\|image\|>"):
        PromptBuilder(type(tiny_tokenizer()).from_str(other), image_spec("gqa"))
