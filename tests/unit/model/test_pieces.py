"""Pieces of rendered paragraphs: the right lines, whole words, one size, the right joints."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from gravityocr.errors import InputError
from gravityocr.model.ink import components, read_ink
from gravityocr.model.lines import find_lines
from gravityocr.model.pieces import Piece, PieceSpec, join_texts, split_crop

SPEC = PieceSpec()
PROSE = [
    "Many agencies proposed that this extraction is a",
    "method of choice for jugs and organic pollutants",
    "so the eight quoted recoveries and the typical",
    "deviations are given below by key and by group",
    "on a sun",
]


def face(size: float) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)
    return font


def type_ink(font: ImageFont.FreeTypeFont) -> tuple[int, int]:
    _, top, _, bottom = font.getbbox("dpqkgl", anchor="ls")
    return int(-top), int(bottom)


def page(
    lines: list[str],
    size: int = 20,
    pitch: float = 1.25,
    pad: int = 8,
    lefts: list[int] | None = None,
    extra: list[int] | None = None,
    neighbours: tuple[str, str] | None = None,
) -> Image.Image:
    """Set `lines` of one size; `pitch` in ascender-to-descender heights, `extra` pixels of space above each."""
    font = face(size)
    up, down = type_ink(font)
    step = round((up + down) * pitch)
    lefts, extra = lefts or [0] * len(lines), extra or [0] * len(lines)
    width = int(max(left + font.getlength(text) for left, text in zip(lefts, lines, strict=True))) + 2 * pad
    height = 2 * pad + up + down + step * (len(lines) - 1) + sum(extra)
    image = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(image)
    y = pad + up
    if neighbours:
        draw.text((pad, y - step), neighbours[0], font=font, fill=0, anchor="ls")
    for text, left, space in zip(lines, lefts, extra, strict=True):
        y += space
        draw.text((pad + left, y), text, font=font, fill=0, anchor="ls")
        y += step
    if neighbours:
        draw.text((pad, y), neighbours[1], font=font, fill=0, anchor="ls")
    return image


def n_lines(pieces: list[Piece]) -> int:
    return len({piece.line for piece in pieces})


def ink_rows(piece: Piece) -> tuple[int, int]:
    rows = np.flatnonzero((np.asarray(piece.image) < 128).any(axis=1))
    return int(rows[0]), int(rows[-1]) + 1


def line_breaks(pieces: list[Piece]) -> str:
    """Return one letter per line after the first: N for a line break, _ for a blank."""
    firsts = [p.joiner for a, p in zip([None, *pieces], pieces, strict=False) if a is None or a.line != p.line]
    assert firsts[0] == ""
    return "".join({"\n": "N", " ": "_"}[joiner] for joiner in firsts[1:])


@pytest.mark.parametrize("size", [12, 18, 29, 60])
@pytest.mark.parametrize("pitch", [0.92, 1.05, 1.3, 1.9])
def test_every_line_is_found_once_at_its_type_size(size: int, pitch: float) -> None:
    image = page(PROSE, size, pitch)
    ink = read_ink(image)
    assert ink is not None
    lines, _ = find_lines(ink)
    up, down = type_ink(face(size))
    assert len(lines) == len(PROSE)
    assert all(line.size_px == pytest.approx(up + down, rel=0.12, abs=1) for line in lines)
    assert all(b.baseline - a.baseline == pytest.approx(round((up + down) * pitch), abs=1.5)
               for a, b in zip(lines[:-1], lines[1:], strict=True))  # fmt: skip


def test_pieces_have_the_trained_shape_ink_and_margins() -> None:
    for piece in split_crop(page(PROSE, 33), SPEC):
        pixels = np.asarray(piece.image)
        assert piece.image.mode == "L" and piece.image.height == 32
        assert piece.image.width % 128 == 0 and piece.image.width <= 384
        columns = np.flatnonzero((pixels < 128).any(axis=0))
        assert 4 <= columns[0] <= 8 and 4 <= piece.image.width - 1 - columns[-1] <= 8 + 127
        assert pixels.max() == 255 and pixels.min() < 60
        if piece.line != 4:
            top, bottom = ink_rows(piece)
            assert 18 <= bottom - top <= 28  # a piece may lack descenders


def test_other_specs_are_followed() -> None:
    spec = PieceSpec(line_height_px=48, line_ink_px=38, max_width_px=512, cell_px=32)
    pieces = split_crop(page(PROSE), spec)
    assert {piece.image.height for piece in pieces} == {48}
    assert all(piece.image.width % 32 == 0 and piece.image.width <= 512 for piece in pieces)
    top, bottom = ink_rows(pieces[0])
    assert 33 <= bottom - top <= 43


def test_a_line_without_ascenders_or_descenders_keeps_size_and_baseline_of_its_neighbours() -> None:
    lines = ["bad luggage problem", "sun on a moon", "happy clouds today"]
    alone = {piece.line: ink_rows(piece) for piece in split_crop(page(lines), SPEC)}
    assert alone[1][1] - alone[1][0] < 0.72 * (alone[0][1] - alone[0][0])
    above = split_crop(page(["bad cloud", "sun on a moon", "bad cloud"]), SPEC)
    assert {ink_rows(piece)[1] for piece in above} <= {22, 23, 24}


@pytest.mark.parametrize("text", ["INTRODUCTION", "2014", "sun on a moon", "Table 3", "your own gear"])
def test_a_single_line_comes_out_near_the_trained_size(text: str) -> None:
    font = face(27)
    up, down = type_ink(font)
    (line,) = find_lines(read_ink(page([text], 27)))[0]  # type: ignore[arg-type]
    assert 0.8 < line.size_px / (up + down) < 1.22


def test_a_heading_gets_its_own_scale_and_a_line_of_its_own() -> None:
    heading, body = page(["Results and glory"], 44), page(PROSE[:3], 18)
    crop = Image.new("L", (max(heading.width, body.width), heading.height + body.height), 255)
    crop.paste(heading, (0, 0))
    crop.paste(body, (0, heading.height))
    pieces = split_crop(crop, SPEC)
    assert n_lines(pieces) == 4
    for piece in pieces:
        top, bottom = ink_rows(piece)
        assert 18 <= bottom - top <= 28
    assert line_breaks(pieces) == "N__"


@pytest.mark.parametrize("pitch", [1.05, 1.2])
def test_lines_cut_by_the_border_leave_no_trace(pitch: float) -> None:
    clean = split_crop(page(PROSE[:4], 24, pitch, pad=9), SPEC)
    cut = split_crop(page(PROSE[:4], 24, pitch, pad=9, neighbours=("jumpy quay gypsy", "Blind The Hold")), SPEC)
    assert [p.line for p in cut] == [p.line for p in clean]
    for ours, theirs in zip(cut, clean, strict=True):
        assert ours.image.size == theirs.image.size
        difference = np.asarray(ours.image).astype(int) - np.asarray(theirs.image)
        assert float(np.abs(difference).mean()) < 6


def test_touching_descenders_and_ascenders_are_shared_out() -> None:
    image = page(["a gypsy was quietly enjoying my jig", "he did hold the balls and all of it"], 40, 0.9)
    ink = read_ink(image)
    assert ink is not None
    lines, owner = find_lines(ink)
    assert len(lines) == 2
    assert (owner == 0).any() and (owner == 1).any()
    assert np.flatnonzero((owner == 1).any(axis=1))[0] > lines[0].baseline - 2


@pytest.mark.parametrize("degrees", [-1.8, -0.7, 1.2])
def test_small_skew_is_taken_out(degrees: float) -> None:
    image = page(PROSE[:4], 22, 1.15, pad=24).rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255)
    pieces = split_crop(image, SPEC)
    assert n_lines(pieces) == 4
    assert all(21 <= ink_rows(piece)[1] - ink_rows(piece)[0] <= 30 for piece in pieces)


def test_polarity_colour_transparency_and_noise_do_not_change_the_lines() -> None:
    plain = page(PROSE, 22)
    dark = Image.fromarray(255 - np.asarray(plain))
    tinted = Image.merge("RGB", [plain.point(lambda v, low=low: low + v * (235 - low) // 255) for low in (200, 30, 20)])
    clear = Image.new("RGBA", plain.size, (0, 0, 0, 0))
    clear.putalpha(Image.fromarray(255 - np.asarray(plain)))
    shade = np.asarray(plain) * np.linspace(0.55, 1.0, plain.width)[None, :]
    rng = np.random.default_rng(0)
    noisy = np.asarray(plain.filter(ImageFilter.GaussianBlur(0.6))) * 0.6 + 60 + rng.normal(0, 10, shade.shape)
    expected = [piece.line for piece in split_crop(plain, SPEC)]
    for image in (dark, tinted, clear, Image.fromarray(shade.astype(np.uint8)),
                  Image.fromarray(noisy.clip(0, 255).astype(np.uint8))):  # fmt: skip
        pieces = split_crop(image, SPEC)
        assert n_lines(pieces) == 5 and len(pieces) == len(expected)
        assert np.asarray(pieces[0].image).mean() > 180  # dark on white


def test_rules_and_underlines_are_not_read() -> None:
    image = page(PROSE[:3], 24, 1.5, pad=14)
    ImageDraw.Draw(image).rectangle((2, 2, image.width - 3, image.height - 3), outline=0, width=2)
    pieces = split_crop(image, SPEC)
    assert n_lines(pieces) == 3
    assert all(ink_rows(piece)[1] - ink_rows(piece)[0] <= 29 for piece in pieces)


def test_long_lines_are_cut_between_words_into_balanced_pieces() -> None:
    image = page(["the quick brown fox jumps over the lazy dog and runs away from the big angry bear today"], 25)
    pieces = split_crop(image, SPEC)
    assert len(pieces) >= 3 and [p.joiner for p in pieces] == [""] + [" "] * (len(pieces) - 1)
    widths = [p.image.width for p in pieces]
    assert max(widths) < 1.7 * min(widths)
    # All ink comes through: a cut inside a glyph or a lost word would change the number of components.
    glyphs = sum(len(components(np.asarray(p.image) < 128)) for p in pieces)
    assert glyphs == len(components(np.asarray(image) < 128))


def test_a_word_wider_than_a_piece_is_cut_inside_with_an_empty_joiner() -> None:
    pieces = split_crop(page(["a " + "incomprehensibilities" * 3], 25), SPEC)
    assert len(pieces) >= 3 and "" in [p.joiner for p in pieces[1:]]
    assert all(p.image.width <= 384 for p in pieces)


def test_breaks_follow_indents_bullets_and_space() -> None:
    width = 60
    assert line_breaks(split_crop(page(PROSE), SPEC)) == "____"
    indented = [PROSE[0], "the end.", *PROSE[1:3]]
    assert line_breaks(split_crop(page(indented, lefts=[0, 0, width, 0]), SPEC)) == "_N_"
    assert line_breaks(split_crop(page(PROSE[:4], extra=[0, 0, 22, 0]), SPEC)) == "_N_"
    listed = ["•    Common focus of group", "•    Help", "•    Decision by the people"]
    assert line_breaks(split_crop(page(listed), SPEC)) == "NN"
    centred = ["A short title of two", "lines"]
    assert line_breaks(split_crop(page(centred, lefts=[0, 75]), SPEC)) == "_"


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (900, 4), (4, 900), (300, 100), (1, 500)])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F"])
def test_blank_images_of_any_mode_and_size_have_no_pieces(size: tuple[int, int], mode: str) -> None:
    assert split_crop(Image.new(mode, size), SPEC) == []


@pytest.mark.parametrize("shape", [(4, 900), (900, 4), (120, 300), (3, 3)])
def test_noise_gives_well_formed_pieces_or_none(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    for low in (0, 200):
        for piece in split_crop(Image.fromarray(rng.integers(low, 256, shape).astype(np.uint8)), SPEC):
            assert piece.image.height == 32 and piece.image.width % 16 == 0 and piece.image.width <= 384


def test_a_drawing_that_has_no_lines_still_gives_a_piece() -> None:
    image = Image.new("L", (200, 160), 255)
    ImageDraw.Draw(image).ellipse((20, 20, 140, 140), outline=0, width=3)
    assert len(split_crop(image, SPEC)) >= 1


def blank_pieces(*places: tuple[int, str]) -> list[Piece]:
    image = Image.new("L", (16, 32), 255)
    return [Piece(image, line, joiner) for line, joiner in places]


@pytest.mark.parametrize(
    ("texts", "places", "expected"),
    [
        (["rotary evap-", "orator to"], [(0, ""), (1, " ")], "rotary evaporator to"),
        (["Om Al-", "Haymann"], [(0, ""), (1, " ")], "Om Al-Haymann"),
        (["1998-", "2001"], [(0, ""), (1, " ")], "1998-2001"),
        (["a pre-", "and post-"], [(0, ""), (0, " ")], "a pre- and post-"),
        (["this -", "that"], [(0, ""), (1, " ")], "this - that"),
        (["one  two", " three "], [(0, ""), (0, " ")], "one two three"),
        (["incompre", "hensible"], [(0, ""), (0, "")], "incomprehensible"),
        (["one", "", "two"], [(0, ""), (1, "\n"), (1, " ")], "one\ntwo"),
        (["", "two"], [(0, ""), (1, "\n")], "two"),
        (["比较文学", "成为一个"], [(0, ""), (1, " ")], "比较文学成为一个"),
        ([], [], ""),
    ],
)
def test_texts_are_joined(texts: list[str], places: list[tuple[int, str]], expected: str) -> None:
    assert join_texts(texts, blank_pieces(*places)) == expected


def test_a_text_per_piece_is_required() -> None:
    with pytest.raises(InputError, match="one text per piece"):
        join_texts(["a"], [])


def test_components_match_a_flood_fill() -> None:
    rng = np.random.default_rng(2)
    mask = rng.random((40, 60)) < 0.42
    parts = components(mask)
    seen = np.full(mask.shape, -1)
    n_found = 0
    for start in zip(*np.nonzero(mask), strict=True):
        if seen[start] >= 0:
            continue
        queue = [start]
        seen[start] = n_found
        while queue:
            y, x = queue.pop()
            for v in range(max(y - 1, 0), min(y + 2, 40)):
                for u in range(max(x - 1, 0), min(x + 2, 60)):
                    if mask[v, u] and seen[v, u] < 0:
                        seen[v, u] = n_found
                        queue.append((v, u))
        box = (seen == n_found).nonzero()
        label = parts.labels[start]
        assert (parts.labels == label).sum() == parts.area[label] == len(box[0])
        assert (parts.top[label], parts.bottom[label]) == (box[0].min(), box[0].max() + 1)
        assert (parts.left[label], parts.right[label]) == (box[1].min(), box[1].max() + 1)
        n_found += 1
    assert len(parts) == n_found
