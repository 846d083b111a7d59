"""Predictions beside their references, read from files: every fault has the name of its file, line and remedy.

Text files are UTF-8; a byte-order mark is dropped, CRLF and CR become LF, and bytes that are no UTF-8 become U+FFFD and
leave a `bad_encoding` note. Only ends of line split JSON lines, never the separators that Unicode knows besides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gravityocr.errors import InputError
from gravityocr.metrics.runs.input_files import UnreadableFileError, read_text

NoteStatus = Literal[
    "missing_prediction", "unreadable_prediction", "empty_prediction", "shared_prediction", "bad_encoding",
    "line_count", "bad_order",
]  # fmt: skip

TEXT_SUFFIXES = (".html", ".htm", ".md", ".mmd", ".txt", ".tex")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_NESTED = 100
_N_NAMED = 3  # how many names an error message lists


@dataclass(frozen=True)
class Note:
    """What was wrong with one input that is scored all the same; `id` names the sample or the file."""

    id: str
    status: NoteStatus
    message: str


@dataclass(frozen=True)
class Pair:
    """One prediction and its reference; `attributes` name the groups it belongs to, `image` its picture's stem."""

    id: str
    pred: str
    ref: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None


@dataclass(frozen=True)
class PairSet:
    """The pairs of a set in its own order.

    `missing` names the references that no prediction was found for (their pairs hold an empty one), `extra` the
    predictions that no reference was found for, which are not scored.
    """

    pairs: tuple[Pair, ...]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


# Files ---------------------------------------------------------------------------------------------


def read_prediction(path: Path, name: str) -> tuple[str | None, list[Note]]:
    """Read the prediction for the sample `name`; None where it cannot be read. Notes tell what is wrong with it."""
    try:
        text, fault = read_text(path)
    except UnreadableFileError as error:
        return None, [unreadable_note(name, error)]
    return text, [Note(name, "bad_encoding", f"{path}: {fault}")] if fault else []


def unreadable_note(name: str, error: UnreadableFileError) -> Note:
    """Return the note on a prediction that cannot be read."""
    return Note(name, "unreadable_prediction", f"{error}; scored as an empty one")


def clean_string(text: str) -> tuple[str, str | None]:
    """Replace halves of surrogate pairs, which JSON escapes can smuggle in, and tell of it."""
    cleaned, n_halves = _LONE_SURROGATE.subn("\ufffd", text)
    return cleaned, f"holds {n_halves} halves of surrogate pairs, read as U+FFFD" if n_halves else None


def read_json(path: Path, wanted: str) -> Any:
    """Read a JSON file; `wanted` says in the error what it should hold.

    *Raises*: InputError where it cannot be read or is no JSON.
    """
    text, fault = read_text(path)
    try:
        return _loads(text)
    except json.JSONDecodeError as error:
        what = f"{fault}; " if fault else ""
        at = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{path}, {at}: is no JSON ({what}{error.msg}); it must hold {wanted}") from error
    except (ValueError, RecursionError) as error:  # a number of many digits, or a thousand brackets
        raise InputError(f"{path}: is no JSON that can be read ({error}); it must hold {wanted}") from error


