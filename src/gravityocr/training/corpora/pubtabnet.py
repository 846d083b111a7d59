"""PubTabNet 2.0.0: tables of PubMed Central articles as images, with their HTML.

The archive `pubtabnet.tar.gz` is to be unpacked, since its list names the images in no order of theirs:

    pubtabnet/
      PubTabNet_2.0.0.jsonl    a JSON object a line: filename, split (train, val), imgid,
                               html: {structure: {tokens}, cells: [{tokens, bbox where not empty}]}
      train/PMC1064074_007_00.png ...   500,777 images, val/ 9,115; test/ has no annotation

Structure tokens are `<thead>`, `<tr>`, `<td>` or `<td`, ` colspan="2"`, `>`; a cell's tokens are its characters and
tags such as `<b>`. A file is named after the article, the page and the table's number.

*Source*: github.com/ibm-aur-nlp/PubTabNet (README.md, examples).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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

LIST = "PubTabNet_2.0.0.jsonl"
_NAME = re.compile(r"(?P<article>PMC\d+)_(?P<page>\d{1,9})_(?P<number>\d{1,9})")


class PubTabNet:
    """Converts PubTabNet; a unit is a slice of its list."""

    name = "pubtabnet"

    def __init__(self, config: ConversionConfig) -> None:
        self.config = config

    def units(self, root: Path) -> list[Unit]:
        """List the slices.

        *Raises*: InputError where the list is missing.
        """
        found = next((file for file in (root / LIST, root / "pubtabnet" / LIST) if file.is_file()), None)
        if found is None:
            raise InputError(f"{root} is not PubTabNet: it must hold {LIST}, train/ and val/ (unpack pubtabnet.tar.gz)")
        slices = line_slices(found.stat().st_size)
        return [Unit(f"part-{number:04d}", (found,), part) for number, part in enumerate(slices)]

    def regions(self, unit: Unit) -> Iterator[Found]:
        """Yield the tables of a slice."""
        (file,) = unit.files

        def convert(name: str, row: dict[str, object]) -> Found:
            split = text_field(row, "split")
            if self.config.split == "train" and split != "train":
                return OtherSplit()
            return self._region(file.parent / split / Path(name).name, row)

        with file.open("rb") as stream:
            yield from convert_rows(json_lines(stream, file.name, unit.part), convert)

    def _region(self, image: Path, row: dict[str, object]) -> LabelledRegion:
        found = _NAME.fullmatch(image.stem)
        if found is None:
            raise InputError("unreadable name: it must be such as PMC1064074_007_00.png")
        table = annotated_table(row.get("html"))
        data, width_px, height_px = published_picture(read_published(image))
        article, page, number = found["article"], int(found["page"]), int(found["number"])
        return LabelledRegion(
            f"{self.name}/{article}/{page}/{number}", data, width_px, height_px, "table",
            table.html(self.config.table_head), self.name, article, page,
        )  # fmt: skip
