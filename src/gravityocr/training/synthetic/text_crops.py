"""Render text crops whose truth and character positions are known exactly."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError
from gravityocr.training.synthetic.charset import restrict
from gravityocr.training.synthetic.content import ContentSource
from gravityocr.training.synthetic.corpus import Corpus
from gravityocr.training.synthetic.degrade import degrade
from gravityocr.training.synthetic.fonts import FontFace, FontLibrary, Split
from gravityocr.training.synthetic.lines import Placed, Typesetter, break_lines, choose_style

CELL = 16


@dataclass(frozen=True)
class CropConfig:
    """Set the geometry and the shares of the synthetic crops.

    Units: pixels; `ink` is the (least, usual, largest) height of a line from ascender to descender.
    """

    line_height: int = 32
    widths: tuple[int, ...] = (128, 256, 384)
    width_shares: tuple[float, ...] = (0.25, 0.35, 0.40)
    small_widths: tuple[int, int] = (48, 128)
    multi_line_widths: tuple[int, ...] = (256, 384)
    ink: tuple[float, float, float] = (21.0, 25.0, 29.0)
    margin: tuple[float, float] = (2.0, 14.0)
    multi_line_share: float = 0.15
    short_share: float = 0.15
    small_share: float = 0.08
    upscaled_share: float = 0.45
    downscaled_share: float = 0.30
    rotated_share: float = 0.25
    sliver_share: float = 0.30
    rule_share: float = 0.05
    underline_share: float = 0.02

    def __post_init__(self) -> None:
        share = (0.0, 1.0)
        check_numbers(
            self, "data.crops.", width_shares=share, multi_line_share=share, short_share=share, small_share=share,
            upscaled_share=share, downscaled_share=share, rotated_share=share, sliver_share=share, rule_share=share,
            underline_share=share, ink=(4.0, 8192.0), margin=(0.0, 8192.0),
        )  # fmt: skip
        sizes = (self.line_height, *self.widths, *self.small_widths, *self.multi_line_widths)
        if any(size <= 0 or size % CELL for size in sizes):
            raise ConfigError(f"crop sizes {sizes} must be positive multiples of {CELL}")
        if len(self.width_shares) != len(self.widths) or abs(sum(self.width_shares) - 1.0) > 1e-6:
            raise ConfigError(f"width_shares {self.width_shares} must give one share for each of {self.widths}, sum 1")
        if not 4 <= self.ink[0] <= self.ink[1] <= self.ink[2] <= self.line_height - 2:
            raise ConfigError(f"ink heights {self.ink} must ascend and fit a line of {self.line_height} px")


@dataclass(frozen=True)
class TextSample:
    """Hold one crop.

    Shapes: image uint8 [H, W]; centers_px float32 [len(text), 2].
    Units: centers_px = (x, y) of the centre of each character's advance box; a newline has its line's end.
    """

    image: np.ndarray
    text: str
    centers_px: np.ndarray


class TextCropRenderer:
    """Render crops of one split of a prepared data directory; a sample depends on its generator only."""

    def __init__(self, data_dir: Path, split: Split = "train", config: CropConfig | None = None) -> None:
        """Load fonts and corpus.

        Raises: InputError when the data directory lacks either.
        """
        self.config = config or CropConfig()
        self.fonts = FontLibrary(Path(data_dir), split)
        self.content = ContentSource(Corpus(Path(data_dir), split))
        self._typesetter = Typesetter(self.fonts)

    def sample(self, rng: np.random.Generator, difficulty: float) -> TextSample:
        """Render one crop; difficulty 0 is clean single lines in a few plain fonts, 1 everything.

        Raises: ConfigError when the difficulty is outside [0, 1].
        """
        if not 0.0 <= difficulty <= 1.0:
            raise ConfigError(f"difficulty {difficulty} must lie in [0, 1]")
        face = self.fonts.pick(rng, difficulty)
        lines = 1
        if difficulty > 0.5 and rng.random() < self.config.multi_line_share:
            lines = int(rng.integers(2, 4))
        width = self._width(rng, lines)
        for _ in range(8):
            placed = self._place(rng, face, width, lines, difficulty)
            if placed is not None:
                return self._render(rng, placed, width, difficulty)
            face = self.fonts.pick(rng, difficulty)
        raise ConfigError(f"no font fits a crop of {width} px: enlarge the widths or lower the ink height")

    def _width(self, rng: np.random.Generator, lines: int) -> int:
        config = self.config
        if lines > 1:
            return int(config.multi_line_widths[int(rng.integers(len(config.multi_line_widths)))])
        if rng.random() < config.small_share:
            low, high = config.small_widths
            return CELL * int(rng.integers(low // CELL, high // CELL + 1))
        return int(rng.choice(config.widths, p=config.width_shares))

    def _place(
        self, rng: np.random.Generator, face: FontFace, width: int, lines: int, difficulty: float
    ) -> Placed | None:
        """Choose size, margins and words, and set them in final pixels; None when nothing fits."""
        config = self.config
        ink = float(rng.triangular(*config.ink)) if config.ink[0] < config.ink[2] else config.ink[1]
        up, down = face.ink()
        size = round(2 * ink / (up + down)) / 2
        left, right = (float(v) for v in rng.uniform(*config.margin, size=2))
        room = width - left - right
        style = choose_style(rng, face, difficulty)
        chars = int(lines * room / (0.40 * size)) + 8
        text = restrict(self.content.text(rng, chars, difficulty), face.covered)
        words = [word for word in text.split(" ") if word]
        limit = None
        if lines == 1 and rng.random() < config.short_share:
            limit = int(rng.integers(1, 5))
        rows = break_lines(words, face, size, style, room, lines, limit)
        if not rows:
            return None
        return self._typesetter.place(rng, face, size, style, rows, left, room, config.line_height)

    def _render(self, rng: np.random.Generator, placed: Placed, width: int, difficulty: float) -> TextSample:
        """Draw at a native scale, bring to the final size, degrade."""
        config = self.config
        height = config.line_height * len(placed.rows)
        # Half-pixel sizes make the font cache hit.
        scale = max(round(self._native_scale(rng, difficulty) * placed.size * 2) / 2, 5.0) / placed.size
        canvas = Image.new("L", (int(np.ceil(width * scale)), int(np.ceil(height * scale))), 0)
        draw = ImageDraw.Draw(canvas)
        slivers = difficulty > 0.3 and len(placed.rows) == 1 and rng.random() < config.sliver_share
        centers = self._typesetter.draw(rng, draw, placed, scale)
        if slivers:
            extra = restrict(self.content.text(rng, 2 * width // 8, difficulty), placed.face.covered)
            self._typesetter.draw_neighbours(rng, draw, placed, scale, (width, height), extra)
        if rng.random() < config.rule_share * difficulty:
            _draw_rule(rng, draw, (width, height), scale)
        if rng.random() < config.underline_share * difficulty:
            self._typesetter.underline(draw, placed, scale)
        if rng.random() < config.rotated_share * difficulty:
            canvas, centers = _rotate(rng, canvas, centers, placed, scale, height)
        if canvas.size != (width, height) or scale != 1.0:
            filters = (
                Image.Resampling.BICUBIC,
                Image.Resampling.BICUBIC,
                Image.Resampling.LANCZOS,
                Image.Resampling.BILINEAR,
            )
            resample = filters[int(rng.integers(len(filters)))]
            canvas = canvas.resize((width, height), resample, box=(0.0, 0.0, width * scale, height * scale))
        np.clip(centers[:, 0], 0.0, width - 0.01, out=centers[:, 0])
        np.clip(centers[:, 1], 0.0, height - 0.01, out=centers[:, 1])
        return TextSample(degrade(canvas, rng, difficulty), placed.text, centers)

    def _native_scale(self, rng: np.random.Generator, difficulty: float) -> float:
        """Return drawn pixels per final pixel: below 1 for low resolution, above 1 for reduced scans."""
        roll = rng.random()
        if roll < self.config.upscaled_share * difficulty:
            return 1.0 / float(rng.uniform(1.0, 2.2))
        if roll < (self.config.upscaled_share + self.config.downscaled_share) * max(difficulty, 0.3):
            return float(rng.uniform(1.2, 2.2))
        return 1.0


def _draw_rule(rng: np.random.Generator, draw: ImageDraw.ImageDraw, size: tuple[int, int], scale: float) -> None:
    """Draw a ruled line along one border."""
    width, height = size
    ink = int(rng.integers(120, 256))
    offset = float(rng.uniform(0.0, 1.5))
    thick = max(1, round(float(rng.uniform(0.6, 2.0)) * scale))
    side = int(rng.integers(4))
    if side < 2:
        y = (offset if side == 0 else height - 1 - offset) * scale
        draw.line([(0, y), (width * scale, y)], fill=ink, width=thick)
    else:
        x = (offset if side == 2 else width - 1 - offset) * scale
        draw.line([(x, 0), (x, height * scale)], fill=ink, width=thick)


def _rotate(
    rng: np.random.Generator,
    canvas: Image.Image,
    centers: np.ndarray,
    placed: Placed,
    scale: float,
    height: int,
) -> tuple[Image.Image, np.ndarray]:
    """Turn by up to 1 degree, less where the text would leave the crop."""
    slack = max(0.5, min(placed.top, height - placed.bottom)) + 0.5
    reach = max(float(np.ptp(centers[:, 0])) / 2, 1.0)
    limit = min(1.0, float(np.degrees(np.arctan(slack / reach))))
    degrees = float(rng.uniform(-limit, limit))
    turned = canvas.rotate(degrees, Image.Resampling.BICUBIC)
    middle = np.array([canvas.width / 2 / scale, canvas.height / 2 / scale], dtype=np.float32)
    sine, cosine = float(np.sin(np.radians(degrees))), float(np.cos(np.radians(degrees)))
    matrix = np.array([[cosine, -sine], [sine, cosine]], dtype=np.float32)
    return turned, (centers - middle) @ matrix + middle
