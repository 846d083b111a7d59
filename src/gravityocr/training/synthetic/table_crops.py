"""Render crops of tables with the exact place of every character: Chromium lays them out, PDFium draws them."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np
import pypdfium2 as pdfium
from PIL import Image, ImageFilter

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError
from gravityocr.model.table_pieces import TablePieceSpec
from gravityocr.training.synthetic.charset import restrict
from gravityocr.training.synthetic.chromium import PX_PER_INCH, Chromium
from gravityocr.training.synthetic.corpus import Corpus
from gravityocr.training.synthetic.fonts import FontFace, FontLibrary, Split, open_font
from gravityocr.training.synthetic.shards import RenderedSample
from gravityocr.training.synthetic.table_content import TableContent
from gravityocr.training.synthetic.table_harvest import read_pool
from gravityocr.training.synthetic.table_labels import TableCrop, label_pieces
from gravityocr.training.synthetic.table_model import Table
from gravityocr.training.synthetic.table_styles import (
    FONT_PX,
    MEASURE_SCRIPT,
    PAGE_PX,
    Look,
    Measured,
    choose_look,
    document_of,
)  # fmt: skip
from gravityocr.training.synthetic.table_values import chance

_POINTS_PER_PX = 72.0 / PX_PER_INCH
_METRICS_PX = 1000
_BATCH = 40
_FEWEST_CHARS = 4
_BLUR_OF_HEIGHT = 0.04


@dataclass(frozen=True)
class TableCropConfig:
    """Set the resolution of the crops and how they are cut.

    *Units*: `ink` holds ranges of the height from ascender to descender in crop px, `ink_shares` their shares;
    margins are crop px between the table's border and the crop's.
    """

    ink: tuple[tuple[float, float], ...] = ((6.5, 9.0), (10.0, 16.0), (17.0, 30.0))
    ink_shares: tuple[float, ...] = (0.4, 0.3, 0.3)
    most_pixels: int = 4_000_000
    wide_margin_px: float = 12.0
    cut_share: float = 0.08
    caption_share: float = 0.35
    whole_caption_share: float = 0.06
    reduced_share: float = 0.3
    light_share: float = 0.25
    degraded_share: float = 0.2
    most_skew_degrees: float = 0.7

    def __post_init__(self) -> None:
        share = (0.0, 1.0)
        check_numbers(
            self, "data.tables.", ink_shares=share, cut_share=share, caption_share=share, whole_caption_share=share,
            reduced_share=share, light_share=share, degraded_share=share, wide_margin_px=(0.0, 100.0),
            most_skew_degrees=(0.0, 5.0), most_pixels=(10_000, 100_000_000),
        )  # fmt: skip
        if len(self.ink) != len(self.ink_shares) or abs(sum(self.ink_shares) - 1.0) > 1e-6:
            raise ConfigError(f"data.tables.ink_shares {self.ink_shares} must give one share for each range, sum 1")
        if not all(3.0 <= low <= high <= 100.0 for low, high in self.ink):
            raise ConfigError(f"data.tables.ink {self.ink} must hold ascending ranges from 3 to 100 px")


@dataclass(frozen=True)
class _Window:
    """Hold what is cut out of a page, in CSS px, and how many crop px a CSS px has."""

    left: float
    top: float
    right: float
    bottom: float
    scale: float


class TableCropRenderer:
    """Render tables of one split of a prepared data directory; use it as a context manager, or call `close`."""

    def __init__(self, data_dir: Path, split: Split = "train", config: TableCropConfig | None = None) -> None:
        """Load fonts, corpus and harvested tables, and start Chromium.

        *Raises*: InputError when the data directory lacks fonts or corpus; ConfigError without Chromium.
        """
        self.config = config or TableCropConfig()
        self._fonts = FontLibrary(data_dir, split)
        self._content = TableContent(Corpus(data_dir, split), read_pool(data_dir, split))
        self._metrics: dict[str, tuple[float, float]] = {}
        self._chromium = Chromium()

    def __enter__(self) -> TableCropRenderer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End Chromium."""
        self._chromium.close()

    def batch(self, rng: np.random.Generator, n_tables: int) -> list[TableCrop]:
        """Render tables; those that do not fit their page are left out, so fewer may come back."""
        jobs: list[tuple[Table, Look, tuple[str, str]]] = []
        for _ in range(n_tables):
            table = self._content.table(rng)
            look = choose_look(rng, self._fonts, table)
            covered = look.faces["regular"].covered
            captions = [
                restrict(self._content.caption(rng), covered) if chance(rng, self.config.caption_share) else ""
                for _ in range(2)
            ]
            jobs.append((_restricted(table, covered), look, (captions[0], captions[1])))
        laid_out = self._chromium.lay_out(document_of(jobs), MEASURE_SCRIPT, PAGE_PX)
        crops = []
        document = pdfium.PdfDocument(laid_out.pdf)
        try:
            for number, ((table, look, _), measured) in enumerate(zip(jobs, laid_out.measured, strict=True)):
                seed = int(rng.integers(2**63))
                if _fits(measured["table"]):
                    crop = self._crop(np.random.default_rng(seed), document[number], table, look, measured)
                    crops += [crop] if len(crop.chars) >= _FEWEST_CHARS else []
        finally:
            document.close()
        return crops

    def _crop(
        self,
        rng: np.random.Generator,
        page: pdfium.PdfPage,
        table: Table,
        look: Look,
        measured: Measured,
    ) -> TableCrop:
        face = look.faces["regular"]
        window = self._window(rng, face, measured)
        image, scale, origin = _draw(page, window, 3 if chance(rng, self.config.reduced_share) else 1)
        if chance(rng, self.config.light_share):
            image = _lightened(image, float(rng.uniform(0.4, 0.8)))
        chars = self._chars(face, measured)
        boxes = (chars.boxes - np.tile(origin, 2)) * np.tile(scale, 2)
        centers = (chars.centers_px - origin) * scale
        crop = replace(chars, image=image, html=table.html(), boxes=boxes, centers_px=centers, source=table.source)
        crop = _inside(crop)
        return _degraded(crop, rng, self.config) if chance(rng, self.config.degraded_share) else crop

    def _window(self, rng: np.random.Generator, face: FontFace, measured: Measured) -> _Window:
        """Choose the scale by the height of the ink, and margins as a layout detector leaves them."""
        config = self.config
        low, high = config.ink[int(rng.choice(len(config.ink), p=config.ink_shares))]
        scale = float(rng.uniform(low, high)) / (sum(face.ink()) * FONT_PX)
        x, y, width, height = measured["table"]
        scale = min(scale, math.sqrt(config.most_pixels / ((width + 20) * (height + 20))))
        margins = []
        for _ in range(4):
            roll = rng.random()
            if roll < config.cut_share:
                margins.append(float(rng.uniform(-2.0, 0.0)))
            elif roll < 0.65:
                margins.append(float(rng.uniform(0.0, 3.0)))
            else:
                margins.append(float(rng.uniform(3.0, max(3.0, config.wide_margin_px))))
        left, top, right, bottom = (margin / scale for margin in margins)
        if chance(rng, config.whole_caption_share):
            top = max(top, 44.0)
        return _Window(max(x - left, 0.0), max(y - top, 0.0), x + width + right, y + height + bottom, scale)

    def _chars(self, face: FontFace, measured: Measured) -> TableCrop:
        """Gather the characters of a page, places in CSS px of the page; the image is still empty."""
        ascent, descent = self._line_metrics(face)
        text, boxes, cells, spaced, lines = "", [], [], [], []
        for key, chars, flat in measured["texts"]:
            space, line, before = False, 0, None
            for char, (x, y, w, h) in zip(chars, np.asarray(flat, dtype=np.float64).reshape(-1, 4), strict=True):
                if char.isspace():
                    space = True
                    continue
                if before is not None and x < before[0] and y + h / 2 > before[1] + 0.3 * h:
                    line += 1
                before = (x, y + h / 2)
                text += "μ" if char == "µ" else char
                boxes.append((x, y, x + w, y + h))
                cells.append(key)
                spaced.append(space)
                lines.append(line)
                space = False
        edges = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
        height = edges[:, 3] - edges[:, 1]
        up, down = face.ink()
        # The box holds the font's whole line; the ink's middle is the reader's place of a character.
        middle = edges[:, 1] + height * (ascent - (up - down) / 2) / (ascent + descent)
        centers = np.stack([(edges[:, 0] + edges[:, 2]) / 2, middle], axis=1)
        return TableCrop(
            np.zeros((0, 0), dtype=np.uint8), "", text, edges, centers, np.asarray(cells, dtype=np.int32),
            np.asarray(spaced, dtype=bool), np.asarray(lines, dtype=np.int32), "",
        )  # fmt: skip

    def _line_metrics(self, face: FontFace) -> tuple[float, float]:
        """Return the font's own ascent and descent in em."""
        if face.path not in self._metrics:
            ascent, descent = open_font(face.path, _METRICS_PX).getmetrics()
            self._metrics[face.path] = (ascent / _METRICS_PX, descent / _METRICS_PX)
        return self._metrics[face.path]


