"""Single-line pieces of prose with inline formulas, set by TeX, exactly as the piece cutter would hand them on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.synthetic.corpus import Corpus
from gravityocr.training.synthetic.fonts import Split
from gravityocr.training.synthetic.formula_crops import Painted, token_centers
from gravityocr.training.synthetic.formula_source import FormulaSource
from gravityocr.training.synthetic.math_text_lines import LineWriter, PaintedLine, Word, paint_line, tex_of_word
from gravityocr.training.synthetic.shards import RenderedSample
from gravityocr.training.synthetic.tex_fonts import FONT_PACKAGES, TEXT_FONTS, TexFont, font_preamble, pick_font
from gravityocr.training.synthetic.tex_pages import ColoredPage, render_pages

BATCH = 24
TIMEOUT_S = 300.0
MAX_VAIN_BATCHES = 20
MAX_DRAWS = 2000
PLAIN_SHARE = 0.10
_TYPE_SAMPLE = "bdhklpqgy"


@dataclass(frozen=True)
class LinePieceSpec:
    """Say what the pieces look like; the same numbers as the cutter of real crops.

    *Units*: pixels. A cut within a formula needs a gap of `formula_gap_px`. `least_scale`: how far a line shrinks for
    tall formulas before they are clipped.
    """

    height_px: int = 32
    ink_px: float = 25.0
    max_width_px: int = 384
    width_step_px: int = 64
    margin_px: int = 5
    formula_gap_px: float = 4.0
    least_scale: float = 0.76


@dataclass(frozen=True)
class _Style:
    """A family, size and shape of type. *Units*: `up` and `down` in pixels at 200 dpi."""

    font: TexFont
    size_pt: int
    command: str
    up: float
    down: float
    advances: dict[str, float]


@dataclass(frozen=True)
class _Slot:
    """A token of a line with its ink from `left` to `right`, NaN without.

    `cut`: whether a piece may end before it: " " where the slot is a blank that goes, "$" within a formula.
    """

    token: str
    x: float
    y: float
    left: float
    right: float
    cut: str = ""


_DOLLAR = _Slot("$", np.nan, np.nan, np.nan, np.nan)
_NOWHERE = np.full(4, np.nan)
_INNER = frozenset("^_{}[]~")
_NEEDS_MORE = ("^", "_", "\\left", "\\sqrt", "\\xleft", "\\xright", "\\big", "\\Big")


def make_math_text_samples(data_dir: Path, split: Split, seed: int, n: int) -> Iterator[RenderedSample]:
    """Yield pieces of lines with formulas between words, and a tenth without.

    *Units*: 32 pixels high, at most 384 wide, a multiple of 64; type of 25 pixels from ascender to descender.
    *Raises*: InputError where the data is missing, ToolMissingError without pdflatex.
    """
    writer = LineWriter(Corpus(data_dir, split), FormulaSource(data_dir, split, max_tokens=25))
    rng = np.random.default_rng((seed, 0xF1))
    spec = LinePieceSpec()
    done = n_vain = 0
    while done < n:
        samples = list(_batch(writer, rng, spec))[: n - done]
        done += len(samples)
        n_vain = 0 if samples else n_vain + 1
        if n_vain == MAX_VAIN_BATCHES:
            raise ConfigError(f"TeX set none of {n_vain * BATCH} lines; apt-get install {' '.join(FONT_PACKAGES)}")
        yield from samples


def _batch(writer: LineWriter, rng: np.random.Generator, spec: LinePieceSpec) -> Iterator[RenderedSample]:
    font = pick_font(TEXT_FONTS, rng)
    size_pt = int(rng.choice([9, 10, 11, 12], p=[0.2, 0.4, 0.25, 0.15]))
    command = str(rng.choice(["", "\\itshape ", "\\bfseries "], p=[0.88, 0.08, 0.04]))
    style = _measure(font, size_pt, command)
    lines: list[PaintedLine] = []
    for _ in range(MAX_DRAWS):
        if len(lines) == BATCH:
            break
        n_chars = int(rng.integers(15, 110))
        units = writer.line(rng, font, n_chars, plain=rng.random() < PLAIN_SHARE)
        if units:
            lines.append(paint_line(units))
    if not lines:
        raise InputError(f"{writer.corpus.file} has no line that TeX can set; run scripts/prepare_data.py again")
    pages = render_pages(
        _preamble(font, size_pt),
        [_size(size_pt) + command + line.latex for line in lines],
        [line.n_marks for line in lines],
        timeout_s=TIMEOUT_S,
    )
    for line, page in zip(lines, pages, strict=True):
        if page is not None:
            yield from _pieces(line, page, style, spec, rng)


def _preamble(font: TexFont, size_pt: int) -> str:
    return font_preamble(font, max(size_pt, 10))


def _size(size_pt: int) -> str:
    return "\\small " if size_pt == 9 else ""


@lru_cache(maxsize=256)
def _measure(font: TexFont, size_pt: int, command: str) -> _Style:
    """Read the height of the type and the advance of each character from pages of their own."""
    chars = [chr(code) for code in range(0x21, 0x7F) if chr(code) not in "\\^~{}|`\"'"] + list("‘’“”–—é§°")
    bodies = [_size(size_pt) + command + tex_of_word(text) for text in (_TYPE_SAMPLE, *chars)]
    pages = render_pages(_preamble(font, size_pt), bodies, [0] * len(bodies), timeout_s=TIMEOUT_S)
    sample = pages[0]
    if sample is None:
        raise ConfigError(f"TeX sets no text in {font.name}; install its package: {', '.join(FONT_PACKAGES)}")
    advances = {char: page.advance for char, page in zip(chars, pages[1:], strict=True) if page is not None}
    up, down = sample.baseline, sample.image.shape[0] - sample.baseline
    return _Style(font, size_pt, command, up, down, advances)


def _slots(line: PaintedLine, page: ColoredPage, style: _Style) -> list[_Slot]:
    """Return the tokens of a line with their places. *Units*: pixels of the page."""
    middle = page.baseline - (style.up - style.down) / 2
    slots: list[_Slot] = []
    for at, (unit, mark, painted) in enumerate(zip(line.units, line.marks, line.painted, strict=True)):
        if at and not unit.glued:
            slots.append(_Slot(" ", np.nan, middle, np.nan, np.nan, cut=" "))
        if isinstance(unit, Word):
            slots += _word_slots(unit, page.boxes[mark], middle, style.advances)
        elif painted is not None:
            slots += [_DOLLAR, *_formula_slots(painted, page), _DOLLAR]
    return slots


def _word_slots(word: Word, box: np.ndarray, middle: float, advances: dict[str, float]) -> list[_Slot]:
    """Share the box of a word among its characters by their advances, which kerning and ligatures change little."""
    left, _, right, _ = (float(v) for v in box)
    widths = np.array([advances.get(char, advances["n"]) for char in word.text])
    ends = left + np.cumsum(widths) * ((right - left) / widths.sum())
    edges = [left, *ends.tolist()]
    places = zip(word.text, edges[:-1], edges[1:], strict=True)
    return [_Slot(char, (start + end) / 2, middle, start, end) for char, start, end in places]


def _formula_slots(painted: Painted, page: ColoredPage) -> list[_Slot]:
    slots: list[_Slot] = []
    centers = token_centers(painted, page.boxes)
    depth, before = 0, ""
    for written, mark, (x, y) in zip(painted.tokens, painted.marks, centers, strict=True):
        token = written.token
        left, _, right, _ = page.boxes[mark] if mark >= 0 else _NOWHERE
        begins = depth == 0 and before != "" and written.role != "body" and token not in _INNER
        cut = "$" if begins and not before.startswith(_NEEDS_MORE) else ""
        slots.append(_Slot(token, float(x), float(y), float(left), float(right), cut))
        depth += token in ("{", "[") or (token.startswith("\\left") and not token[5:6].isalpha())
        depth -= token in ("}", "]") or (token.startswith("\\right") and not token[6:7].isalpha())
        before = token
    return slots


def _pieces(
    line: PaintedLine, page: ColoredPage, style: _Style, spec: LinePieceSpec, rng: np.random.Generator
) -> Iterator[RenderedSample]:
    if not np.isfinite(page.boxes[:, 0]).all():  # a mark that another one covers has no place
        return
    strip = _strip(page, style, spec, rng)
    if strip is None:
        return
    pixels, scale, base = strip
    slots = _slots(line, page, style)
    top = page.baseline - base / scale
    for first, end in _cut(slots, scale, spec, rng):
        sample = _piece(slots[first:end], pixels, scale, top, spec, f"corpus, wikipedia formulas {style.font.name}")
        if sample is not None:
            yield sample


def _strip(
    page: ColoredPage, style: _Style, spec: LinePieceSpec, rng: np.random.Generator
) -> tuple[np.ndarray, float, float] | None:
    """Return the line at the scale of pieces, that scale, and the row of its baseline; None where it is too tall."""
    up, down = page.baseline, page.image.shape[0] - page.baseline
    size = style.up + style.down
    scale = spec.ink_px * float(rng.normal(1.0, 0.015)) / size
    room = spec.height_px - 1.0
    if (up + down) * scale > room:
        scale *= max(spec.least_scale, room / ((up + down) * scale))
    if (up + down) * scale > spec.height_px + 0.5:
        return None
    base = (spec.height_px - size * scale) / 2 + style.up * scale + float(rng.normal(0, 0.3))
    if (up + down) * scale <= room:
        base = min(max(base, 0.5 + up * scale), spec.height_px - 0.5 - down * scale)
    pad = int(np.ceil(spec.height_px / scale)) + 2
    padded = np.pad(page.image, ((pad, pad), (0, 0)), constant_values=255)
    y0 = page.baseline + pad - base / scale
    width = max(1, round(page.image.shape[1] * scale))
    box = (0.0, y0, float(page.image.shape[1]), y0 + spec.height_px / scale)
    resized = Image.fromarray(padded).resize((width, spec.height_px), Image.Resampling.LANCZOS, box=box)
    return np.asarray(resized), scale, base


def _cut(slots: list[_Slot], scale: float, spec: LinePieceSpec, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield the first slot and the end of each piece: at blanks, and at wide gaps of formulas."""
    limit = spec.max_width_px - 2 * spec.margin_px
    reach = np.maximum.accumulate([-np.inf if np.isnan(slot.right) else slot.right for slot in slots])
    marks: list[int] = []
    for i in range(1, len(slots)):
        after = next((slot.left for slot in slots[i:] if not np.isnan(slot.left)), np.inf)
        gap = (after - reach[i - 1]) * scale
        if slots[i].cut == " " or (slots[i].cut == "$" and gap >= spec.formula_gap_px):
            marks.append(i)
    marks.append(len(slots))
    start = 0
    while start < len(slots):
        left = next((slot.left for slot in slots[start:] if not np.isnan(slot.left)), np.inf)
        target = float(rng.uniform(0.6, 1.0) if rng.random() < 0.85 else rng.uniform(0.15, 0.6)) * limit
        fitting = [i for i in marks if i > start and (reach[i - 1] - left) * scale <= limit - 1]
        wanted = [i for i in fitting if (reach[i - 1] - left) * scale <= target]
        if fitting:
            end = wanted[-1] if wanted else fitting[0]
            yield start, end
        else:
            end = next(i for i in marks if i > start)
        start = end + 1 if end < len(slots) and slots[end].cut == " " else end


