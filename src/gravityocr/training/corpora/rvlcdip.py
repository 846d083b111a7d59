"""RVL-CDIP: grey scans of single pages, at most 1,000 px a side, for classification; all targets pending.

    ROOT/images/imagesa/a/a/a/aaa06d00/50486482-6482.tif     a page; the folder above it is its document
    ROOT/labels/train.txt, val.txt, test.txt                 "imagesa/a/a/a/aaa06d00/50486482-6482.tif 3": page, class

Only pages of train.txt are taken; `--split all` adds val.txt, never test.txt. A unit is a slice of a list.

*Source*: the data set card of aharley/rvl_cdip, and public loaders of its rvl-cdip.tar.gz.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit
from gravityocr.training.corpora.page_crops import PageCutter, PageName
from gravityocr.training.corpora.published_files import read_published
from gravityocr.training.corpora.region_shards import LabelledRegion

UNIT_PAGES = 2000


class RvlCdip:
    """Converts RVL-CDIP, one unit a slice of a list of pages."""

    name = "rvlcdip"

    def __init__(self, config: ConversionConfig) -> None:
        self._config = config

    def units(self, root: Path) -> list[Unit]:
        """List the slices of the lists of pages.

        *Raises*: InputError where the lists or the pages are missing.
        """
        splits = ("train",) if self._config.split == "train" else ("train", "val")
        lists = [root / "labels" / f"{split}.txt" for split in splits]
        if not (root / "images").is_dir() or not all(file.is_file() for file in lists):
            what = f"images/ and {', '.join(f'labels/{file.name}' for file in lists)}"
            raise InputError(f"{root} is no RVL-CDIP: it should hold {what}")
        found: list[Unit] = []
        for file in lists:
            with file.open("rb") as lines:
                n_lines = sum(1 for _ in lines)
            for number in range(-(-n_lines // UNIT_PAGES)):
                found.append(Unit(f"{file.stem}-{number:05d}", (file,), str(number * UNIT_PAGES)))
        return found

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        """Yield the regions of the pages of a slice."""
        file, start = unit.files[0], int(unit.part)
        cutter = PageCutter(self._config.layout)
        with file.open("rb") as lines:
            for number, content in enumerate(islice(lines, start, start + UNIT_PAGES), start + 1):
                where = f"{file.name}, line {number}"
                try:
                    line = content.decode("utf-8")
                except UnicodeDecodeError as error:
                    yield Skipped(where, f"no UTF-8 text: {error.reason}")
                    continue
                path = Path(line.rpartition(" ")[0].strip())
                if len(path.parts) < 2 or path.is_absolute() or ".." in path.parts:
                    yield Skipped(where, f"no page and class: {line.strip()[:80]!r}")
                    continue
                try:
                    data = read_published(file.parent.parent / "images" / path)
                except InputError as error:
                    yield Skipped(where, str(error))
                    continue
                yield from cutter.read(data, PageName(self.name, path.parent.name, label=path.stem))
