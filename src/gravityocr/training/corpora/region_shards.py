"""The region format: Parquet files of crops with their task, target and origin, the same for every data set.

A file holds row groups of `ROW_GROUP` regions, so that one region costs the reading of one group. Files end in
`SUFFIX`, which keeps them apart from data sets that are published as Parquet themselves.
"""

from __future__ import annotations

import io
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
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

    Fault = tuple[int, str]  # a row, and what is wrong with it

SUFFIX = ".regions.parquet"
ROW_GROUP = 128
KEPT_GROUPS = 16
TASKS: tuple[Task, ...] = get_args(Task)

TargetOrigin = Literal["annotation", "teacher", "pending"]
"""Who wrote a target: the data set, a teacher model, or nobody yet (the target is then empty)."""
ORIGINS: tuple[TargetOrigin, ...] = get_args(TargetOrigin)

_OPTIONAL = ("target", "bbox", "teacher")  # columns that may hold nulls; a target that is null is an empty one
_MOST = 2**31 - 1
_REMEDY = "make it again with gravityocr data convert"
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


def region_fault(region: LabelledRegion) -> str | None:
    """Say why no region file can hold a region; None where it can."""
    for name in ("region_id", "target", "source", "doc_id", "teacher"):
        text = getattr(region, name)
        if isinstance(text, str):
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                return f"half a surrogate pair in its {name}"
        elif text is not None or name != "teacher":
            return f"its {name} is no text"
    if not (1 <= region.width_px <= _MOST and 1 <= region.height_px <= _MOST):
        return "its size is no number of pixels"
    if not 0 <= region.page <= _MOST:
        return f"its page is not between 0 and {_MOST}"
    if region.bbox is not None and not (len(region.bbox) == 4 and all(map(math.isfinite, region.bbox))):
        return "its bbox is not four finite numbers"
    if region.task not in TASKS or region.target_origin not in ORIGINS:
        return f"task {region.task!r} and origin {region.target_origin!r} are not known"
    return None


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

        *Raises*: InputError where it is missing, no Parquet, lacks a column or holds something else in it. What is
        wrong with single regions is raised where they are read, naming the row.
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
        """Return some columns of all regions, without reading the others.

        *Raises*: InputError naming the row of a value that no region has.
        """
        with _named(self.file):
            table = self._parquet.read(columns=[*names])
        return cast("dict[str, list[Any]]", _checked(self.file, table, 0).to_pydict())

    def _read_group(self, group: int) -> list[LabelledRegion]:
        with _named(self.file):
            table = self._parquet.read_row_group(group, columns=region_schema().names, use_threads=False)
        start = self._ends[group - 1] if group else 0
        return [_region(record) for record in _checked(self.file, table, start).to_pylist()]


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file where its contents are broken."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} is broken ({error}); {_REMEDY}") from error


def _open(file: Path) -> ParquetFile:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        parquet = ParquetFile(file)
        fields = [*parquet.schema_arrow]
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise InputError(f"{file} is no region file ({error}); {_REMEDY}") from error
    for wanted in region_schema():
        kinds = [field.type for field in fields if field.name == wanted.name]
        if len(kinds) != 1:
            what = f"has {len(kinds)} columns {wanted.name}" if kinds else f"lacks the column {wanted.name}"
            raise InputError(f"{file} {what}; {_REMEDY}")
        if not _is_like(kinds[0], wanted.type):
            raise InputError(f"{file} holds {kinds[0]} in the column {wanted.name}, not {wanted.type}; {_REMEDY}")
    return parquet


def _is_like(kind: pyarrow.DataType, wanted: pyarrow.DataType) -> bool:
    """Tell whether a column's values can be read as those of the schema: other programs choose other widths."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_null(kind):
        return True  # of an empty file, or of nulls, which are told with their row
    if types.is_string(wanted):
        return bool(types.is_string(kind) or types.is_large_string(kind))
    if types.is_binary(wanted):
        return bool(types.is_binary(kind) or types.is_large_binary(kind))
    if types.is_integer(wanted):
        return bool(types.is_integer(kind))
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)))


def _checked(file: Path, table: pyarrow.Table, start: int) -> pyarrow.Table:
    """Return columns of a file in the types of the schema; `start` is the number of their first row.

    *Raises*: InputError naming the row of a value that no region has.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = region_schema()
    with _named(file):
        table = table.cast(pa.schema([schema.field(name) for name in table.column_names]))
        if "target" in table.column_names:
            place = table.column_names.index("target")
            table = table.set_column(place, schema.field("target"), pc.fill_null(table.column(place), ""))
        for name in table.column_names:
            fault = _fault(name, table[name])
            if fault is not None:
                row, what = fault
                raise InputError(f"{file}: row {start + row}{_id_at(table, row)}: {what}; {_REMEDY}")
    return table


def _fault(name: str, column: pyarrow.ChunkedArray) -> Fault | None:
    """Return the first row of a column that holds what no region has, and what that is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count and name not in _OPTIONAL:
        return _first(pc.is_null(column)), f"{name} is null"
    if pa.types.is_string(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            texts = column.cast(pa.binary()).to_pylist()
            return next(row for row, text in enumerate(texts) if text is not None and not _is_utf8(text)), (
                f"{name} is no UTF-8 text"
            )
    known: dict[str, Callable[[], pyarrow.ChunkedArray]] = {
        "task": lambda: pc.is_in(column, value_set=pa.array(TASKS)),
        "target_origin": lambda: pc.is_in(column, value_set=pa.array(ORIGINS)),
        "width_px": lambda: pc.greater(column, 0),
        "height_px": lambda: pc.greater(column, 0),
        "page": lambda: pc.greater_equal(column, 0),
    }
    if name in known:
        row = _first(pc.invert(known[name]()))
        return None if row < 0 else (row, f"{name} is {column[row].as_py()!r:.60}{_choices(name)}")
    return _box_fault(column) if name == "bbox" else None


def _choices(name: str) -> str:
    of = {"task": TASKS, "target_origin": ORIGINS}.get(name)
    return f" and not one of {', '.join(of)}" if of else ""


def _box_fault(column: pyarrow.ChunkedArray) -> Fault | None:
    import pyarrow.compute as pc

    boxes = column.combine_chunks()
    row = _first(pc.not_equal(pc.list_value_length(boxes), 4))
    if row < 0:
        place = _first(pc.invert(pc.fill_null(pc.is_finite(pc.list_flatten(boxes)), False)))
        row = pc.list_parent_indices(boxes)[place].as_py() if place >= 0 else -1
    return None if row < 0 else (row, f"bbox is {boxes[row].as_py()!r:.60} and not four finite numbers")


def _first(mask: pyarrow.ChunkedArray) -> int:
    """Return the place of the first true value, -1 where there is none."""
    import pyarrow.compute as pc

    return cast("int", pc.index(mask, True).as_py())


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _id_at(table: pyarrow.Table, row: int) -> str:
    """Name the region of a row where its id is among the columns and can be read."""
    import pyarrow as pa

    name = table["region_id"][row].cast(pa.binary()).as_py() if "region_id" in table.column_names else None
    return "" if name is None else f" (region {name.decode('utf-8', errors='replace')})"


def _region(record: dict[str, Any]) -> LabelledRegion:
    bbox = record["bbox"]
    return LabelledRegion(**{**record, "bbox": None if bbox is None else tuple(bbox)})
