"""Docmatix: pages of PDF files, drawn for questions and answers; we take the pages, all targets pending.

    ROOT/data/train-00000-of-01106-<hash>.parquet ...     the data set's configuration `images`, 1.27 million rows

A row holds `images`, a list of `{bytes, path}` with the encoded pages of one document, and `texts`, a list of `{user,
assistant, source}` whose `source` is `PDFA key: <number>`. That number is the id of the document; a row without it is
named by its file and place. The configurations `pdf` (other columns) and `zero-shot-exp` (its test split) are left out.

*Source*: the data set card of HuggingFaceM4/Docmatix (its `dataset_info` and list of files).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit, unit_name
from gravityocr.training.corpora.page_crops import PageCutter, PageName
from gravityocr.training.corpora.region_shards import LabelledRegion

ROWS_AT_A_TIME = 8
_SPLIT_FILES = {"train": "train-*.parquet", "all": "*.parquet"}
_KEY = re.compile(r"PDFA key: *(\S+)")


class Docmatix:
    """Converts Docmatix, one unit a Parquet file."""

    name = "docmatix"

    def __init__(self, config: ConversionConfig) -> None:
        self._config = config

    def units(self, root: Path) -> list[Unit]:
        """List the Parquet files of `data/`.

        *Raises*: InputError where there is none.
        """
        folder = root / "data" if (root / "data").is_dir() else root
        files = sorted(folder.glob(_SPLIT_FILES[self._config.split]))
        if not files:
            raise InputError(f"{root} is no Docmatix: it should hold data/train-00000-of-01106-*.parquet")
        return [Unit(unit_name(file.stem), (file,)) for file in files]

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        """Yield the regions of all pages of a file, a few rows in memory at a time.

        *Raises*: InputError where the file is no Parquet, or lacks the column of the pages.
        """
        cutter = PageCutter(self._config.layout)
        seen: set[str] = set()
        for number, row in enumerate(_rows(unit.files[0])):
            doc_id = _document(row, unit, number)
            if doc_id in seen:
                doc_id = f"{doc_id}-{unit.name}-{number}"
            seen.add(doc_id)
            images = row["images"]
            for page, image in enumerate(images if isinstance(images, list) else [images]):
                name = PageName(self.name, doc_id, page)
                data = image.get("bytes") if isinstance(image, dict) else None
                if isinstance(data, bytes) and data:
                    yield from cutter.read(data, name)
                else:
                    yield Skipped(f"{unit.files[0].name}, row {number}, image {page}", "page without bytes")


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file) as parquet:
            names = parquet.schema_arrow.names
            if "images" not in names:
                raise InputError(f"{file} has no column 'images'; take the configuration 'images' of Docmatix")
            columns = [name for name in ("images", "texts") if name in names]
            for batch in parquet.iter_batches(batch_size=ROWS_AT_A_TIME, columns=columns):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise InputError(f"{file} is broken ({error}); download it again") from error


def _document(row: dict[str, Any], unit: Unit, number: int) -> str:
    texts = row.get("texts")
    for text in texts if isinstance(texts, list) else ():
        key = text.get("source") if isinstance(text, dict) else None
        found = _KEY.match(key) if isinstance(key, str) else None
        if found:
            return found[1]
    return f"{unit.name}-{number}"
