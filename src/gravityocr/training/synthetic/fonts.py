"""Font faces for the synthetic crops: the prepared table, weighted choice, cached instances."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import ImageFont, features

from gravityocr.errors import InputError
from gravityocr.training.synthetic.charset import ASCII

Split = Literal["train", "heldout"]

HELD_OUT_FAMILIES = (
    "Carlito",
    "Caladea",
    "Cantarell",
    "P052",
    "TeX Gyre Pagella",
    "Linux Biolinum",
    "Inconsolata",
)
PLAIN_FAMILIES = (
    "Liberation Serif",
    "Liberation Sans",
    "Latin Modern Roman",
    "CMU Serif",
    "TeX Gyre Termes",
    "Nimbus Roman",
    "Nimbus Sans",
    "DejaVu Serif",
    "DejaVu Sans",
    "Linux Libertine",
    "STIX",
    "TeX Gyre Heros",
)
_STYLE_WEIGHTS = {"regular": 1.0, "italic": 0.35, "bold": 0.35, "bolditalic": 0.12, "other": 0.15}
_MEASURE_PX = 128
_INK_PROBE = "dpqkgl"
_CACHED_INSTANCES = 256
_EASY_FAMILIES = 10
HAS_RAQM: bool = bool(features.check("raqm"))


def is_held_out(family: str) -> bool:
    """Tell whether a family is reserved for evaluation."""
    name = family.casefold()
    return any(name.startswith(held.casefold()) for held in HELD_OUT_FAMILIES)


def open_font(path: str, size: float) -> ImageFont.FreeTypeFont:
    """Return a font file at a pixel size.

    *Raises*: InputError where it is no font.
    """
    try:
        return ImageFont.truetype(path, size)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no font ({error}); run scripts/prepare_data.py again") from error


@dataclass
class FontFace:
    """Describe one face and measure it on first use.

    Units: `ink_up` and `ink_down` are the ascender and descender ink of "dpqkgl" in em; advances are in em.
    """

    path: str
    family: str
    style: str = "regular"
    kind: str = "serif"
    weight: float = 1.0
    covered: frozenset[str] = frozenset(ASCII)
    micro_for_mu: bool = False
    _metrics: tuple[float, float] | None = field(default=None, repr=False)
    _advances: dict[str, float] = field(default_factory=dict, repr=False)
    _large: ImageFont.FreeTypeFont | None = field(default=None, repr=False)

    def _measuring_font(self) -> ImageFont.FreeTypeFont:
        if self._large is None:
            self._large = open_font(self.path, _MEASURE_PX)
        return self._large

    def ink(self) -> tuple[float, float]:
        """Return (ink_up, ink_down) in em."""
        if self._metrics is None:
            _, top, _, bottom = self._measuring_font().getbbox(_INK_PROBE, anchor="ls")
            self._metrics = (max(-top, 1.0) / _MEASURE_PX, max(bottom, 0.0) / _MEASURE_PX)
        return self._metrics

    def advance(self, char: str) -> float:
        """Return the advance width of one character in em."""
        known = self._advances.get(char)
        if known is None:
            drawn = "µ" if char == "μ" and self.micro_for_mu else char
            known = self._measuring_font().getlength(drawn) / _MEASURE_PX
            self._advances[char] = known
        return known

    def layout_features(self, ligatures: bool) -> list[str] | None:
        """Return the OpenType features to pass to Pillow (None without Raqm)."""
        if not HAS_RAQM:
            return None
        if self.kind == "mono":
            return ["-liga", "-calt", "-clig"]  # code fonts turn "->" and "!=" into one symbol
        return None if ligatures else ["-liga", "-clig"]


class FontLibrary:
    """Choose faces of one split of a prepared data directory."""

    def __init__(self, data_dir: Path, split: Split) -> None:
        """Read `fonts.json`.

        Raises: InputError when the table is missing or has no face of the split.
        """
        table = data_dir / "fonts.json"
        if not table.is_file():
            raise InputError(f"no font table at {table}: run scripts/prepare_data.py --out {data_dir}")
        self.faces = [face for row_split, face in _read_table(table) if row_split == split]
        if not self.faces:
            raise InputError(f"{table} has no font of split {split!r}: prepare the data with more font packages")
        names = sorted({face.family for face in self.faces})
        easy = [name for name in PLAIN_FAMILIES if name in names][:_EASY_FAMILIES]
        easy = easy or names[:_EASY_FAMILIES]
        self._easy = [face for face in self.faces if face.family in easy and face.style == "regular"] or self.faces
        self._all_cdf = _cdf(self.faces)
        self._easy_cdf = _cdf(self._easy)
        self._instances: OrderedDict[tuple[str, float], ImageFont.FreeTypeFont] = OrderedDict()

    def pick(self, rng: np.random.Generator, difficulty: float) -> FontFace:
        """Choose a face: one of the plain regular ones, or of all with probability `difficulty`."""
        if rng.random() < difficulty:
            return self.faces[int(np.searchsorted(self._all_cdf, rng.random(), side="right"))]
        return self._easy[int(np.searchsorted(self._easy_cdf, rng.random(), side="right"))]

    def instance(self, face: FontFace, size: float) -> ImageFont.FreeTypeFont:
        """Return the face at a pixel size, from a least-recently-used cache."""
        key = (face.path, size)
        font = self._instances.get(key)
        if font is None:
            font = open_font(face.path, size)
            self._instances[key] = font
            if len(self._instances) > _CACHED_INSTANCES:
                self._instances.popitem(last=False)
        else:
            self._instances.move_to_end(key)
        return font


def _read_table(table: Path) -> list[tuple[str, FontFace]]:
    """Return (split, face) of every row.

    Raises: InputError for a table that is broken, naming the row.
    """
    remedy = "run scripts/prepare_data.py again"
    try:
        rows = json.loads(table.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{table}, line {error.lineno}: is not valid JSON ({error.msg}); {remedy}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{table} cannot be read ({error}); {remedy}") from error
    if not isinstance(rows, list):
        raise InputError(f"{table} must hold a list of fonts; {remedy}")
    faces = []
    for number, row in enumerate(rows, 1):
        try:
            faces.append((row["split"], _face_from_row(table.parent, row)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{table}, font {number}: {type(error).__name__} {error}; {remedy}") from error
    return faces


def _face_from_row(data_dir: Path, row: dict[str, str]) -> FontFace:
    names = [row["path"], row["family"], row["split"], row.get("style", "regular"), row.get("kind", "serif")]
    chars, weight = row.get("chars", ""), float(row.get("weight", 1.0))
    if not all(isinstance(name, str) for name in (*names, chars)):
        raise ValueError("path, family, split, style, kind and chars must be strings")
    if not 0.0 < weight < 1e9:
        raise ValueError(f"the weight {weight} must be a positive number")
    path = data_dir / row["path"]
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    covered = frozenset(ASCII) | frozenset(chars)
    micro_for_mu = "µ" in covered and "μ" not in covered
    return FontFace(
        path=str(path),
        family=row["family"],
        style=row.get("style", "regular"),
        kind=row.get("kind", "serif"),
        weight=weight,
        covered=covered | {"μ"} if micro_for_mu else covered,
        micro_for_mu=micro_for_mu,
    )


def _cdf(faces: Sequence[FontFace]) -> np.ndarray:
    """Share each family's weight among its faces by style."""
    totals: dict[str, float] = {}
    for face in faces:
        totals[face.family] = totals.get(face.family, 0.0) + _STYLE_WEIGHTS.get(face.style, 0.15)
    shares = [f.weight * _STYLE_WEIGHTS.get(f.style, 0.15) / max(totals[f.family], 0.6) for f in faces]
    cdf = np.cumsum(np.asarray(shares, dtype=np.float64))
    cdf /= cdf[-1]
    cdf[-1] = 1.0 + 1e-9
    return cdf
