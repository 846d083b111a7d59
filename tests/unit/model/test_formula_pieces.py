"""Formula pieces: size, cuts, and LaTeX that is joined to something that can be set."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from gravityocr.errors import ConfigError, InputError
from gravityocr.model.formula_pieces import (
    FormulaPiece,
    FormulaPieceSpec,
    join_formula,
    split_formula,
)

SPEC = FormulaPieceSpec()


def drawn(rows: list[str], size: int, pitch: float = 2.0, pad: int = 9) -> Image.Image:
    font = ImageFont.load_default(size)
    width = max(round(font.getlength(row)) for row in rows) + 2 * pad
    image = Image.new("L", (width, round(size * pitch * len(rows)) + 2 * pad), 255)
    draw = ImageDraw.Draw(image)
    for number, row in enumerate(rows):
        draw.text((pad, pad + number * size * pitch), row, fill=0, font=font)
    return image


def ink_box(image: Image.Image) -> tuple[int, int, int, int]:
    box = image.point(lambda value: 255 if value < 160 else 0).getbbox()
    assert box is not None
    return box


@pytest.mark.parametrize("size", [11, 20, 33, 61])
def test_type_of_any_size_comes_to_one_size(size: int) -> None:
    (piece,) = split_formula(drawn(["A + bd = 2H"], size), SPEC)
    left, top, right, bottom = ink_box(piece.image)
    assert 17 <= bottom - top <= 29
    assert 3 <= left <= 9 and abs((top + bottom) / 2 - piece.image.height / 2) <= 2
    assert piece.image.width % SPEC.width_step_px == 0 and piece.image.height % SPEC.height_step_px == 0
    assert right <= piece.image.width - 3


def test_inverted_formulas_read_alike() -> None:
    image = drawn(["A + bd = 2H"], 24)
    (plain,), (turned,) = split_formula(image, SPEC), split_formula(image.point(lambda value: 255 - value), SPEC)
    difference = np.asarray(plain.image, dtype=float) - np.asarray(turned.image, dtype=float)
    assert plain.image.size == turned.image.size and np.abs(difference).mean() < 3


def test_lines_of_a_display_are_pieces_of_their_own() -> None:
    pieces = split_formula(drawn(["a = Bd + 2", "Hd = 27 + b", "d = b"], 26, pitch=1.9), SPEC)
    assert [piece.line for piece in pieces] == [0, 1, 2]


def test_a_fraction_stays_whole() -> None:
    image = drawn(["A + b", "2H"], 26, pitch=1.5)
    ImageDraw.Draw(image).line([(4, 41), (image.width - 4, 41)], fill=0, width=2)
    assert len(split_formula(image, SPEC)) == 1


def test_a_formula_that_is_too_wide_is_cut_at_blanks() -> None:
    image = drawn(["  =  ".join(["Abd2H"] * 16)], 26)
    pieces = split_formula(image, SPEC)
    assert len(pieces) >= 2 and all(piece.image.width <= SPEC.max_width_px for piece in pieces)
    widths = [ink_box(piece.image)[2] - ink_box(piece.image)[0] for piece in pieces]
    assert min(widths) > 0.4 * max(widths)
    scale = 25 / 26
    assert sum(widths) > 0.7 * scale * (image.width - 18) * 0.8


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (40, 20), (300, 2)])
@pytest.mark.parametrize("grey", [0, 128, 255])
def test_blank_crops_have_no_pieces(size: tuple[int, int], grey: int) -> None:
    assert split_formula(Image.new("L", size, grey), SPEC) == []


def test_noise_never_breaks_it() -> None:
    rng = np.random.default_rng(5)
    for shape in ((3, 400), (400, 3), (64, 64), (200, 700)):
        for low in (0, 128, 250):
            noise = Image.fromarray(rng.integers(low, 256, shape).astype(np.uint8))
            for piece in split_formula(noise, SPEC):
                assert piece.image.width <= SPEC.max_width_px and piece.image.height <= SPEC.max_height_px


def pieces_of(lines: list[int]) -> list[FormulaPiece]:
    return [FormulaPiece(Image.new("L", (64, 32), 255), line) for line in lines]


@pytest.mark.parametrize(
    ("texts", "lines", "joined"),
    [
        (["a+b"], [0], "a+b"),
        (["a=", "b"], [0, 0], "a= b"),
        (["a=b", "c"], [0, 1], r"\begin{array}{l}a=b \\ c\end{array}"),
        (["a", " ", "b"], [0, 1, 2], r"\begin{array}{l}a \\ b\end{array}"),
        ([r"\frac {a}{b", "c}"], [0, 0], r"\frac{a}{b} c"),
        ([r"\left(a", r"b\right)"], [0, 0], r"\left(a b\right)"),
        ([r"\left(a", "b"], [0, 0], "(a b"),
        ([r"a\right.b"], [0], "ab"),
        ([r"{\left(a}b\right)"], [0], "{(a}b)"),
        ([r"\left(a\right)\leftarrow b"], [0], r"\left(a\right)\leftarrow b"),
        ([r"\{a\}"], [0], r"\{a\}"),
        ([r"\begin{array}{c}a&b", "c"], [0, 1], r"\begin{array}{l}\begin{array}{c}a&b\end{array} \\ c\end{array}"),
        ([r"{\begin{array}a}b\end{array}&c\&d"], [0], r"{\begin{array}{l}a\end{array}}b c\&d"),
        ([r"\left(\begin{array}{c}a\right)"], [0], r"(\begin{array}{c}a)\end{array}"),
        ([r"\begin{array}{cc}\left(a&b\right)\end{array}"], [0], r"\begin{array}{cc}(a&b)\end{array}"),
        ([r"5%\%#$x"], [0], r"5\%\%\#\$x"),
        (["a\\", "b\\ }", "c\\\\"], [0, 1, 2], r"\begin{array}{l}a \\ b \\ c\\\end{array}"),
        ([], [], ""),
    ],
)
def test_what_is_joined_can_be_set(texts: list[str], lines: list[int], joined: str) -> None:
    assert join_formula(texts, pieces_of(lines)) == joined


def test_one_text_a_piece() -> None:
    with pytest.raises(InputError, match="2 texts for 1 pieces"):
        join_formula(["a", "b"], pieces_of([0]))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"ink_px": 0}, "ink_px"),
        ({"width_step_px": 40}, "multiples of cell_px"),
        ({"max_width_px": 650}, "multiples of the steps"),
        ({"max_width_px": 16, "width_step_px": 16}, "above"),
    ],
)
def test_sizes_that_do_not_fit_together(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        FormulaPieceSpec(**sizes)
