"""Read what a benchmark asks for, whatever its format: its documents, and the texts, tables and formulas in them.

`.json` is OmniDocBench's annotation file; `.jsonl` holds one object a line with `id`, `task`, `text` and, where known,
`doc_id`. Ignored blocks, headers and the like count too: they stand on the benchmark's pages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from gravityocr.document import Task
from gravityocr.errors import InputError
from gravityocr.metrics.runs.datasets import claim, read_rows, string_of
from gravityocr.training.corpora.region_shards import TASKS

_LONG_NAME, _LONG_COUNT = 20, 12  # characters
_KEYS = "id, task and text"
_CONTENT: dict[str, tuple[Task, tuple[str, ...]]] = {
    "table": ("table", ("html", "latex")),
    "equation_isolated": ("formula", ("latex", "text")),
}
_SUFFIX = re.compile(r"\.(?:pdf|png|jpe?g|tiff?|webp|bmp|xml|json|gz|tar)$")
_PAGE = re.compile(r"(?:\.pdf[._-]\d{1,5}|[._-](?:page|pg|p)[._-]?\d{1,5})$")
_ARXIV = re.compile(r"(?<!\d)\d{2}(?:0[1-9]|1[0-2])\.\d{4,5}(?!\d)|\b[a-z-]{4,8}/\d{7}(?!\d)")
_PMC = re.compile(r"pmc\d{5,}")


@dataclass(frozen=True)
class BenchmarkItem:
    """A text, table or formula of a benchmark; `id` names it in the report."""

    id: str
    task: Task
    text: str


@dataclass(frozen=True)
class Benchmark:
    """All that a benchmark holds; `doc_ids` as it names them, `sha256` of the file."""

    file: Path
    items: tuple[BenchmarkItem, ...]
    doc_ids: tuple[str, ...]
    sha256: str


def read_benchmark(file: Path) -> Benchmark:
    """Read a benchmark's file.

    *Raises*: InputError for a file of another format, one without any item, and a line with what no item has.
    """
    if file.suffix.lower() not in (".json", ".jsonl"):
        raise InputError(f"{file}: is neither .json nor .jsonl; give OmniDocBench.json, or JSONL of {_KEYS}")
    if file.suffix.lower() == ".json":
        # The scorers behind it take seconds to import, and every `gravityocr data` would wait for them.
        from gravityocr.metrics.runs.benchmark_sets import read_annotations

        pages = read_annotations(file)
        items = tuple(item for name, page in pages.items() for item in _page_items(name, page))
        doc_ids = tuple(pages)
    else:
        items, doc_ids = _rows(file)
    if not items:
        raise InputError(f"{file}: holds no text, table or formula; there is nothing to decontaminate against")
    return Benchmark(file, items, doc_ids, hashlib.sha256(file.read_bytes()).hexdigest())


def _page_items(name: str, page: dict[str, object]) -> Iterator[BenchmarkItem]:
    for number, block in enumerate(cast("list[dict[str, object]]", page["layout_dets"])):
        task, keys = _CONTENT.get(str(block["category_type"]), ("text", ("text",)))
        for key in keys:
            text = block.get(key)
            if isinstance(text, str) and text.strip():
                yield BenchmarkItem(f"{name}#{block.get('anno_id', number)}", task, text)


def _rows(file: Path) -> tuple[tuple[BenchmarkItem, ...], tuple[str, ...]]:
    items: list[BenchmarkItem] = []
    doc_ids: dict[str, None] = {}
    seen: dict[str, int] = {}
    for number, row in read_rows(file, _KEYS):
        where, remedy = f"{file}, line {number}", f"each line must be one object with {_KEYS}"
        name = string_of(row, "id", where, remedy)
        claim(seen, name, number, file)
        task = string_of(row, "task", where, remedy)
        if task not in TASKS:
            raise InputError(f"{where}: the task is {task!r}; choose one of {', '.join(TASKS)}")
        items.append(BenchmarkItem(name, task, string_of(row, "text", where, remedy)))
        if row.get("doc_id") is not None:
            doc_ids[string_of(row, "doc_id", where, "name the document")] = None
    return tuple(items), tuple(doc_ids)


def document_keys(doc_id: str, min_characters: int) -> frozenset[str]:
    """Return the names by which a document is known elsewhere: without folder, page and suffix, and its numbers.

    Short names and mere counts are no one's alone and left out.

    >>> sorted(document_keys("images/db_10.tar_1701.04170.gz_paper_8_ori.jpg", 8))
    ['1701.04170', 'db_10.tar_1701.04170.gz_paper_8_ori']
    >>> sorted(document_keys("PMC3576793_00004.jpg", 8)), sorted(document_keys("scan_page_30000.png", 8))
    (['pmc3576793', 'pmc3576793_00004'], [])
    """
    whole = doc_id.casefold().strip()
    name = PurePosixPath(whole.replace("\\", "/")).name
    keys = {*_ARXIV.findall(whole), *_PMC.findall(whole)}
    while (shorter := _SUFFIX.sub("", name)) != name:
        name = shorter
    document = _SUFFIX.sub("", _PAGE.sub("", name))
    has_digit = any(character.isdigit() for character in document)
    is_telling = has_digit or len(document) >= _LONG_NAME
    is_count = document.isdigit() and len(document) < _LONG_COUNT
    if len(document) >= min_characters and is_telling and not is_count:
        keys |= {name, document}
    return frozenset(keys)
