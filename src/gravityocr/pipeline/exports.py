"""Documents to files: one folder an input, every file whole or absent."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from gravityocr.document import Box, Document, Page, Region
from gravityocr.errors import ConfigError, InputError

FORMATS = ("md", "json")
_IMAGE_NAME = re.compile(r"page\d+_region\d+\.png")


class OutputFolders:
    """Hands each input its own folder under one output folder.

    The second input of one stem gets `-2` behind it, whether the first came in this run or an earlier one;
    an input that is parsed again gets its own folder again.
    """

    def __init__(self, out_dir: str | Path) -> None:
        self.out_dir = Path(out_dir)
        self._claimed: dict[str, str] = {}

    def claim(self, source: str | Path) -> Path:
        """Return the folder of one input; it is not made yet."""
        stem = Path(source).stem or "document"
        identity = str(Path(source).resolve())
        number = 1
        while True:
            name = stem if number == 1 else f"{stem}-{number}"
            owner = self._claimed.get(name.casefold()) or _owner(self.out_dir / name)
            if owner is None or owner == identity:
                self._claimed[name.casefold()] = identity
                return self.out_dir / name
            number += 1


def _owner(folder: Path) -> str | None:
    """Return the input that an earlier run's folder belongs to, None where there is none."""
    try:
        source = json.loads((folder / f"{folder.name}.json").read_text(encoding="utf-8"))["source"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(Path(source).resolve()) if isinstance(source, str) else None


class DocumentWriter:
    """Writes one document: pictures while its pages come, text at the end.

    *Raises*: ConfigError for an unknown format, InputError where the folder cannot be written.
    """

    def __init__(self, folder: Path, formats: Sequence[str] = FORMATS) -> None:
        unknown = [name for name in formats if name not in FORMATS]
        if unknown or not formats:
            raise ConfigError(f"format {', '.join(unknown) or '(none)'}: choose from {', '.join(FORMATS)}")
        self.folder = folder
        self.formats = tuple(formats)
        self._images: set[str] = set()

    def save_image(self, name: str, image: Image.Image) -> None:
        """Write one picture into `images/` at once, so that no page has to keep it."""
        path = self.folder / "images" / name
        _make_folder(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as stream:
            image.save(stream, "PNG")
        _put(Path(stream.name), path)
        self._images.add(name)

    def finish(self, document: Document) -> list[Path]:
        """Write the text files and return their paths; an earlier run's leftover pictures go."""
        _make_folder(self.folder)
        texts = {
            "md": document.markdown,
            "json": json.dumps(document_json(document), ensure_ascii=False, indent=2) + "\n",
        }
        paths = [self.folder / f"{self.folder.name}.{name}" for name in self.formats]
        for name, path in zip(self.formats, paths, strict=True):
            write_text(path, texts[name])
        for old in (self.folder / "images").glob("page*_region*.png"):
            if _IMAGE_NAME.fullmatch(old.name) and old.name not in self._images:
                old.unlink()
        return paths


def write_text(path: Path, text: str) -> None:
    """Write a text file whole: into a temporary file beside it, which then takes its name."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=path.parent, suffix=".part", delete=False
        ) as stream:
            stream.write(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error
    _put(Path(stream.name), path)


def _put(part: Path, path: Path) -> None:
    part.chmod(0o644)  # temporary files are private; results are ordinary ones
    os.replace(part, path)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another folder") from error


def document_json(document: Document) -> dict[str, Any]:
    """Return a document as the JSON contract has it; pages count from 1 in `page`."""
    return {
        "source": document.source,
        "status": document.status,
        "error": document.error,
        "n_pages": len(document.pages),
        "n_regions": document.n_regions,
        "region_status": document.status_counts(),
        "pages": [page_json(page) for page in document.pages],
    }


def page_json(page: Page) -> dict[str, Any]:
    """Return one page as the JSON contract has it."""
    return {
        "page": page.index + 1,
        "status": page.status,
        "error": page.error,
        "size_px": list(page.size_px),
        "seconds": {name: round(value, 4) for name, value in page.seconds.items()},
        "regions": [region_json(region, page.size_px) for region in page.regions],
    }


def region_json(region: Region, size_px: tuple[int, int]) -> dict[str, Any]:
    """Return one region as the JSON contract has it: `bbox_px` in page pixels, `bbox_2d` in 0-1000."""
    return {
        "index": region.index,
        "label": region.label,
        "native_label": region.native_label,
        "task": region.task,
        "bbox_px": _rounded(region.box),
        "bbox_2d": list(region.box.per_mille(size_px)),
        "content": region.content,
        "status": region.status,
        "error": region.error,
        "n_tokens": region.n_tokens,
        "n_forwards": region.n_forwards,
        "score": round(region.score, 4),
        "image": f"images/{region.image}" if region.image else None,
    }


def _rounded(box: Box) -> list[float]:
    return [round(value, 1) for value in (box.x0, box.y0, box.x1, box.y1)]
