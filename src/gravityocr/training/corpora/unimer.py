r"""UniMER-1M: images of single formulas with their LaTeX, each image a region as a whole.

    ROOT/UniMER-1M/images/0000000.png ...     the number of an image is that of its line, from 0
    ROOT/UniMER-1M/train.txt                  a formula a line, its tokens parted by blanks: "\frac { a } { b }"

ROOT may be the folder UniMER-1M itself. Lines without an image are skipped: 1,166 images were withdrawn, and HME100K's
must be downloaded elsewhere. UniMER-Test, beside it in the same release, is never read. A unit is a slice of the lines.

*Source*: the data set card of wanderkid/UniMER_Dataset, and the loader of opendatalab/UniMERNet
(`unimernet/datasets/datasets/formula.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit
from gravityocr.training.corpora.published_files import published_picture, read_published
from gravityocr.training.corpora.region_shards import LabelledRegion

UNIT_LINES = 20_000


class UniMer:
    """Converts UniMER-1M, one unit a slice of its formulas; the config's layout does not matter."""

    name = "unimer"

    def __init__(self, config: ConversionConfig) -> None:
        self._config = config

    def units(self, root: Path) -> list[Unit]:
        """List the slices of train.txt.

        *Raises*: InputError where the list or the images are missing.
        """
        folder = root / "UniMER-1M" if (root / "UniMER-1M").is_dir() else root
        file = folder / "train.txt"
        if not file.is_file() or not (folder / "images").is_dir():
            raise InputError(f"{root} is no UniMER-1M: it should hold UniMER-1M/images/ and UniMER-1M/train.txt")
        with file.open("rb") as lines:
            n_lines = sum(1 for _ in lines)
        starts = range(0, n_lines, UNIT_LINES)
        return [Unit(f"train-{number:05d}", (file,), str(start)) for number, start in enumerate(starts)]

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        """Yield the formulas of a slice, with their LaTeX as the data set writes it, blanks folded."""
        file, start = unit.files[0], int(unit.part)
        # only line feeds part formulas: other breaks that Python knows may stand inside one
        with file.open("rb") as lines:
            for number, line in enumerate(islice(lines, start, start + UNIT_LINES), start):
                try:
                    latex = " ".join(line.decode("utf-8").split())
                except UnicodeDecodeError as error:
                    yield Skipped(f"{file.name}, line {number + 1}", f"no UTF-8 text: {error.reason}")
                    continue
                yield self._region(file.parent / "images" / f"{number:07d}.png", latex)

    def _region(self, image: Path, latex: str) -> LabelledRegion | Skipped:
        if not latex:
            return Skipped(image.name, "no formula")
        if not image.is_file():
            return Skipped(image.name, "missing image")
        try:
            data, width_px, height_px = published_picture(read_published(image))
        except InputError as error:
            return Skipped(image.name, f"unreadable image: {error}")
        return LabelledRegion(
            region_id=f"{self.name}/{image.stem}/0/0",
            image=data,
            width_px=width_px,
            height_px=height_px,
            task="formula",
            target=latex,
            source=self.name,
            doc_id=image.stem,
        )
