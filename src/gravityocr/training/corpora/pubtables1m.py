"""PubTables-1M: tables of PubMed Central articles as images, their structure as boxes, their words with places.

The structure files as the hub has them, packed or each unpacked into a folder of its name without `.tar.gz`:

    PubTables-1M-Structure_Annotations_Train.tar.gz (_Val, _Test)    PMC1064074_table_0.xml ...   758,849 tables
    PubTables-1M-Structure_Images_Train.tar.gz (_Val, _Test)         PMC1064074_table_0.jpg ...
    PubTables-1M-Structure_Table_Words.tar.gz                        PMC1064074_table_0_words.json ...

or as folders `train/`, `val/`, `test/` (XML), `images/` and `words/`. The XML is PASCAL VOC: objects `table row`,
`table column`, `table column header`, `table projected row header` and `table spanning cell`, each with a `bndbox` in
pixels. Words are a list of `{text, bbox, span_num, line_num, block_num, flags}`.

Rows and columns tile the table; header boxes, spanning cells and projected row headers cover whole cells of that grid.
A spanning cell without text is not annotated: its places come out as single empty cells. A unit is the tables whose
name falls into one of its split's parts; each part reads packed files to their end, so unpacking them saves time.

*Source*: github.com/microsoft/table-transformer (README.md, src/table_datasets.py, scripts/process_pubmed.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit
from gravityocr.training.corpora.published_files import published_picture, read_published, tar_files
from gravityocr.training.corpora.region_shards import LabelledRegion
from gravityocr.training.corpora.table_boxes import read_objects, read_words, table_of_boxes

N_PARTS = {"train": 32, "val": 4, "test": 4}
_HUB = "PubTables-1M-Structure_"
_WORDS = "_words.json"


class PubTables1M:
    """Converts PubTables-1M."""

    name = "pubtables1m"

    def __init__(self, config: ConversionConfig) -> None:
        self.config = config

    def units(self, root: Path) -> list[Unit]:
        """List the parts of the splits.

        *Raises*: InputError where files of a split that is asked for are missing.
        """
        units = []
        for split in ("train",) if self.config.split == "train" else ("train", "val", "test"):
            files = (
                _find(root, f"{_HUB}Annotations_{split.capitalize()}", split),
                _find(root, f"{_HUB}Images_{split.capitalize()}", "images"),
                _find(root, f"{_HUB}Table_Words", "words"),
            )
            n_parts = N_PARTS[split]
            units += [Unit(f"{split}-{part:02d}", files, f"{part}/{n_parts}") for part in range(n_parts)]
        return units

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        """Yield the tables of a part."""
        annotations, images, words = unit.files
        part, n_parts = (int(number) for number in unit.part.split("/"))
        notes = _Files(annotations, ".xml", lambda name: zlib.crc32(name.encode()) % n_parts == part)
        texts = _Files(words, _WORDS, notes.names.__contains__)
        unseen = set(notes.names)
        for name, read in _pictures(images, notes.names):
            unseen.discard(name)
            try:
                yield self._region(name, notes.read(name), texts.read(name), read())
            except InputError as error:
                yield Skipped(name, str(error))
        for name in sorted(unseen):
            yield Skipped(name, "missing image")

    def _region(self, name: str, annotation: bytes, words: bytes, image: bytes) -> LabelledRegion:
        article, _, number = name.partition("_table_")
        if not number:
            raise InputError("unreadable name: it must be such as PMC1064074_table_0")
        table = table_of_boxes(read_objects(annotation), read_words(words))
        data, width_px, height_px = published_picture(image)
        return LabelledRegion(
            f"{self.name}/{article}/0/{number}", data, width_px, height_px, "table",
            table.html(self.config.table_head), self.name, article,
        )  # fmt: skip


def _find(root: Path, packed: str, plain: str) -> Path:
    for place in (root / packed, root / f"{packed}.tar.gz", root / f"{packed}.tar", root / plain):
        if place.exists():
            return place
    raise InputError(f"{root} is not PubTables-1M: it must hold {packed} (folder or .tar.gz) or the folder {plain}")


class _Files:
    """The wanted files of a kind by the name of their table: in a folder, or packed and kept compressed."""

    def __init__(self, place: Path, suffix: str, wanted: Callable[[str], bool]) -> None:
        self.place, self.suffix = place, suffix
        self.kept: dict[str, bytes] = {}
        if place.is_dir():
            listed = (file.name.removesuffix(suffix) for file in place.iterdir() if file.name.endswith(suffix))
            self.names = {name for name in listed if wanted(name)}
            return

        def is_wanted(name: str) -> bool:
            return name.endswith(suffix) and wanted(name.removesuffix(suffix))

        for name, data in tar_files(place, is_wanted):
            self.kept[name.removesuffix(suffix)] = zlib.compress(data, 1)
        self.names = set(self.kept)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        *Raises*: InputError where it is missing.
        """
        if self.place.is_dir():
            return read_published(self.place / f"{name}{self.suffix}")
        if name not in self.kept:
            raise InputError(f"missing file: {name}{self.suffix}")
        return zlib.decompress(self.kept[name])


def _pictures(place: Path, names: set[str]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the images of tables, in the order of the archive or of their names."""
    if place.is_dir():
        for name in sorted(names):
            file = place / f"{name}.jpg"
            if file.is_file():
                yield name, lambda file=file: read_published(file)  # type: ignore[misc]
        return
    for name, data in tar_files(place, lambda name: name.removesuffix(".jpg") in names and name.endswith(".jpg")):
        yield name.removesuffix(".jpg"), lambda data=data: data  # type: ignore[misc]