def table_samples(crop: TableCrop, spec: TablePieceSpec) -> list[RenderedSample]:
    """Cut a crop into the pieces that the network reads, each with its target."""
    return label_pieces(crop, spec)[0]


def make_table_samples(data_dir: Path, split: Split, seed: int, n_tables: int) -> Iterator[RenderedSample]:
    """Yield the labelled pieces of `n_tables` tables.

    *Raises*: InputError when the data directory lacks fonts or corpus; ConfigError without Chromium.
    """
    rng = np.random.default_rng(seed)
    spec = TablePieceSpec()
    with TableCropRenderer(data_dir, split) as renderer:
        for start in range(0, n_tables, _BATCH):
            for crop in renderer.batch(rng, min(_BATCH, n_tables - start)):
                yield from table_samples(crop, spec)


def _restricted(table: Table, covered: frozenset[str]) -> Table:
    cells = (
        replace(cell, runs=tuple(replace(run, text=restrict(run.text, covered | {"\n"})) for run in cell.runs))
        for cell in table.cells
    )
    return replace(table, cells=tuple(cells))


def _fits(rectangle: list[float]) -> bool:
    x, y, width, height = rectangle
    return width > 20 and height > 10 and x + width < PAGE_PX[0] - 20 and y + height < PAGE_PX[1] - 30