def read_rows(path: Path, keys: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of a JSONL file, blank lines left out; `keys` says what a line must hold.

    *Raises*: InputError for a line that is no JSON object, and for a file without any.
    """
    text, fault = read_text(path)
    n_rows = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = _loads(line)
        except (ValueError, RecursionError) as error:
            what = f"{fault}; " if fault else ""
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise InputError(
                f"{path}, line {number}: is no JSON ({what}{reason}); each line must be one object with {keys}"
            ) from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: holds {_kind(row)}; each line must be one object with {keys}")
        n_rows += 1
        yield number, row
    if n_rows == 0:
        raise InputError(f"{path}: is empty; it must hold one object with {keys} a line")


def _loads(text: str) -> Any:
    """Parse JSON; what nests so deep that no process could hand it on is refused.

    *Raises*: ValueError and RecursionError.
    """
    value = json.loads(text)
    level = [value]
    for _ in range(_MOST_NESTED):
        level = [
            child
            for one in level
            for child in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
            if isinstance(child, dict | list)
        ]
        if not level:
            return value
    raise ValueError(f"it nests deeper than {_MOST_NESTED} levels")


def string_of(row: Mapping[str, Any], key: str, where: str, remedy: str) -> str:
    """Return the string at `key`; a whole number is read as its digits.

    *Raises*: InputError naming `where` and the `remedy`.
    """
    if key not in row:
        raise InputError(f"{where}: has no {key!r} (only {names(sorted(map(str, row)))}); {remedy}")
    value = row[key]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"{where}: {key!r} is {_kind(value)}, not a string; {remedy}")
    return value


def names(found: Sequence[str]) -> str:
    """Join a few names for a message and count the rest."""
    listed = ", ".join(found[:_N_NAMED]) or "nothing"
    return f"{listed} and {len(found) - _N_NAMED} more" if len(found) > _N_NAMED else listed


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


# Plain pairs ---------------------------------------------------------------------------------------


def read_pairs(path: Path) -> PairSet:
    """Read JSONL pairs: `id`, `pred`, `ref` a line, and where given `attributes` (an object) and `image`.

    The path `-` is stdin. A `pred` that is null is a missing prediction.

    *Raises*: InputError for a line that is no such object, and for an id that comes twice.
    """
    keys = "id, pred and ref"
    pairs: list[Pair] = []
    missing: list[str] = []
    notes: list[Note] = []
    seen: dict[str, int] = {}
    for number, row in read_rows(path, keys):
        where = f"{path}, line {number}"
        remedy = f"each line must be one object with {keys}"
        name = string_of(row, "id", where, remedy)
        claim(seen, name, number, path)
        if row.get("pred", "") is None:
            missing.append(name)
            row = {**row, "pred": ""}
        texts = {}
        for key in ("pred", "ref"):
            texts[key], fault = clean_string(string_of(row, key, where, remedy))
            notes += [Note(name, "bad_encoding", f"{where}: {key} {fault}")] if fault else []
        image = string_of(row, "image", where, "name a picture") if row.get("image") is not None else None
        pairs.append(Pair(name, texts["pred"], texts["ref"], _attributes(row, where), image))
    return PairSet(tuple(pairs), tuple(missing), (), (*notes, *prediction_notes(pairs, missing)))


def claim(seen: dict[str, int], name: str, number: int, path: Path) -> None:
    """Note that line `number` holds the sample `name`.

    *Raises*: InputError where an earlier line holds it already.
    """
    if name in seen:
        raise InputError(
            f"{path}, line {number}: the id {name!r} stands in line {seen[name]} already; give every sample its own"
        )
    seen[name] = number


def prediction_notes(pairs: Sequence[Pair], missing: Sequence[str], told: Collection[str] = ()) -> list[Note]:
    """List the predictions that are missing or empty; those of the samples `told` have a note already."""
    absent = {*missing, *told}
    notes = [Note(name, "missing_prediction", "no prediction; scored as an empty one") for name in missing]
    for pair in pairs:
        if not pair.pred.strip() and pair.ref.strip() and pair.id not in absent:
            notes.append(Note(pair.id, "empty_prediction", "the prediction holds no text"))
    return notes


def _attributes(row: Mapping[str, Any], where: str) -> dict[str, str]:
    found = row.get("attributes") or {}
    if not isinstance(found, dict):
        raise InputError(f"{where}: 'attributes' is {_kind(found)}; it must be an object of names and values")
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def read_folders(pred: Path, ref: Path) -> PairSet:
    """Pair the text files of two folders by stem, in the order of the references' names.

    A prediction that cannot be read is an empty one, and a note says so.

    *Raises*: InputError for a folder that holds no text file, two files of one stem in one folder, folders that have
    no stem in common, and a reference that cannot be read.
    """
    references, predictions = text_files(ref), text_files(pred)
    extra = tuple(stem for stem in predictions if stem not in references)
    missing = tuple(stem for stem in references if stem not in predictions)
    if len(missing) == len(references):
        raise InputError(
            f"{pred}: holds no prediction for {ref} (there {names(list(references))}, here {names(extra)}); "
            "a prediction has the stem of its reference"
        )
    pairs: list[Pair] = []
    notes: list[Note] = []
    unreadable = []
    for stem, path in references.items():
        text, fault = read_text(path)
        notes += [Note(stem, "bad_encoding", f"{path}: {fault}")] if fault else []
        prediction, told = read_prediction(predictions[stem], stem) if stem in predictions else ("", [])
        notes += told
        unreadable += [stem] if prediction is None else []
        pairs.append(Pair(stem, prediction or "", text, image=stem))
    return PairSet(tuple(pairs), missing, extra, (*notes, *prediction_notes(pairs, missing, unreadable)))


def text_files(folder: Path, suffixes: Sequence[str] = TEXT_SUFFIXES) -> dict[str, Path]:
    """Map the stems of what a folder has under the names of text files, hidden ones left out, to paths, sorted.

    *Raises*: InputError for a folder that is none, holds none of these files, or holds two of one stem.
    """
    found: dict[str, Path] = {}
    for path in list_folder(folder):
        if path.name.startswith(".") or path.suffix.lower() not in suffixes:
            continue
        if path.stem in found:
            raise InputError(
                f"{path}: has the stem of {found[path.stem].name}; keep one of them, samples are paired by stem"
            )
        found[path.stem] = path
    if not found:
        raise InputError(f"{folder}: holds no file that ends in {', '.join(suffixes)}; name a folder that does")
    return found


def list_folder(folder: Path) -> list[Path]:
    """List what lies in a folder, sorted.

    *Raises*: InputError where it is no folder or cannot be read.
    """
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError as error:
        raise InputError(f"{folder}: does not exist; name an existing folder") from error
    except NotADirectoryError as error:
        raise InputError(f"{folder}: is no folder; name the folder that holds the files") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{folder}: cannot be read ({reason}); name a readable folder") from error
