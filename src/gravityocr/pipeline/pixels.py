"""Any Pillow image to 8-bit RGB on white."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageChops

_DEPTHS = (255, 4095, 65535)


def to_rgb(image: Image.Image, max_px: int | None = None) -> Image.Image:
    """Convert to RGB: alpha on white, deep grey rescaled, CMYK in normal polarity, at most `max_px` pixels.

    The EXIF orientation stays in the result's metadata for the caller to apply.
    """
    exif = image.getexif()
    # Pillow reads every CMYK JPEG as Adobe's inverted kind; without Adobe's marker it is the plain kind
    if image.mode == "CMYK" and image.format == "JPEG" and "adobe" not in image.info:
        image = ImageChops.invert(image)
    result = _convert(_shrunk(image, max_px))
    if result is image:
        result = image.copy()
    if exif:
        result.info["exif"] = exif.tobytes()
    return result


def _shrunk(image: Image.Image, max_px: int | None) -> Image.Image:
    n_px = image.width * image.height
    if max_px is None or n_px <= max_px:
        return image
    if image.mode in ("1", "P", "PA", "I;16", "I;16B", "I;16L"):
        image = _convert(image)
    # whole-number reduction first: it reads the pixels in place, without a full-size float copy
    factor = math.isqrt(n_px // max_px)
    if factor > 1:
        reduced = image.reduce(factor)
        reduced.info.update(image.info)
        image = reduced
    scale = min(1.0, math.sqrt(max_px / (image.width * image.height)))
    if scale == 1.0:
        return image
    size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
    smaller = image.resize(size, Image.Resampling.BOX)
    smaller.info.update(image.info)
    return smaller


def _convert(image: Image.Image) -> Image.Image:
    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        return image
    if mode.startswith("I") or mode == "F":
        return _deep_grey(image).convert("RGB")
    if mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        page = Image.new("RGB", image.size, "white")
        page.paste(rgba, mask=rgba.getchannel("A"))
        return page
    return image.convert("RGB")


def _deep_grey(image: Image.Image) -> Image.Image:
    """Rescale to 8 bits by the smallest usual depth that holds the values (scanners store 12 bits in 16)."""
    values = np.asarray(image, dtype=np.float32)
    values = np.nan_to_num(values, nan=0.0, posinf=65535.0, neginf=0.0)
    low, high = min(0.0, float(values.min())), float(values.max())
    if image.mode == "F" and high <= 1.0:
        top = 1.0
    else:
        top = next((float(depth) for depth in _DEPTHS if high <= depth), high)
    scaled = (values - low) * (255.0 / max(top - low, 1e-6))
    return Image.fromarray(np.clip(scaled + 0.5, 0, 255).astype(np.uint8), "L")
