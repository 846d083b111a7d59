"""What a run has finished, on record in its output folder, so that the next one can leave it alone."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.export.files import read_regular
from gravityocr.pipeline.export.folders import SHARED_FOLDER

MANIFEST_NAME = ".gravityocr-run.jsonl"
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_HASHED_BYTES = 64 * 2**20  # larger files are told apart by size and time alone


@dataclass(frozen=True)
class FileState:
    """What tells whether an input is still the same; a URL has its address only.

    *Units*: `size` in bytes; `mtime_ns` in nanoseconds; `sha256` of files of up to 64 MiB.
    """

    identity: str
    size: int | None = None
    mtime_ns: int | None = None
    sha256: str | None = None

    @classmethod
    def of(cls, identity: str, path: str | Path | None, like: FileState | None = None) -> FileState:
        """Look at an input; `path` is None for what is no file here.

        A file of the size and time of `like` is taken to have its hash.
        """
        try:
            found = os.stat(path) if path is not None else None
        except (OSError, ValueError):
            found = None
        if path is None or found is None:
            return cls(identity)
        if like is not None and (like.size, like.mtime_ns) == (found.st_size, found.st_mtime_ns):
            return cls(identity, found.st_size, found.st_mtime_ns, like.sha256)
        sha256 = _hash(path) if found.st_size <= _HASHED_BYTES else None
        return cls(identity, found.st_size, found.st_mtime_ns, sha256)

    def same(self, other: FileState) -> bool:
        """Tell whether both are the same content: of one size and time, or of one hash."""
        if (self.identity, self.size) != (other.identity, other.size):
            return False
        return self.mtime_ns == other.mtime_ns or (self.sha256 is not None and self.sha256 == other.sha256)


def _hash(path: str | Path) -> str | None:
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


@dataclass(frozen=True)
class Record:
    """One finished input: its state when it was read, the settings, the files that came of it, its line of the summary.

    `again` is true where a page or region failed, so that another try may do better. `outputs` are paths below the
    output folder; `files` are these and the pictures, with their sizes. *Units*: bytes.
    """

    state: FileState
    settings: str
    outputs: tuple[str, ...] = ()
    files: dict[str, int] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    again: bool = False


class Manifest:
    """The records of an output folder: one JSON line an input, the last one of an input counting.

    A line is written at once and whole; one that a killed run left torn is passed over, and so is one that says what
    no run can have written.

    *Raises*: ConfigError where the record is a link or no file.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / MANIFEST_NAME
        self._records: dict[str, Record] = {}
        self._damaged: set[str] = set()
        self._settings: dict[str, dict[str, Any]] = {}
        self._torn = False
        self._guard = threading.Lock()  # inputs are begun in one thread and finished in another
        n_lines = self._load()
        if n_lines > 2 * (len(self._records) + len(self._settings)) + 100:
            self._compact()

    def record_of(self, identity: str) -> Record | None:
        """Return the last record of an input."""
        return self._records.get(identity)

    def is_damaged(self, identity: str) -> bool:
        """Tell whether an input has a record that says what no run can have written."""
        return identity in self._damaged

    def trouble(self, record: Record, document_folder: Path) -> str | None:
        """Say why the files of a record are not those that were written, None where they are.

        They are below the document's folder, or in the folder that all documents share, with no link on the way.
        """
        for name, size in record.files.items():
            parts = Path(name).parts
            if parts[:-1] != (SHARED_FOLDER,) and self.folder / parts[0] != document_folder:
                return f"{name} is of another document"
            place, found = self.folder, None
            for part in parts:
                place = place / part
                try:
                    found = os.lstat(place)
                except OSError:
                    return f"{name} is gone"
                if stat.S_ISLNK(found.st_mode):
                    return f"{os.path.relpath(place, self.folder)} is a link now"
            if found is None or not stat.S_ISREG(found.st_mode):
                return f"{name} is no file any more"
            if found.st_size != size:
                return f"{name} has changed since"
        return None

    def changes(self, record: Record, settings: Mapping[str, Any]) -> list[str]:
        """Say how the settings of a record differ from those of today, as `source.dpi: 200.0 -> 100.0`."""
        then, now = self._settings.get(record.settings, {}), dict(settings)
        names = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
        return [f"{name}: {then.get(name)} -> {now.get(name)}" for name in names]

    def add_settings(self, settings: Mapping[str, Any]) -> str:
        """Put settings on record once and return the name that records give them."""
        name = settings_hash(settings)
        if name not in self._settings:
            self._settings[name] = dict(settings)
            self._append({"settings": name, "values": dict(settings)})
        return name

    def add(self, record: Record) -> None:
        """Put a finished input on record."""
        self._records[record.state.identity] = record
        self._append(asdict(record))

    def forget(self, identity: str) -> None:
        """Take an input off the record before its outputs change: they no longer are what the record says."""
        self._damaged.discard(identity)
        if self._records.pop(identity, None) is not None:
            self._append({"forget": identity})

    def relative(self, path: str | Path) -> str:
        """Return an output's path below the output folder."""
        return os.path.relpath(path, self.folder)

    def _load(self) -> int:
        try:
            _check_file(self.path)
            data = read_regular(self.path)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read ({error.strerror}); check its permissions") from error
        self._torn = bool(data) and not data.endswith(b"\n")
        lines = data.splitlines()
        for line in lines:
            self._take(line)
        return len(lines)

    def _take(self, line: bytes) -> None:
        """A line that is torn, strange or of another version tells nothing: its input is done again."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(found, dict):
            return
        gone = found.get("forget")
        if isinstance(gone, str):
            self._records.pop(gone, None)
            self._damaged.discard(gone)
        elif isinstance(found.get("settings"), str) and isinstance(found.get("values"), dict):
            self._settings[found["settings"]] = found["values"]
        elif isinstance(found.get("state"), dict) and isinstance(found["state"].get("identity"), str):
            identity = found["state"]["identity"]
            record = _record(found)
            if record is None:
                self._records.pop(identity, None)
                self._damaged.add(identity)
            else:
                self._damaged.discard(identity)
                self._records[identity] = record

    def _append(self, value: dict[str, Any]) -> None:
        line = _line(value)
        with self._guard:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                _check_file(self.path)
                with open(os.open(self.path, _APPEND, 0o644), "ab") as stream:
                    stream.write(b"\n" + line if self._torn else line)
                    stream.flush()
                    os.fsync(stream.fileno())
            except OSError as error:
                raise InputError(f"{self.path}: cannot be written ({error.strerror}); choose another folder") from error
            self._torn = False

    def _compact(self) -> None:
        """Leave the last records only, in a new file that takes the place of the old one."""
        used = {record.settings for record in self._records.values()}
        self._settings = {name: values for name, values in self._settings.items() if name in used}
        lines = [_line({"settings": name, "values": values}) for name, values in self._settings.items()]
        lines += [_line(asdict(record)) for record in self._records.values()]
        try:
            with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as stream:
                stream.writelines(lines)
            os.replace(stream.name, self.path)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror}); choose another folder") from error
        self._torn = False


def _check_file(path: Path) -> None:
    """Open no pipe, which would be waited for, and follow no link: what it leads to would be written to."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "no file"
        raise ConfigError(f"{path}: cannot be the record of this folder's runs: it is {what}; remove it")