def _piece(
    slots: list[_Slot], pixels: np.ndarray, scale: float, top: float, spec: LinePieceSpec, source: str
) -> RenderedSample | None:
    """Return the crop of some neighbouring tokens; a formula that is cut gets its own dollars."""
    tokens = [slot.token for slot in slots]
    opens = slots[0].cut == "$"
    n_dollars = tokens.count("$") + opens
    closes = n_dollars % 2 == 1
    left = min(slot.left for slot in slots if not np.isnan(slot.left)) * scale
    right = max(slot.right for slot in slots if not np.isnan(slot.right)) * scale
    start, end = max(0, int(np.floor(left)) - 1), min(pixels.shape[1], int(np.ceil(right)) + 1)
    if end - start > spec.max_width_px - 2 * spec.margin_px or end <= start:
        return None
    width = -(-(end - start + 2 * spec.margin_px) // spec.width_step_px) * spec.width_step_px
    image = np.full((spec.height_px, width), 255, dtype=np.uint8)
    image[:, spec.margin_px : spec.margin_px + end - start] = pixels[:, start:end]
    x = np.array([slot.x for slot in slots]) * scale - start + spec.margin_px
    y = (np.array([slot.y for slot in slots]) - top) * scale
    for i, slot in enumerate(slots):
        if slot.token == " " and 0 < i < len(slots) - 1:
            before = next((s.right for s in reversed(slots[:i]) if not np.isnan(s.right)), np.nan)
            after = next((s.left for s in slots[i:] if not np.isnan(s.left)), np.nan)
            x[i] = (before + after) / 2 * scale - start + spec.margin_px
    centers = np.stack([x, np.clip(y, 0, spec.height_px - 0.01)], axis=1).astype(np.float32)
    blank = np.full((1, 2), np.nan, dtype=np.float32)
    tokens = ["$"] * opens + tokens + ["$"] * closes
    centers = np.concatenate([blank] * opens + [centers] + [blank] * closes)
    return RenderedSample("text", image, tuple(tokens), centers, source)
