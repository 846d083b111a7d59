"""The region format: Parquet files of crops with their task, target and origin, the same for every data set.

A file holds row groups of `ROW_GROUP` regions, so that one region costs the reading of one group. Files end in
`SUFFIX`, which keeps them apart from data sets that are published as Parquet themselves.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from PIL import Image, UnidentifiedImageError

from gravityocr.document import Task
from gravityocr.errors import InputError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile

SUFFIX = ".regions.parquet"
ROW_GROUP = 128
KEPT_GROUPS = 16
TASKS: tuple[Task, ...] = get_args(Task)

TargetOrigin = Literal["annotation", "teacher", "pending"]
"""Who wrote a target: the data set, a teacher model, or nobody yet (the target is then empty)."""
_PICTURE_ERRORS = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)


@dataclass(frozen=True)
class LabelledRegion:
    """One crop with its target.

    `region_id` is unique within a pool: source, document, page and number. `image` is an encoded PNG or JPEG of
    `width_px` x `height_px`; `bbox` says where on its page it was cut, None where it is the whole image of its source.
    `teacher` names the model of a teacher's target. *Units*: `bbox` in pixels of the page image, `page` counts from 0.
    """

    region_id: str
    image: bytes
    width_px: int
    height_px: int
    task: Task
    target: str
    source: str
    doc_id: str
    page: int = 0
    bbox: tuple[float, float, float, float] | None = None
    target_origin: TargetOrigin = "annotation"
    teacher: str | None = None

    def with_target(self, target: str, teacher: str) -> LabelledRegion:
        """Return the region with the target that a teacher wrote."""
        return replace(self, target=target, target_origin="teacher", teacher=teacher)

    def picture(self) -> Image.Image:
        """Decode the crop.

        *Raises*: InputError naming the region where the bytes are no picture.
        """
        try:
            picture = Image.open(io.BytesIO(self.image))
            picture.load()
        except UnidentifiedImageError as error:  # it would name the address of the bytes
            raise InputError(f"region {self.region_id}: its picture is broken (no image); convert it again") from error
        except _PICTURE_ERRORS as error:
            raise InputError(f"region {self.region_id}: its picture is broken ({error}); convert it again") from error
        return picture


def encode_picture(picture: Image.Image) -> bytes:
    """Return a crop as PNG bytes, grey where all its channels are equal."""
    grey = picture.convert("L")
    same = picture.mode == "L" or picture.convert("RGB").tobytes() == grey.convert("RGB").tobytes()
    buffer = io.BytesIO()
    (grey if same else picture.convert("RGB")).save(buffer, format="PNG", compress_level=6)
    return buffer.getvalue()


def region_schema() -> pyarrow.Schema:
    """Return the columns of a region file."""
    import pyarrow as pa

    text, number = pa.string(), pa.int32()
    return pa.schema(
        [
            ("region_id", text), ("image", pa.binary()), ("width_px", number), ("height_px", number), ("task", text),
            ("target", text), ("source", text), ("doc_id", text), ("page", number), ("bbox", pa.list_(pa.float32())),
            ("target_origin", text), ("teacher", text),
        ]
    )  # fmt: skip


def write_regions(file: Path, regions: Iterable[LabelledRegion]) -> int:
    """Write a region file, atomically and without holding more than a row group; return the number of regions."""
    from pyarrow.parquet import ParquetWriter

    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    n_written = 0
    with ParquetWriter(part, region_schema(), compression="zstd") as writer:
        for group in _groups(regions):
            writer.write_table(_table(group))
            n_written += len(group)
    part.replace(file)
    return n_written


def _groups(regions: Iterable[LabelledRegion]) -> Iterator[list[LabelledRegion]]:
    group: list[LabelledRegion] = []
    for region in regions:
        group.append(region)
        if len(group) == ROW_GROUP:
            yield group
            group = []
    if group:
        yield group


def _table(group: Sequence[LabelledRegion]) -> pyarrow.Table:
    import pyarrow as pa

    schema = region_schema()
    columns = {name: [getattr(region, name) for region in group] for name in schema.names}
    columns["bbox"] = [list(bbox) if bbox is not None else None for bbox in columns["bbox"]]
    return pa.table(columns, schema=schema)


def region_files(folder: Path) -> list[Path]:
    """Return the region files below a folder, in order; a file stands for itself.

    *Raises*: InputError where there is none.
    """
    files = [folder] if folder.is_file() else sorted(folder.rglob(f"*{SUFFIX}"))
    if not files:
        raise InputError(f"no region file (*{SUFFIX}) below {folder}; make some with gravityocr data convert")
    return files


class RegionFile:
    """A region file: its regions by number, and columns without the pictures."""

    def __init__(self, file: Path) -> None:
        """Open a region file.

        *Raises*: InputError where it is missing, no Parquet, or lacks a column.
        """
        self.file = file
        self._parquet = _open(file)
        metadata = self._parquet.metadata
        self.group_sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._ends = [*accumulate(self.group_sizes)]
        self._group = lru_cache(maxsize=KEPT_GROUPS)(self._read_group)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, number: int) -> LabelledRegion:
        if not 0 <= number < len(self):
            raise IndexError(number)
        group = bisect_right(self._ends, number)
        start = self._ends[group - 1] if group else 0
        return self._group(group)[number - start]

    def __iter__(self) -> Iterator[LabelledRegion]:
        for group in range(len(self._ends)):
            yield from self._read_group(group)

    def columns(self, *names: str) -> dict[str, list[Any]]:
        """Return some columns of all regions, without reading the others."""
        with _named(self.file):
            return cast("dict[str, list[Any]]", self._parquet.read(columns=[*names]).to_pydict())

    def _read_group(self, group: int) -> list[LabelledRegion]:
        with _named(self.file):
            records = self._parquet.read_row_group(group, use_threads=False).to_pylist()
        return [_region(self.file, record) for record in records]


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file where its contents are broken."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} is broken ({error}); make it again with gravityocr data convert") from error


def _open(file: Path) -> ParquetFile:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        parquet = ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} is no region file ({error}); make it again with gravityocr data convert") from error
    missing = [name for name in region_schema().names if name not in parquet.schema_arrow.names]
    if missing:
        raise InputError(f"{file} lacks the column {missing[0]}; make it again with gravityocr data convert")
    return parquet


def _region(file: Path, record: dict[str, Any]) -> LabelledRegion:
    names = region_schema().names
    values = {name: record[name] for name in names}
    if values["bbox"] is not None:
        values["bbox"] = tuple(values["bbox"])
    region = LabelledRegion(**values)
    if region.task not in TASKS or region.target_origin not in get_args(TargetOrigin):
        what = f"region {region.region_id} has the task {region.task!r} and the origin {region.target_origin!r}"
        raise InputError(f"{file}: {what}; choose out of {', '.join(TASKS)} and {', '.join(get_args(TargetOrigin))}")
    return region
