"""Conversion of published data sets into region files: a shard a unit, restartable, nothing lost without a word.

A converter names the units of a source (an archive, a Parquet file, a slice of a list) and turns each into regions and
skipped samples. The driver writes `OUT/<source>/<unit>.regions.parquet` and, after it, `<unit>.report.json` with the
counts and every skipped sample. A unit whose report and shard are there is kept; delete either to have it made again.
"""

from __future__ import annotations

import json
import lzma
import multiprocessing
import re
import tarfile
import traceback
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError, GravityOCRError, InputError
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, region_fault, write_regions
from gravityocr.training.corpora.shard_outputs import make_out
from gravityocr.training.corpora.table_markup import TABLE_HEADS, TableHead

ConversionSplit = Literal["train", "all"]
UnitStatus = Literal["made", "kept", "failed"]
SPLITS: tuple[ConversionSplit, ...] = get_args(ConversionSplit)
LAYOUTS = ("cdla", "none")
MAX_PROCESSES = 256
REPORT_SUFFIX = ".report.json"

_UNIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# What a broken or half downloaded file of a unit makes the readers raise.
_UNIT_ERRORS = (
    GravityOCRError, OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
# What only a fault of the program raises: its unit fails under that name, and the others go on.
_OWN_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, NameError, RuntimeError,
    SyntaxError, TypeError,
)  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """What is converted, and restarted, at a time: an archive, a Parquet file, a folder, a slice of a list.

    `name` is unique within its source and made of letters, digits, - and _. `part` is the converter's own (the name of
    a split, a range of lines).
    """

    name: str
    files: tuple[Path, ...]
    part: str = ""


@dataclass(frozen=True)
class Skipped:
    """A sample that could not be converted: `where` names file and sample.

    Reports count by the part of `reason` before its first colon, so what differs from sample to sample comes after it.
    """

    where: str
    reason: str


@dataclass(frozen=True)
class OtherSplit:
    """A sample of a split that is not asked for: only counted."""


Found = LabelledRegion | Skipped | OtherSplit
"""What a converter may yield."""


@dataclass(frozen=True)
class ConversionConfig:
    """Say what of a source is converted and how.

    `limit` is the most regions a unit gives, None for all. `layout` names the detector that cuts pages; `dpi` is the
    resolution at which sources that are published as PDF are drawn, by default that of inference; `table_head` says
    what becomes of the header rows of annotated tables. `wear` from 0, clean, to 1 wears our own rendered samples as
    training does.
    """

    split: ConversionSplit = "train"
    limit: int | None = None
    processes: int = 1
    layout: str = "cdla"
    dpi: int = 200
    table_head: TableHead = "td"
    wear: float = 0.0

    def __post_init__(self) -> None:
        most = 1_000_000_000
        check_numbers(self, "convert ", ("limit",), limit=(1, most), processes=(1, MAX_PROCESSES), dpi=(36, 600),
                      wear=(0.0, 1.0))  # fmt: skip
        if self.split not in SPLITS:
            raise ConfigError(f"--split {self.split!r} is unknown; choose one of {', '.join(SPLITS)}")
        if self.layout not in LAYOUTS:
            raise ConfigError(f"--layout {self.layout!r} is unknown; choose one of {', '.join(LAYOUTS)}")
        if self.table_head not in TABLE_HEADS:
            raise ConfigError(f"--table-head {self.table_head!r} is unknown; choose one of {', '.join(TABLE_HEADS)}")

    def settings(self) -> dict[str, Any]:
        """Return the settings on which the regions depend, as a report keeps them."""
        values = asdict(self)
        del values["processes"]
        return values


class Converter(Protocol):
    """A source of regions. It is sent to other processes, so it holds settings and no open files."""

    name: str

    def units(self, root: Path) -> list[Unit]:
        """List the units below a folder.

        *Raises*: InputError naming the expected layout where the folder does not have it.
        """
        ...

    def regions(self, unit: Unit) -> Iterator[Found]:
        """Yield the regions of a unit one by one, and what could not or should not be converted.

        *Raises*: InputError where the unit as a whole cannot be read.
        """
        ...


