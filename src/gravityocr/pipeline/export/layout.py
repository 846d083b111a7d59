"""Pictures of the pages with their regions drawn in: outline, label and place in reading order."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from gravityocr.document import Label, Page, Region
from gravityocr.errors import InputError
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.export.files import make_folder, refuse_link, remove_file, write_image

_FOLDER = "layout"
_NAME = re.compile(r"page\d+\.jpg")
_LEAST_SIDE_PX = 1000  # a smaller page is enlarged: its labels could not be read
_TEXT_SHARE = 1 / 105  # of the longer side
_FAILED = (224, 49, 49)
COLOURS: dict[Label, tuple[int, int, int]] = {
    "doc_title": (166, 30, 77),
    "title": (194, 37, 92),
    "text": (11, 87, 208),
    "list": (25, 113, 194),
    "reference": (132, 106, 0),
    "caption": (12, 133, 153),
    "footnote": (9, 96, 109),
    "aside": (64, 192, 87),
    "code": (92, 72, 18),
    "table": (43, 138, 62),
    "formula": (112, 72, 232),
    "formula_number": (156, 54, 181),
    "figure": (217, 72, 15),
    "header": (87, 96, 106),
    "footer": (87, 96, 106),
    "page_number": (52, 58, 64),
    "logo": (201, 106, 28),
}
"""The colour of each label's outlines."""


def write_layout(export: Export) -> list[Path]:
    """Write `layout/pageNNNN.jpg` for each page, an earlier run's others being removed.

    A page without a picture (it could not be rendered) is drawn as an empty sheet with its error.

    *Raises*: InputError where one cannot be written.
    """
    folder = export.folder / _FOLDER
    refuse_link(folder)
    make_folder(folder)
    paths: list[Path] = []
    for page in export.document.pages:
        path = folder / f"page{page.index + 1:04d}.jpg"
        drawn = draw_layout(_sheet(page, export.page_images.get(page.index)), page)
        write_image(path, drawn, "JPEG", quality=85)
        paths.append(path)
    for old in layout_files(export.folder):
        if old not in paths:
            remove_file(old)
    return paths


def layout_files(document_folder: Path) -> list[Path]:
    """Return the pictures that are in a document's `layout/`, which may be missing."""
    folder = document_folder / _FOLDER
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name)]


def _sheet(page: Page, picture: Path | None) -> Image.Image:
    if picture is None:
        width, height = page.size_px
        scale = _LEAST_SIDE_PX / max(width, height, 1)
        return Image.new("RGB", (max(1, round(width * scale)), max(1, round(height * scale))), "white")
    try:
        with Image.open(picture) as image:
            return image.convert("RGB")
    except (OSError, ValueError) as error:
        raise InputError(f"{picture}: is no picture any more ({error}); parse the file again") from error


def draw_layout(image: Image.Image, page: Page) -> Image.Image:
    """Return a page's picture, of whatever size, with the page's regions drawn in.

    Lines and letters grow with the picture; a small picture is enlarged, so that they can be read.
    """
    if not all(page.size_px):
        image = Image.new("RGB", (700, _LEAST_SIDE_PX), "white")
    scale = max(1.0, _LEAST_SIDE_PX / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    drawn = image.resize(size, Image.Resampling.BICUBIC) if scale > 1 else image.copy()
    letters = max(11, round(max(size) * _TEXT_SHARE))
    font = ImageFont.load_default(letters)
    pen = ImageDraw.Draw(drawn, "RGBA")
    factors = (size[0] / max(page.size_px[0], 1), size[1] / max(page.size_px[1], 1))
    for region in page.regions:
        _draw_outline(pen, region, factors, max(2, letters // 6))
    for region in page.regions:  # names last: no outline hides them
        _draw_name(pen, region, factors, font, size)
    if page.error:
        _draw_text(pen, (0, size[1]), page.error, font, _FAILED, size)
    return drawn


def _draw_outline(pen: ImageDraw.ImageDraw, region: Region, factors: tuple[float, float], width_px: int) -> None:
    box, colour = region.box, COLOURS[region.label]
    corners = region.polygon or ((box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1))
    points = [(x * factors[0], y * factors[1]) for x, y in corners]
    bad = region.status in ("failed", "truncated", "loop_cut")
    if len(points) > 2:
        pen.polygon(points, fill=(*(_FAILED if bad else colour), 48))
    pen.line([*points, points[0]], fill=(*colour, 255), width=width_px, joint="curve")
    if bad:  # crossed out, which is seen without colours, too
        x0, y0, x1, y1 = (v * factors[n % 2] for n, v in enumerate((box.x0, box.y0, box.x1, box.y1)))
        for line in ((x0, y0, x1, y1), (x0, y1, x1, y0)):
            pen.line(line, fill=(*_FAILED, 255), width=width_px)


def _draw_name(
    pen: ImageDraw.ImageDraw,
    region: Region,
    factors: tuple[float, float],
    font: ImageFont.ImageFont | ImageFont.FreeTypeFont,
    size: tuple[int, int],
) -> None:
    text = f"{region.index} {region.label}" + ("" if region.status == "ok" else f": {region.status}")
    colour = COLOURS[region.label] if region.status in ("ok", "skipped") else _FAILED
    _draw_text(pen, (region.box.x0 * factors[0], region.box.y0 * factors[1]), text, font, colour, size, above=True)


def _draw_text(
    pen: ImageDraw.ImageDraw,
    place: tuple[float, float],
    text: str,
    font: ImageFont.ImageFont | ImageFont.FreeTypeFont,
    ground: tuple[int, int, int],
    size: tuple[int, int],
    *,
    above: bool = False,
) -> None:
    """Draw white text on its ground, inside the picture: above the place where it fits, else from it on."""
    printed = "".join(sign if 32 <= ord(sign) < 0x250 else "?" for sign in text)[:120]
    x0, y0, x1, y1 = pen.textbbox((0, 0), printed, font=font)
    width, height = x1 + 4, y1 + 2
    left = min(max(0.0, place[0]), max(0.0, size[0] - width))
    top = place[1] - height if above and place[1] >= height else place[1]
    top = min(max(0.0, top), max(0.0, size[1] - height))
    pen.rectangle((left, top, left + width, top + height), fill=(*ground, 230))
    pen.text((left + 2, top), printed, font=font, fill=(255, 255, 255, 255))
