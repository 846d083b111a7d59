"""The first pass over the inputs of a pool: filter the regions of a file, and note what stays as keys."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gravityocr.errors import InputError
from gravityocr.training.corpora.filters import (
    FilterConfig,
    Removal,
    removal_of,
    removed_example,
    tex_rejects,
)
from gravityocr.training.corpora.mixture import ORIGINS, RegionIndex, region_keys
from gravityocr.training.corpora.region_shards import ROW_GROUP, TASKS, LabelledRegion, RegionFile
from gravityocr.training.corpora.unwritable import tokenizer_of, unwritable

_KEYS = ("digest", "identity", "document", "page")


@dataclass(frozen=True)
class IndexedFile:
    """A region file to be filtered, and where its index goes; `checkpoint` must be able to write what stays."""

    file: Path
    out: Path
    filters: FilterConfig
    n_examples: int
    checkpoint: str | None = None


@dataclass
class IndexNotes:
    """What the first pass counted: regions read by source, task and origin; removals by reason, too."""

    sources: list[str] = field(default_factory=list)
    read: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    removed: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    examples: list[dict[str, Any]] = field(default_factory=list)


def index_file(job: IndexedFile) -> None:
    """Filter a region file and write its index, unless it is there already.

    *Raises*: InputError where the file cannot be read.
    """
    if job.out.exists():
        return
    notes = IndexNotes()
    kept_examples: Counter[tuple[str, str]] = Counter()
    numbers: list[tuple[int, ...]] = []
    keys: list[tuple[int, int, int, int]] = []
    sources: dict[str, int] = {}
    for row, region, removal in _judged(RegionFile(job.file), job.filters, job.checkpoint):
        group = (region.source, region.task, region.target_origin)
        notes.read[group] += 1
        if removal is not None:
            notes.removed[(*group, removal.reason)] += 1
            kept_examples[region.source, removal.reason] += 1
            if kept_examples[region.source, removal.reason] <= job.n_examples:
                notes.examples.append(asdict(removed_example(region, removal)))
            continue
        source = sources.setdefault(region.source, len(sources))
        task, origin = TASKS.index(region.task), ORIGINS.index(region.target_origin)
        numbers.append((row, len(region.image), source, task, origin))
        keys.append(region_keys(region))
    record = {
        "sources": [*sources],
        "read": [[*group, n] for group, n in notes.read.items()],
        "removed": [[*group, n] for group, n in notes.removed.items()],
        "examples": notes.examples,
    }
    part = job.out.with_name(job.out.name + ".part")
    with part.open("wb") as stream:
        np.savez(
            stream,
            numbers=np.array(numbers, dtype=np.int32).reshape(-1, 5),
            keys=np.array(keys, dtype=np.uint64).reshape(-1, len(_KEYS)),
            notes=np.frombuffer(json.dumps(record).encode("utf-8"), dtype=np.uint8),
        )
    part.replace(job.out)


def _judged(
    regions: RegionFile, config: FilterConfig, checkpoint: str | None
) -> Iterator[tuple[int, LabelledRegion, Removal | None]]:
    """Yield row, region and why it is left out; TeX sees a batch of those that all else lets pass."""
    batch: list[tuple[int, LabelledRegion, Removal | None]] = []
    for row, region in enumerate(regions):
        batch.append((row, region, removal_of(region, config) or _by_tokenizer(region, checkpoint)))
        if len(batch) == ROW_GROUP:
            yield from _after_tex(batch, config)
            batch = []
    yield from _after_tex(batch, config)


def _by_tokenizer(region: LabelledRegion, checkpoint: str | None) -> Removal | None:
    if checkpoint is None:
        return None
    tokenizer = tokenizer_of(checkpoint)
    lacking = unwritable(tokenizer, region.target, tokenizer.encode(region.target, add_special_tokens=False).ids)
    return Removal("unwritable", f"the tokenizer of {checkpoint} lacks {lacking}") if lacking else None


def _after_tex(
    batch: Sequence[tuple[int, LabelledRegion, Removal | None]], config: FilterConfig
) -> Iterator[tuple[int, LabelledRegion, Removal | None]]:
    rejects = iter(tex_rejects([region for _, region, removal in batch if removal is None], config.latex))
    for row, region, removal in batch:
        yield row, region, removal if removal is not None else next(rejects)


def _read_part(file: Path) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    try:
        with np.load(file) as content:
            return json.loads(content["notes"].tobytes()), content["numbers"], content["keys"]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{file} of the unfinished pool is broken ({error}); remove it and run again") from error


def read_index(files: Sequence[Path]) -> tuple[RegionIndex, IndexNotes]:
    """Return the indices of all input files as one, and their counts; sources are numbered by name."""
    notes = IndexNotes()
    parts: list[tuple[list[str], np.ndarray, np.ndarray]] = []
    for file in files:
        record, numbers, keys = _read_part(file)
        parts.append((record["sources"], numbers, keys))
        notes.read.update({(row[0], row[1], row[2]): row[3] for row in record["read"]})
        notes.removed.update({(row[0], row[1], row[2], row[3]): row[4] for row in record["removed"]})
        notes.examples += record["examples"]
    notes.sources = sorted({source for sources, _, _ in parts for source in sources})
    places = {source: number for number, source in enumerate(notes.sources)}
    indices = []
    for unit, (sources, numbers, keys) in enumerate(parts):
        renumbered = np.array([places[source] for source in sources], dtype=np.int32)
        indices.append(
            RegionIndex(
                unit=np.full(len(numbers), unit, dtype=np.int32),
                row=numbers[:, 0],
                n_bytes=numbers[:, 1],
                source=renumbered[numbers[:, 2]] if len(numbers) else numbers[:, 2],
                task=numbers[:, 3].astype(np.uint8),
                origin=numbers[:, 4].astype(np.uint8),
                **{name: keys[:, column] for column, name in enumerate(_KEYS)},
            )
        )
    return RegionIndex.joined(indices), notes