@dataclass(frozen=True)
class UnitReport:
    """What became of a unit: `reasons` counts the skipped samples by kind, `tasks` the regions by task.

    `n_other_splits` counts the samples of splits that were not asked for, where the source lists them together.
    """

    source: str
    unit: str
    status: UnitStatus
    n_regions: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    error: str | None = None
    n_other_splits: int = 0

    @property
    def n_skipped(self) -> int:
        """Return how many samples were skipped."""
        return len(self.skipped)


def unit_name(text: str) -> str:
    """Make the name of a unit out of a path or title.

    >>> unit_name("train/part_00.tar.gz")
    'train-part_00-tar-gz'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-_") or "unit"


def convert_source(converter: Converter, root: Path, out: Path, config: ConversionConfig) -> Iterator[UnitReport]:
    """Convert the units that are not there yet; yield what became of each, those that are kept first.

    A unit that fails is reported and leaves no shard; the others go on.

    *Raises*: InputError where the root lacks the layout of the source, or `out` holds units made with other settings;
    ConfigError where nothing can be written to `out`.
    """
    units = converter.units(root)
    _check_names(converter.name, units)
    folder = out / converter.name
    make_out(folder, out)
    missing: list[Unit] = []
    kept: list[UnitReport] = []
    for unit in units:
        report = _kept(converter.name, unit, folder, config)
        if report is None:
            missing.append(unit)
        else:
            kept.append(report)
    yield from kept
    if config.processes == 1 or len(missing) < 2:
        for unit in missing:
            yield convert_unit(converter, unit, folder, config)
        return
    yield from _in_processes(converter, missing, folder, config)


def convert_unit(converter: Converter, unit: Unit, folder: Path, config: ConversionConfig) -> UnitReport:
    """Write the shard and the report of one unit into the folder of its source."""
    shard, note = folder / f"{unit.name}{SUFFIX}", folder / f"{unit.name}{REPORT_SUFFIX}"
    # A report vouches for its shard: it goes first and comes last.
    note.unlink(missing_ok=True)
    tally = _Tally()
    try:
        write_regions(shard, tally.count(converter.regions(unit), unit, config.limit))
        report = tally.report(converter.name, unit.name, "made")
    except _UNIT_ERRORS as error:
        shard.unlink(missing_ok=True)
        what = str(error) if isinstance(error, GravityOCRError) else f"{type(error).__name__}: {error}"
        report = tally.report(converter.name, unit.name, "failed", what)
    except _OWN_FAULTS as error:
        shard.unlink(missing_ok=True)
        report = tally.report(converter.name, unit.name, "failed", _own_fault(error))
    finally:
        shard.with_name(shard.name + ".part").unlink(missing_ok=True)
    _write_report(note, report, unit, config)
    return report


def _own_fault(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}"
    return f"internal error: {type(error).__name__}: {str(error)[:200]} ({where}); please report it"


def read_report(file: Path) -> UnitReport:
    """Read the report of a unit.

    *Raises*: InputError where it is missing or broken.
    """
    return _report_of(file, _read_record(file))


def _in_processes(
    converter: Converter, units: Sequence[Unit], folder: Path, config: ConversionConfig
) -> Iterator[UnitReport]:
    # Forked children would inherit PDFium's state and the locks of its threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(config.processes, len(units)), mp_context=context)
    try:
        jobs = {pool.submit(convert_unit, converter, unit, folder, config): unit for unit in units}
        for job in as_completed(jobs):
            try:
                yield job.result()
            except BrokenProcessPool:
                what = "its process was killed (out of memory?); run this again with fewer --processes"
                yield UnitReport(converter.name, jobs[job].name, "failed", error=what)
    finally:
        # Whoever interrupts this does not want to wait for units that have not begun.
        pool.shutdown(cancel_futures=True)


class _Tally:
    """Counts what a converter yields on its way into the shard."""

    def __init__(self) -> None:
        self.tasks: Counter[str] = Counter()
        self.origins: Counter[str] = Counter()
        self.skipped: list[Skipped] = []
        self.n_other_splits = 0

    def count(self, found: Iterator[Found], unit: Unit, limit: int | None) -> Iterator[LabelledRegion]:
        for item in found:
            if isinstance(item, Skipped):
                self.skipped.append(item)
                continue
            if isinstance(item, OtherSplit):
                self.n_other_splits += 1
                continue
            fault = region_fault(item)
            if fault is not None:
                where = f"{unit.files[0].name}, {item.region_id[:200]}"
                self.skipped.append(Skipped(where, f"unstorable region: {fault}"))
                continue
            self.tasks[item.task] += 1
            self.origins[item.target_origin] += 1
            yield item
            if self.tasks.total() == limit:
                return

    def report(self, source: str, unit: str, status: UnitStatus, error: str | None = None) -> UnitReport:
        n_regions = 0 if status == "failed" else self.tasks.total()
        tasks, origins = ({}, {}) if status == "failed" else (dict(self.tasks), dict(self.origins))
        reasons = Counter(item.reason.split(":")[0] for item in self.skipped)
        return UnitReport(
            source, unit, status, n_regions, tasks, origins, dict(reasons), tuple(self.skipped), error,
            self.n_other_splits,
        )  # fmt: skip


def _check_names(source: str, units: Sequence[Unit]) -> None:
    seen: dict[str, Unit] = {}
    for unit in units:
        if not _UNIT_NAME.fullmatch(unit.name):
            raise InputError(
                f"{source}: {unit.name!r} is no name of a unit; rename {unit.files[0]} to letters and digits"
            )
        if unit.name in seen:
            both = f"{seen[unit.name].files[0]} and {unit.files[0]}"
            raise InputError(f"{source}: {both} would both become {unit.name}; rename one of them")
        seen[unit.name] = unit


def _kept(source: str, unit: Unit, folder: Path, config: ConversionConfig) -> UnitReport | None:
    """Return the report of a unit that was made of the same files; None where it is to be made."""
    note = folder / f"{unit.name}{REPORT_SUFFIX}"
    if not note.is_file() or not (folder / f"{unit.name}{SUFFIX}").is_file():
        return None
    record = _read_record(note)
    report = _report_of(note, record)
    if report.status == "failed" or record.get("inputs") != _inputs(unit):
        return None
    if record.get("settings") != config.settings():
        raise InputError(
            f"{folder} holds {unit.name} made with {_as_text(record.get('settings'))} and not "
            f"{_as_text(config.settings())}; choose another --out, or delete that folder"
        )
    return UnitReport(**{**vars(report), "source": source, "status": "kept"})


def _as_text(settings: object) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items()) if isinstance(settings, dict) else "nothing"


def _inputs(unit: Unit) -> list[list[Any]]:
    """List the files of a unit with their sizes: a download that went on makes the unit anew."""
    return [[file.name, file.stat().st_size if file.is_file() else 0, unit.part] for file in unit.files]


def _write_report(file: Path, report: UnitReport, unit: Unit, config: ConversionConfig) -> None:
    record = {**asdict(report), "n_skipped": report.n_skipped, "settings": config.settings(), "inputs": _inputs(unit)}
    part = file.with_name(file.name + ".part")
    # Names of files need not be text: halves of surrogate pairs become JSON's own escapes.
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    part.write_text(text, encoding="utf-8", errors="backslashreplace")
    part.replace(file)


def _read_record(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{file} cannot be read ({error}); delete it, and run gravityocr data convert again"
        ) from error
    if not isinstance(record, dict):
        raise InputError(f"{file} is no report of a unit; delete it, and run gravityocr data convert again")
    return record


def _report_of(file: Path, record: dict[str, Any]) -> UnitReport:
    try:
        values = {name: record[name] for name in UnitReport.__dataclass_fields__ if name in record}
        values["skipped"] = tuple(Skipped(**item) for item in record["skipped"])
        return UnitReport(**values)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{file} is no report of a unit ({error}); delete it, and run gravityocr data convert again"
        ) from error
