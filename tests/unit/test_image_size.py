"""One rule for sizes and token counts: against literals, GLM-OCR's own processor and the prompts that are built."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from tests.factories import image_spec, prompt_builder, random_image

from gravityocr.image_size import (
    MAX_ASPECT,
    SizeRule,
    fit_size,
    n_image_tokens,
    pad_size,
    padded,
    paper_colour,
    within_aspect,
)
from gravityocr.model.prompt import ImageSpec, PromptBuilder, image_patches
from gravityocr.pipeline.server.reply import sent_size

GLM = SizeRule()
SMALL = SizeRule(min_pixels=2 * 56 * 56, max_pixels=2 * 448 * 448)
EDGES = [1, 2, 4, 5, 9, 13, 14, 15, 27, 28, 29, 41, 42, 43, 55, 56, 57, 83, 84, 111, 112, 113, 140, 200, 201, 448, 899,
         900, 1000, 1654, 2339, 3508, 5600, 5601, 9921, 14031, 40000]  # fmt: skip
SIDES = st.one_of(st.integers(1, 300), st.integers(1, 20_000), st.sampled_from(EDGES))


def theirs(height: int, width: int, rule: SizeRule) -> tuple[int, int]:
    processor = pytest.importorskip("transformers.models.glm46v.image_processing_pil_glm46v")
    return processor.smart_resize(
        num_frames=rule.temporal_patch_size, height=height, width=width, temporal_factor=rule.temporal_patch_size,
        factor=rule.cell_px, min_pixels=rule.min_pixels, max_pixels=rule.max_pixels,
    )  # fmt: skip


def check_against_theirs(height: int, width: int, rule: SizeRule) -> None:
    """Where the processor takes a size, ours is its; where it refuses, padding makes it one that it takes."""
    try:
        expected = theirs(height, width, rule)
    except ValueError:
        assert pad_size(height, width, rule) != (height, width)
        height, width = pad_size(height, width, rule)
        expected = theirs(height, width, rule)
    assert pad_size(height, width, rule) == (height, width)
    assert fit_size(height, width, rule) == expected


@given(SIDES, SIDES, st.sampled_from([GLM, SMALL]))
@example(5, 1000, GLM)
@example(4, 900, GLM)
@example(1, 1, GLM)
@example(23, 472, GLM)  # half a cell too much, but for a fraction of a pixel
def test_sizes_are_those_of_the_stock_processor(height: int, width: int, rule: SizeRule) -> None:
    check_against_theirs(height, width, rule)


@pytest.mark.parametrize("rule", [GLM, SMALL])
def test_a_grid_of_sizes_is_that_of_the_stock_processor(rule: SizeRule) -> None:
    for height, width in product(EDGES, EDGES):
        check_against_theirs(height, width, rule)


@given(SIDES, SIDES, st.sampled_from([GLM, SMALL]))
def test_a_count_is_of_whole_cells_within_the_limits(height: int, width: int, rule: SizeRule) -> None:
    n_tokens = n_image_tokens(height, width, rule)
    fitted = fit_size(*pad_size(height, width, rule), rule)
    assert n_tokens >= 1 and all(side % rule.cell_px == 0 for side in fitted)
    n_pixels = rule.temporal_patch_size * n_tokens * rule.cell_px**2
    thinnest = rule.temporal_patch_size * rule.cell_px * max(fitted)  # one row of cells cannot shrink any further
    assert rule.min_pixels <= n_pixels <= max(rule.max_pixels, thinnest)


@given(st.integers(112, 1000), st.integers(112, 1000), st.integers(0, 600), st.integers(0, 600))
def test_a_larger_crop_never_costs_less_between_the_limits(height: int, width: int, down: int, right: int) -> None:
    assert n_image_tokens(height + down, width + right, GLM) >= n_image_tokens(height, width, GLM)


@given(SIDES, SIDES)
def test_padding_goes_to_the_short_side_alone_and_no_farther_than_it_must(height: int, width: int) -> None:
    low, high = sorted(pad_size(height, width, GLM))
    assert high == max(height, width) and low >= min(height, width) and high <= MAX_ASPECT * low
    if low > min(height, width):
        assert low <= -(-high // MAX_ASPECT) + 1
    assert pad_size(width, height, GLM) == pad_size(height, width, GLM)[::-1]


COUNTED = [(1, 1), (900, 4), (4, 900), (1000, 5), (40, 28), (45, 60), (613, 41), (57, 57), (130, 700), (1, 300)]


@pytest.mark.parametrize("name", ["gqa", "mqa", "nano"])
@pytest.mark.parametrize("size", COUNTED)
def test_the_count_is_that_of_the_prompt_which_is_built(name: str, size: tuple[int, int]) -> None:
    builder = PromptBuilder(prompt_builder("mqa").tokenizer, image_spec(name))
    prompt = builder.build(random_image(*size))
    assert int(prompt.is_image.sum()) == n_image_tokens(size[1], size[0], builder.spec)
    assert len(prompt.ids) == builder.n_tokens(*size)


def test_the_stock_spec_is_the_rule_with_colours() -> None:
    rule = ImageSpec()
    assert isinstance(rule, SizeRule) and (rule.cell_px, rule.min_pixels, rule.max_pixels) == (28, 12544, 11_760_000)
    _, grid = image_patches(Image.new("L", (900, 4), 255), rule)
    assert grid[0] * grid[1] // 4 == n_image_tokens(4, 900, GLM) == 180


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK"])
def test_a_padded_image_is_in_the_middle_of_its_own_paper(mode: str) -> None:
    image = Image.new("RGB", (900, 4), (255, 255, 255))
    image.paste((0, 0, 0), (0, 0, 100, 4))  # ink in the corner is not the paper
    image = image.convert(mode)
    sheet = within_aspect(image, GLM)
    assert sheet.mode == mode and sheet.size == (900, 5)
    assert sheet.convert("RGB").crop((0, 0, 900, 4)).tobytes() == image.convert("RGB").tobytes()
    assert sheet.convert("RGB").crop((0, 4, 900, 5)).getcolors() == [(900, (255, 255, 255))]
    assert within_aspect(sheet, GLM) is sheet and padded(sheet, sheet.size) is sheet


def test_paper_is_what_most_of_the_edge_shows() -> None:
    image = Image.new("RGB", (20, 10), (250, 240, 200))
    image.paste((10, 10, 10), (2, 2, 18, 8))
    image.paste((0, 0, 0), (0, 0, 9, 1))
    assert paper_colour(image) == (250, 240, 200)
    assert paper_colour(Image.new("L", (1, 1), 77)) == 77


@given(SIDES, SIDES, st.sampled_from([GLM, SMALL]))
@example(20_000, 16_000, GLM)
def test_a_client_that_shrinks_a_crop_keeps_the_count(height: int, width: int, rule: SizeRule) -> None:
    """What is sent is never larger than what is looked at, is accepted, and costs what the whole crop would."""
    sent = sent_size(height, width, rule)
    assert pad_size(*sent, rule) == sent
    if not rule.exceeded_by(*pad_size(height, width, rule)):
        assert sent == pad_size(height, width, rule)
    elif max(height, width) <= 100 * min(height, width):
        assert not rule.exceeded_by(*sent)
        assert n_image_tokens(*sent, rule) == n_image_tokens(height, width, rule)
