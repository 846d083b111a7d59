"""Pictures small enough to show: pages beside their text, figures inside an HTML file."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from PIL import Image

from gravityocr.errors import InputError

_LONGEST_SIDE_PX = 1600
_FIGURE_SIDE_PX = 1200


def bounded(image: Image.Image, longest_px: int = _LONGEST_SIDE_PX) -> Image.Image:
    """Return an RGB copy whose sides are at most `longest_px`, never enlarged."""
    scale = min(1.0, longest_px / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    return rgb.copy() if size == image.size else rgb.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def jpeg_uri(path: Path) -> str:
    """Return a JPEG file as a `data:` address.

    *Raises*: InputError where the file cannot be read.
    """
    try:
        return _data_uri("jpeg", path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); parse the file again") from error


def figure_uri(path: Path) -> str | None:
    """Return a kept picture as a `data:` address, made smaller where it is large; None where there is none.

    *Raises*: InputError where the file is no picture.
    """
    if not path.is_file():
        return None
    stream = io.BytesIO()
    try:
        with Image.open(path) as image:
            bounded(image, _FIGURE_SIDE_PX).save(stream, "JPEG", quality=85)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: is no picture any more ({error}); parse the file again") from error
    return _data_uri("jpeg", stream.getvalue())


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
