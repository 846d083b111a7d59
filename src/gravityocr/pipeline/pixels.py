"""Any Pillow image to 8-bit RGB on white."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pypdfium2 as pdfium
from PIL import Image, ImageChops

from gravityocr.errors import GravityOCRError

DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    LookupError,
    ArithmeticError,
    EOFError,
    RuntimeError,
    SystemError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
"""What decoders raise on damaged files: Pillow's parsers pass on whatever their own slips into."""

INTACT = "hand an intact copy"
"""The remedy for a damaged file."""

_DEPTHS = (255, 4095, 65535)
_STRIP_PX = 2_000_000  # converted at once: copies of whole scans would take gigabytes
_ORIENTATION = 0x0112


def to_rgb(image: Image.Image, max_px: int | None = None, release: Callable[[], None] | None = None) -> Image.Image:
    """Convert to RGB: alpha on white, deep grey rescaled, CMYK in normal polarity, at most `max_px` pixels.

    The EXIF orientation stays in the result's metadata for the caller to apply; all other metadata goes. `release`
    is called as soon as a converted image is not needed any more, before more memory is taken: it may close it.
    """
    orientation = _orientation(image)
    # whole-number reduction first, strip by strip, so that beside the image only the small result is held
    factor = max(1, math.isqrt(image.width * image.height // max_px)) if max_px else 1
    if factor == 1 and image.mode == "RGB" and "transparency" not in image.info:
        result = image
    else:
        # Pillow reads every CMYK JPEG as Adobe's inverted kind; without Adobe's marker it is the plain kind
        inverted = image.mode == "CMYK" and image.format == "JPEG" and "adobe" not in image.info
        span = _grey_span(image, factor) if _is_deep(image) else None
        result = Image.new("RGB", (-(-image.width // factor), -(-image.height // factor)))
        for top, strip in _strips(image, factor):
            rgb = _convert(ImageChops.invert(strip) if inverted else strip, span)
            result.paste(rgb if factor == 1 else rgb.reduce(factor), (0, top // factor))
    if release is not None and result is not image:
        release()
    if max_px is not None and result.width * result.height > max_px:
        scale = math.sqrt(max_px / (result.width * result.height))
        width = min(max_px, max(1, int(result.width * scale)))
        height = min(max_px // width, max(1, int(result.height * scale)))
        result = result.resize((min(width, max_px // height), height), Image.Resampling.BOX)
    if result is image:
        result = image.copy()
    result.info = {} if orientation is None else {"exif": orientation.tobytes()}
    return result


def failure_text(failure: BaseException) -> str:
    """Return what a decoder said: an OSError speaks for itself, a KeyError's bare key does not."""
    text = str(failure)
    if isinstance(failure, (OSError, GravityOCRError, pdfium.PdfiumError)) and text:
        return text
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def _orientation(image: Image.Image) -> Image.Exif | None:
    """Return the orientation alone: damaged metadata beside it must not cost the page, nor be handed on."""
    try:
        value = image.getexif().get(_ORIENTATION)
    except DECODER_ERRORS:
        return None
    if not isinstance(value, int) or not 2 <= value <= 8:
        return None
    exif = Image.Exif()
    exif[_ORIENTATION] = int(value)
    return exif


def _strips(image: Image.Image, factor: int) -> Iterator[tuple[int, Image.Image]]:
    """Yield full-width strips, each with its top row; all but the last are whole multiples of `factor` high."""
    n_rows = max(1, _STRIP_PX // (image.width * factor)) * factor
    for top in range(0, image.height, n_rows):
        yield top, image.crop((0, top, image.width, min(image.height, top + n_rows)))


def _is_deep(image: Image.Image) -> bool:
    return image.mode.startswith("I") or image.mode == "F"


def _convert(image: Image.Image, span: tuple[float, float] | None) -> Image.Image:
    if span is not None:
        return _shallow(image, *span).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        page = Image.new("RGB", image.size, "white")
        page.paste(rgba, mask=rgba.getchannel("A"))
        return page
    return image.convert("RGB")


def _grey_span(image: Image.Image, factor: int) -> tuple[float, float]:
    """Return the values of black and white: the smallest usual depth that holds all (12 bits come in 16)."""
    low, high = 0.0, -math.inf
    for _, strip in _strips(image, factor):
        values = _finite(strip)
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    if image.mode == "F" and high <= 1.0:
        return low, 1.0
    return low, next((float(depth) for depth in _DEPTHS if high <= depth), high)


def _shallow(image: Image.Image, low: float, top: float) -> Image.Image:
    scaled = (_finite(image) - low) * (255.0 / max(top - low, 1e-6))
    return Image.fromarray(np.clip(scaled + 0.5, 0, 255).astype(np.uint8), "L")


def _finite(image: Image.Image) -> npt.NDArray[np.float32]:
    values = np.asarray(image, dtype=np.float32)
    return np.nan_to_num(values, nan=0.0, posinf=65535.0, neginf=0.0)