def _record(found: Mapping[str, Any]) -> Record | None:
    """Return the record that a line holds, None where no run can have written it."""
    state, outputs, files, report = (found.get(name) for name in ("state", "outputs", "files", "report"))
    whole = (
        isinstance(state, dict)
        and state.keys() == {"identity", "size", "mtime_ns", "sha256"}
        and all(_is_count(state[name], none=True) for name in ("size", "mtime_ns"))
        and isinstance(state["sha256"], (str, type(None)))
        and isinstance(found.get("settings"), str)
        and isinstance(found.get("again"), bool)
        and isinstance(files, dict)
        and all(_is_below(name) and _is_count(size) for name, size in files.items())
        and isinstance(outputs, list)
        and outputs
        and all(isinstance(name, str) and name in files for name in outputs)
        and isinstance(report, dict)
        and _is_report(report)
    )
    if not whole or not isinstance(state, dict) or not isinstance(report, dict) or files is None or outputs is None:
        return None
    return Record(FileState(**state), found["settings"], tuple(outputs), files, report, found["again"])


def _is_count(value: object, none: bool = False) -> bool:
    return (none and value is None) or (isinstance(value, int) and not isinstance(value, bool))


def _is_below(name: str) -> bool:
    """Tell whether a path, taken from the output folder, stays in a folder below it."""
    path = Path(name)
    return "\0" not in name and not path.is_absolute() and len(path.parts) > 1 and ".." not in path.parts


def _is_report(report: Mapping[str, Any]) -> bool:
    compared = report.get("text_layer")
    return (
        report.get("status") in ("ok", "partial", "failed")
        and all(_is_count(report.get(name)) for name in ("n_pages", "n_regions"))
        and isinstance(report.get("error"), (str, type(None)))
        and isinstance(report.get("notes"), list)
        and all(isinstance(note, str) for note in report["notes"])
        and (compared is None or (isinstance(compared, dict) and _is_comparison(compared)))
    )


def _is_comparison(compared: Mapping[str, Any]) -> bool:
    pages = compared.get("disagreeing_pages")
    return _is_count(compared.get("n_compared")) and isinstance(pages, list) and all(map(_is_count, pages))


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, default=str).encode() + b"\n"  # ASCII holds names that are no Unicode


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Return a short name of settings: equal settings have equal names."""
    text = json.dumps(dict(settings), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def flat_settings(settings: object, secret: frozenset[str] = frozenset(), prefix: str = "") -> dict[str, Any]:
    """Return dataclasses and mappings as one table of dotted names; a `secret` value is only `given`."""
    items = settings if isinstance(settings, Mapping) else vars(settings)
    found: dict[str, Any] = {}
    for name, value in items.items():
        dotted = f"{prefix}{name}"
        if (is_dataclass(value) and not isinstance(value, type)) or isinstance(value, Mapping):
            found |= flat_settings(value, secret, f"{dotted}.")
        elif dotted in secret and value is not None:
            found[dotted] = "given"
        else:
            found[dotted] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, (frozenset, set)):
        return sorted(map(str, value))
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