def _draw(page: pdfium.PdfPage, window: _Window, oversampling: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a window of a page; return image uint8 [H, W], crop px a CSS px (x, y), and its upper left in CSS px."""
    width, height = page.get_size()
    k = window.scale * oversampling / _POINTS_PER_PX
    cut = (
        window.left * _POINTS_PER_PX,
        max(height - window.bottom * _POINTS_PER_PX, 0.0),
        max(width - window.right * _POINTS_PER_PX, 0.0),
        window.top * _POINTS_PER_PX,
    )
    picture = page.render(scale=k, crop=cut, grayscale=True).to_pil().convert("L")
    # PDFium rounds the size of the page and the edges of the window up to whole pixels.
    scale = np.array([math.ceil(width * k) / width, math.ceil(height * k) / height]) * _POINTS_PER_PX
    origin = np.array([math.ceil(cut[0] * k), math.ceil(cut[3] * k)]) / scale
    if oversampling > 1:
        size = (max(1, picture.width // oversampling), max(1, picture.height // oversampling))
        whole = (0, 0, size[0] * oversampling, size[1] * oversampling)
        picture = picture.resize(size, Image.Resampling.LANCZOS, box=whole)
    return np.array(picture), scale / oversampling, origin


def _lightened(image: np.ndarray, power: float) -> np.ndarray:
    """Let thin strokes pale, as those of light faces do at low resolution."""
    return np.rint(255.0 * (image / 255.0) ** power).astype(np.uint8)


def _inside(crop: TableCrop) -> TableCrop:
    """Keep the characters whose centre lies in the crop."""
    height, width = crop.image.shape
    x, y = crop.centers_px.T
    return crop.select((x >= 0) & (y >= 0) & (x < width) & (y < height))


def _degraded(crop: TableCrop, rng: np.random.Generator, config: TableCropConfig) -> TableCrop:
    """Blur, skew and compress a little, so that the splitter's weaknesses show in the pieces."""
    picture = Image.fromarray(crop.image)
    if chance(rng, 0.5):
        degrees = float(rng.uniform(-config.most_skew_degrees, config.most_skew_degrees))
        picture = picture.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255)
        crop = crop.turned(degrees)
    if chance(rng, 0.6):
        tall = float(np.median(crop.boxes[:, 3] - crop.boxes[:, 1]))
        most = min(0.75, _BLUR_OF_HEIGHT * tall)
        picture = picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.2, max(0.25, most)))))
    if chance(rng, 0.6):
        buffer = io.BytesIO()
        picture.save(buffer, format="JPEG", quality=int(rng.integers(35, 92)))
        with Image.open(buffer) as decoded:
            picture = decoded.convert("L")
    return _inside(replace(crop, image=np.array(picture)))
