"""SynthTabNet 2.0.0: 600,000 generated tables as images, with their HTML, in four parts.

Each part is a zip, used as it is or unpacked:

    fintabnet.zip or fintabnet/     the same for marketing, pubtabnet, sparse
      fintabnet/images/{train,val,test}/image_000005_1634629104.274936.png
      fintabnet/synthetic_data.jsonl    a JSON object a line: filename, split, html: {structure: {tokens},
                                        cells: [{tokens, is_header, span, bbox [x1, y1, x2, y2, class]}]}

Tokens are those of PubTabNet. Some lines are no JSON, since a comma follows the last token; they are read without it.
Every image is a document of its own.

*Source*: github.com/IBM/SynthTabNet (README.md).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Found, OtherSplit, Unit
from gravityocr.training.corpora.published_files import (
    convert_rows,
    json_lines,
    line_slices,
    published_picture,
    read_published,
    text_field,
)
from gravityocr.training.corpora.region_shards import LabelledRegion
from gravityocr.training.corpora.table_markup import annotated_table

PARTS = ("fintabnet", "marketing", "pubtabnet", "sparse")
LIST = "synthetic_data.jsonl"

# What a member of a zip that is broken, encrypted or packed by an unknown method raises.
_MEMBER_ERRORS = (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error)


class SynthTabNet:
    """Converts SynthTabNet; a unit is a slice of the list of a part."""

    name = "synthtabnet"

    def __init__(self, config: ConversionConfig) -> None:
        self.config = config

    def units(self, root: Path) -> list[Unit]:
        """List the slices of the parts that are there; a broken part is one slice, which fails when it is read.

        *Raises*: InputError where there is none.
        """
        units = []
        for part in PARTS:
            place = next((place for place in (root / part, root / f"{part}.zip") if place.exists()), None)
            if place is not None:
                slices = _slices(place, part)
                units += [Unit(f"{part}-{number:04d}", (place,), f"{part}:{one}") for number, one in enumerate(slices)]
        if not units:
            wanted = f"{', '.join(PARTS)} as folders with {LIST} and images/, or as zip files"
            raise InputError(f"{root} is not SynthTabNet: it must hold one or more of {wanted}")
        return units

    def regions(self, unit: Unit) -> Iterator[Found]:
        """Yield the tables of a slice.

        *Raises*: InputError where the part is broken.
        """
        part, _, place = unit.part.partition(":")
        with _Part(unit.files[0], part) as files, files.open(LIST) as stream:

            def convert(name: str, row: dict[str, object]) -> Found:
                split = text_field(row, "split")
                if self.config.split == "train" and split != "train":
                    return OtherSplit()
                return self._region(files, part, f"images/{split}/{PurePosixPath(name).name}", row)

            lines = json_lines(stream, f"{part}/{LIST}", place, _without_last_comma)
            yield from convert_rows(lines, convert)

    def _region(self, files: _Part, part: str, image: str, row: dict[str, object]) -> LabelledRegion:
        table = annotated_table(row.get("html"))
        data, width_px, height_px = published_picture(files.read(image))
        doc_id = f"{part}_{PurePosixPath(image).stem}"
        return LabelledRegion(
            f"{self.name}/{doc_id}/0/0", data, width_px, height_px, "table",
            table.html(self.config.table_head), self.name, doc_id,
        )  # fmt: skip


def _slices(place: Path, part: str) -> list[str]:
    try:
        with _Part(place, part) as files:
            return line_slices(files.size(LIST))
    except InputError:
        return line_slices(0)


class _Part(ExitStack):
    """The files of a part, in a folder or in its zip, where they are below a folder of the part's name."""

    def __init__(self, place: Path, part: str) -> None:
        super().__init__()
        self.place, self.part = place, part
        self.archive: zipfile.ZipFile | None = None
        if place.is_file():
            try:
                self.archive = self.enter_context(zipfile.ZipFile(place))
            except (OSError, zipfile.BadZipFile) as error:
                raise InputError(f"{place} is broken ({error}); download that part of SynthTabNet again") from error

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        try:
            if self.archive is not None:
                return self.archive.getinfo(f"{self.part}/{name}").file_size
            return (self.place / name).stat().st_size
        except (OSError, KeyError) as error:
            raise InputError(f"{self.place} holds no {name}; download that part of SynthTabNet again") from error

    def open(self, name: str) -> BinaryIO:
        """Open a file; the place in it can be set.

        *Raises*: InputError where it is missing or broken.
        """
        try:
            if self.archive is not None:
                return cast("BinaryIO", self.archive.open(f"{self.part}/{name}"))
            return (self.place / name).open("rb")
        except KeyError as error:
            raise InputError(f"{self.place} holds no {name}; download that part of SynthTabNet again") from error
        except _MEMBER_ERRORS as error:
            what = f"{self.place}: {name} cannot be read ({error})"
            raise InputError(f"{what}; download that part of SynthTabNet again") from error

    def read(self, name: str) -> bytes:
        """Read a file.

        *Raises*: InputError where it is missing or broken.
        """
        if self.archive is None:
            return read_published(self.place / name)
        try:
            return self.archive.read(f"{self.part}/{name}")
        except KeyError as error:
            raise InputError(f"missing file: {name[:200]}") from error
        except _MEMBER_ERRORS as error:
            raise InputError(f"broken file in {self.place.name}: {error}") from error


def _without_last_comma(line: str) -> str:
    return line.replace(", ]", "]")
