"""Whatever bytes a file holds: pages, failed pages or one InputError, never another exception and never a hang."""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gravityocr.errors import InputError
from gravityocr.pipeline.source import SourceConfig, count_pages, iter_pages

N_DAMAGED = 30
SMALL = SourceConfig(dpi=36, max_image_px=2_000_000, max_page_px=200_000, text_layer=True)


def picture(mode: str = "RGB") -> Image.Image:
    noise = np.random.default_rng(3).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((64, 48), Image.Resampling.NEAREST).convert(mode)


def saved(kind: str, mode: str = "RGB", n_frames: int = 1, **options: object) -> bytes:
    buffer = io.BytesIO()
    more = {"save_all": True, "append_images": [picture(mode)] * (n_frames - 1)} if n_frames > 1 else {}
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(mode).save(buffer, kind, **more, **({"exif": exif} if kind in ("JPEG", "PNG") else {}), **options)
    return buffer.getvalue()


def heic() -> bytes:
    pytest.importorskip("pillow_heif").register_heif_opener()
    return saved("HEIF")


def deep() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(3000, dtype=np.uint16).reshape(50, 60)).save(buffer, "TIFF")
    return buffer.getvalue()


SEEDS: dict[str, Callable[[], bytes]] = {
    "pdf": lambda: saved("PDF", n_frames=3),
    "png": lambda: saved("PNG"),
    "apng": lambda: saved("PNG", "RGBA", n_frames=3),
    "palette": lambda: saved("PNG", "P", transparency=3),
    "jpeg": lambda: saved("JPEG"),
    "progressive": lambda: saved("JPEG", progressive=True),
    "cmyk": lambda: saved("JPEG", "CMYK"),
    "tiff": lambda: saved("TIFF", n_frames=3),
    "lzw": lambda: saved("TIFF", n_frames=2, compression="tiff_lzw"),
    "fax": lambda: saved("TIFF", "1", n_frames=2, compression="group4"),
    "deep": deep,
    "gif": lambda: saved("GIF", "P", n_frames=3),
    "bmp": lambda: saved("BMP"),
    "webp": lambda: saved("WEBP", "RGBA", n_frames=2),
    "jp2": lambda: saved("JPEG2000"),
    "avif": lambda: saved("AVIF", speed=10),
    "heic": heic,
}


def outcome(path: Path) -> str:
    """Read a file as a run does. Only InputError is caught: anything else fails the test."""
    try:
        count_pages(path, SMALL)
        pages = list(iter_pages(path, config=SMALL))
    except InputError as error:
        assert str(error).startswith(f"{path}: ") and ";" in str(error), "names the file and the remedy"
        return "refused"
    for page in pages:
        assert (page.image is None) == (page.error is not None)
        if page.image is not None:
            assert page.image.mode == "RGB" and 0 < page.image.width * page.image.height <= 2 * SMALL.max_page_px
        else:
            assert f"page {page.index + 1} cannot be" in str(page.error)
    return "failed" if all(page.error for page in pages) else "read"


def damaged(data: bytes, choose: random.Random, how: str) -> bytes:
    if how == "cut":
        return data[: choose.randrange(1, len(data))]
    if how == "flip":
        changed = bytearray(data)
        for _ in range(choose.choice((1, 3, 20))):
            changed[choose.randrange(len(changed))] ^= 1 << choose.randrange(8)
        return bytes(changed)
    if how == "head":  # where the sizes and counts are
        changed = bytearray(data)
        for _ in range(4):
            changed[choose.randrange(8, min(len(changed), 200))] = choose.choice((0, 0x7F, 0xFF))
        return bytes(changed)
    start = choose.randrange(len(data))
    end = min(len(data), start + choose.randrange(1, 400))
    return data[:start] + (choose.randbytes(end - start) if how == "noise" else b"") + data[end:]


@pytest.mark.parametrize("how", ["cut", "flip", "head", "noise", "gap"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_damage_gives_pages_or_errors(tmp_path: Path, seed: str, how: str) -> None:
    data = SEEDS[seed]()
    path = tmp_path / "a"
    path.write_bytes(data)
    assert outcome(path) == "read"
    choose = random.Random(f"{seed} {how}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what a decoder mutters must not reach the user either
        for _ in range(N_DAMAGED // 5):
            path.write_bytes(damaged(data, choose, how))
            outcome(path)


CORRUPT: dict[str, Callable[[], bytes]] = {
    "empty.png": lambda: b"",
    "html.pdf": lambda: b"<!DOCTYPE html><title>Not found</title>",
    "text.jpg": lambda: b"just text",
    "zeros.tiff": lambda: b"\0" * 5000,
    "header_only.pdf": lambda: b"%PDF-1.7\n",
    "no_root.pdf": lambda: b"%PDF-1.7\ntrailer << /Size 1 >>\nstartxref\n9\n%%EOF",
    "truncated.pdf": lambda: saved("PDF")[:500],
    "truncated.png": lambda: saved("PNG")[:300],
    "truncated.webp": lambda: saved("WEBP")[:100],
    "header_only.gif": lambda: b"GIF89a",
    "endless_strips.tiff": lambda: saved("TIFF")[:200],
    "no_size.bmp": lambda: saved("BMP")[:18] + b"\0" * 8 + saved("BMP")[26:],
    "header_only.jp2": lambda: saved("JPEG2000")[:30],
    "truncated.avif": lambda: saved("AVIF", speed=10)[:200],
    "header_only.heic": lambda: b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
    "bomb.png": lambda: saved("PNG")[:16] + b"\0\1\0\0\0\1\0\0" + saved("PNG")[24:],
    "archive.pdf": lambda: b"PK\3\4" + b"\0" * 100,
}


@pytest.mark.parametrize("name", CORRUPT)
def test_corrupt_files_are_named_and_give_no_page(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(CORRUPT[name]())
    assert outcome(path) in ("refused", "failed")
