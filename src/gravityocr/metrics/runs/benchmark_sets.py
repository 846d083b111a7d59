"""The layouts of public benchmarks: OmniDocBench, PubTabNet and UniMER-Test; and of files of official values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from gravityocr.errors import InputError
from gravityocr.metrics.page_matching.page_truth import check_page, odd_orders
from gravityocr.metrics.runs.datasets import (
    Note,
    Pair,
    PairSet,
    claim,
    clean_string,
    list_folder,
    names,
    prediction_notes,
    read_json,
    read_prediction,
    read_rows,
    string_of,
    unreadable_note,
)
from gravityocr.metrics.runs.input_files import UnreadableFileError, read_text

UNIMER_SUBSETS = ("spe", "cpe", "sce", "hwe")
_SPAN = re.compile(r"""\b(?:row|col)span\s*=\s*["']?\s*(?!["']?1\b)\d""", re.IGNORECASE)


# Official values -----------------------------------------------------------------------------------


def read_golden(path: Path, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Read a file of official values: a list of objects, each with `id` and `keys`.

    *Raises*: InputError naming the entry at fault.
    """
    wanted = f"a list of objects with id, {', '.join(keys)}"
    rows = read_json(path, wanted)
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: must hold {wanted}")
    for number, row in enumerate(rows, start=1):
        absent = [key for key in ("id", *keys) if not isinstance(row, dict) or key not in row]
        if absent:
            raise InputError(f"{path}, entry {number}: has no {', '.join(absent)}; it must hold {wanted}")
    return rows


# OmniDocBench --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BenchmarkPage:
    """A page of OmniDocBench: its annotation as it is in the JSON, and the prediction, None where there is none."""

    name: str
    page: dict[str, Any]
    markdown: str | None


@dataclass(frozen=True)
class PageSet:
    """The pages of a ground truth in its own order, and what did not fit (see PairSet)."""

    pages: tuple[BenchmarkPage, ...]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def read_annotations(gt: Path) -> dict[str, dict[str, Any]]:
    """Map the image names of an OmniDocBench ground truth (v1.5 or v1.6) to its pages.

    *Raises*: InputError for anything that is no list of annotated pages, and for an image that comes twice.
    """
    wanted = "a list of pages with page_info.image_path and layout_dets, as OmniDocBench.json has it"
    rows = read_json(gt, wanted)
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{gt}: must hold {wanted}")
    pages: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(rows, start=1):
        info = row.get("page_info") if isinstance(row, dict) else None
        image = info.get("image_path") if isinstance(info, dict) else None
        if not isinstance(image, str) or not PurePosixPath(image).name:
            raise InputError(f"{gt}, page {number}: lacks page_info.image_path; it must hold {wanted}")
        try:
            check_page(row)
        except InputError as error:
            raise InputError(f"{gt}, page {number}: {error}") from error
        name = PurePosixPath(image).name
        if name in pages:
            raise InputError(f"{gt}, page {number}: {name} comes twice; keep one of the pages")
        pages[name] = row
    return pages


def read_omnidocbench(gt: Path, pred: Path) -> PageSet:
    """Read a ground truth and its predictions: a flat folder of `<image stem>.md`.

    The other names that the official scorer looks for are found too: `<image>.md`, and the stem without `.pdf`
    before `.mmd` or `.md`. A prediction that cannot be read is an empty one, and a note says so.

    *Raises*: InputError where the ground truth or the folder cannot be read, and where no page has a prediction.
    """
    annotations = read_annotations(gt)
    files = {path.name: path for path in list_folder(pred) if path.suffix.lower() in (".md", ".mmd")}
    pages: list[BenchmarkPage] = []
    notes: list[Note] = []
    used: dict[str, list[str]] = {}
    for name, page in annotations.items():
        notes += [Note(name, "bad_order", told) for told in odd_orders(page)]
        file = next((candidate for candidate in prediction_names(name) if candidate in files), None)
        if file is None:
            notes.append(Note(name, "missing_prediction", f"{pred} holds no {prediction_names(name)[0]}"))
            pages.append(BenchmarkPage(name, page, None))
            continue
        used.setdefault(file, []).append(name)
        markdown, faults = read_prediction(files[file], name)
        notes += faults
        if markdown is not None and not markdown.strip():
            notes.append(Note(name, "empty_prediction", f"{files[file]} holds no text"))
        pages.append(BenchmarkPage(name, page, markdown or ""))
    missing = tuple(page.name for page in pages if page.markdown is None)
    if len(missing) == len(pages):
        raise InputError(
            f"{pred}: holds no prediction for any of the {len(pages)} pages of {gt} (it holds {names(sorted(files))}); "
            f"the prediction for {pages[0].name} is {prediction_names(pages[0].name)[0]}"
        )
    return PageSet(tuple(pages), missing, tuple(sorted(set(files) - set(used))), (*notes, *_shared(used, pred)))


def _shared(used: Mapping[str, Sequence[str]], pred: Path) -> list[Note]:
    """Tell of every page whose prediction is that of another page too."""
    return [
        Note(
            image, "shared_prediction",
            f"{pred / file} is taken for {names([other for other in images if other != image])} too; name the "
            f"predictions {', '.join(f'{one}.md' for one in images[:2])} to tell them apart",
        )
        for file, images in used.items()
        if len(images) > 1
        for image in images
    ]  # fmt: skip


def prediction_names(image: str) -> list[str]:
    """List the file names that the prediction for an image may have, the first being the usual one."""
    stem = PurePosixPath(image).stem
    plain = stem.replace(".pdf", "")
    return list(dict.fromkeys([f"{stem}.md", f"{plain}.mmd", f"{plain}.md", f"{image}.md"]))


# PubTabNet -----------------------------------------------------------------------------------------


def read_pubtabnet(gt: Path, pred: Path, split: str | None = "val") -> PairSet:
    """Read PubTabNet 2.0 JSONL (or the `{filename: {html, type}}` of its final evaluation) and predictions.

    Predictions are `{filename: html}` or JSONL of `filename, html` (`pred` will do). Of JSONL only the samples of
    `split` are taken, all where it is None. The attribute `type` is `complex` for a table with spans, else `simple`.

    *Raises*: InputError naming file and line.
    """
    references, kinds = _pubtabnet_truth(gt, split)
    predictions, notes = _named_predictions(pred, "filename", ("html", "pred"))
    missing = tuple(name for name in references if name not in predictions)
    if len(missing) == len(references):
        raise InputError(f"{pred}: holds no prediction for {gt} (it wants {names(list(references))}); name its images")
    pairs = [
        Pair(name, predictions.get(name, ""), html, {"type": kinds[name]}, image=PurePosixPath(name).stem)
        for name, html in references.items()
    ]
    extra = tuple(name for name in predictions if name not in references)
    return PairSet(tuple(pairs), missing, extra, (*notes, *prediction_notes(pairs, missing)))


def _pubtabnet_truth(gt: Path, split: str | None) -> tuple[dict[str, str], dict[str, str]]:
    if gt.suffix.lower() == ".json":
        return _pubtabnet_evaluation(gt)
    keys = "filename, split and html"
    references: dict[str, str] = {}
    seen: dict[str, int] = {}
    n_rows = 0
    for number, row in read_rows(gt, keys):
        n_rows += 1
        where = f"{gt}, line {number}"
        name = string_of(row, "filename", where, f"each line must be one object with {keys}")
        if split is not None and row.get("split") not in (None, split):
            continue
        claim(seen, name, number, gt)
        references[name] = table_html(row.get("html"), where)
    if not references:
        raise InputError(f"{gt}: none of its {n_rows} samples is of the split {split!r}; choose another --split")
    return references, {name: _table_type(html) for name, html in references.items()}


def _pubtabnet_evaluation(gt: Path) -> tuple[dict[str, str], dict[str, str]]:
    wanted = "an object of filenames, each with html and type"
    rows = read_json(gt, wanted)
    if not isinstance(rows, dict) or not rows:
        raise InputError(f"{gt}: must hold {wanted}")
    references, kinds = {}, {}
    for name, row in rows.items():
        if not isinstance(row, dict):
            raise InputError(f"{gt}, {name}: is no object; the file must hold {wanted}")
        references[name] = string_of(row, "html", f"{gt}, {name}", f"the file must hold {wanted}")
        kinds[name] = str(row.get("type") or _table_type(references[name]))
    return references, kinds


def table_html(html: object, where: str) -> str:
    """Join the structure tokens and the cells of one PubTabNet 2.0 table to a page with one table.

    Single characters of a cell are escaped, its longer tokens are markup such as `<b>`.

    *Raises*: InputError where the tokens are missing or of the wrong kind.
    """
    try:
        structure = html["structure"]["tokens"]  # type: ignore[index]
        cells = [cell.get("tokens", ()) for cell in html["cells"]]  # type: ignore[index]
        parts: list[str] = []
        n_used = 0
        for token in structure:
            parts.append(token)
            # A cell opens with "<td>" or, where it has spans, with "<td", the spans and ">".
            if token in ("<td>", ">") and n_used < len(cells):
                parts += [escape(piece) if len(piece) == 1 else piece for piece in cells[n_used]]
                n_used += 1
        return f"<html><body><table>{''.join(parts)}</table></body></html>"
    except (AttributeError, KeyError, TypeError) as error:
        remedy = "it must hold html.structure.tokens and html.cells as PubTabNet 2.0 has them"
        raise InputError(f"{where}: {type(error).__name__} {error}; {remedy}") from error


def _table_type(html: str) -> str:
    return "complex" if _SPAN.search(html) else "simple"


# UniMER-Test ---------------------------------------------------------------------------------------


def read_unimer(gt: Path, pred: Path) -> PairSet:
    """Read UniMER-Test: `spe.txt`, `cpe.txt`, `sce.txt`, `hwe.txt` with one formula a line, and predictions.

    Predictions are a folder of `<subset>.txt` (a line for each formula) or `<subset>.jsonl`, or one JSONL file; rows
    of JSONL hold `id` and `pred`, the ids being such as `spe/0000012`, lines counted from 0. The attribute `subset` is
    SPE, CPE, SCE or HWE. Lines that a `.txt` lacks at its end are missing predictions. A file
    of the folder that cannot be read is one of empty predictions, and a note says so.

    *Raises*: InputError naming file and line.
    """
    truth = {name: _lines(gt / f"{name}.txt") for name in UNIMER_SUBSETS if os.path.lexists(gt / f"{name}.txt")}
    if not truth:
        list_folder(gt)
        raise InputError(f"{gt}: holds none of spe.txt, cpe.txt, sce.txt, hwe.txt; name the folder of UniMER-Test")
    if os.path.isdir(pred):
        by_id, unused, notes = _unimer_folder(pred, truth)
    else:
        (by_id, notes), unused = _named_predictions(pred, "id", ("pred",)), []
    faults = {f"{name}.txt": fault for name, (_, fault) in truth.items() if fault}
    notes += [Note(name, "bad_encoding", f"{gt / name}: {fault}") for name, fault in faults.items()]
    pairs = []
    for subset, (lines, _) in truth.items():
        for number, ref in enumerate(lines):
            name = _unimer_id(subset, number)
            pairs.append(Pair(name, by_id.get(name, ""), ref, {"subset": subset.upper()}, image=name))
    wanted = {pair.id for pair in pairs}
    missing = tuple(pair.id for pair in pairs if pair.id not in by_id)
    if len(missing) == len(pairs):
        raise InputError(
            f"{pred}: holds no prediction for {gt}; name a folder of spe.txt or spe.jsonl (cpe, sce, hwe), or JSONL "
            f"with the ids {names(sorted(wanted))}"
        )
    extra = (*(name for name in by_id if name not in wanted), *unused)
    unreadable = {PurePosixPath(note.id).stem for note in notes if note.status == "unreadable_prediction"}
    told = [pair.id for pair in pairs if pair.id.partition("/")[0] in unreadable]
    return PairSet(tuple(pairs), missing, extra, (*notes, *prediction_notes(pairs, missing, told)))


def _unimer_id(subset: str, number: int) -> str:
    return f"{subset}/{number:07d}"


def _lines(path: Path) -> tuple[list[str], str | None]:
    text, fault = read_text(path)
    lines = text.split("\n")
    return [line.strip() for line in (lines[:-1] if lines[-1] == "" else lines)], fault


def _unimer_folder(
    folder: Path, truth: Mapping[str, tuple[list[str], str | None]]
) -> tuple[dict[str, str], list[str], list[Note]]:
    """Return predictions by id, the files that are none, and what was wrong."""
    found: dict[str, str] = {}
    notes: list[Note] = []
    files = [path for path in list_folder(folder) if not path.name.startswith(".")]
    used: list[Path] = []
    for subset, (references, _) in truth.items():
        own = [path for path in files if path.name in (f"{subset}.txt", f"{subset}.jsonl")]
        if len(own) > 1:
            raise InputError(f"{folder}: holds {own[0].name} and {own[1].name}; keep one of them")
        for path in own:
            try:
                if path.suffix == ".jsonl":
                    more, told = _named_predictions(path, "id", ("pred",))
                else:
                    more, told = _unimer_lines(path, subset, len(references))
            except UnreadableFileError as error:
                more = {_unimer_id(subset, number): "" for number in range(len(references))}
                told = [unreadable_note(path.name, error)]
            found |= more
            notes += told
            used.append(path)
    return found, [path.name for path in files if path not in used and os.path.isfile(path)], notes


def _unimer_lines(path: Path, subset: str, n_formulas: int) -> tuple[dict[str, str], list[Note]]:
    lines, fault = _lines(path)
    notes = [Note(path.name, "bad_encoding", f"{path}: {fault}")] if fault else []
    if len(lines) != n_formulas:
        what = "the last are scored as empty" if len(lines) < n_formulas else "the last are not scored"
        notes.append(
            Note(
                path.name, "line_count",
                f"{path}: has {len(lines)} lines for {n_formulas} formulas; {what}, and scores are wrong from where a "
                "line is amiss: write an empty line where there is no prediction, or JSONL of id and pred",
            )
        )  # fmt: skip
    return {_unimer_id(subset, number): line for number, line in enumerate(lines)}, notes


def _named_predictions(path: Path, id_key: str, keys: Sequence[str]) -> tuple[dict[str, str], list[Note]]:
    """Read `{id: text}` from JSON or rows of `id_key` and one of `keys` from JSONL; null is no prediction."""
    found: dict[str, str] = {}
    notes: list[Note] = []
    for where, name, value in _raw_predictions(path, id_key, keys):
        if value is None:
            continue
        if not isinstance(value, str):
            raise InputError(f"{where}: the prediction for {name!r} is no string; write it as one")
        found[name], fault = clean_string(value)
        notes += [Note(name, "bad_encoding", f"{where}: {fault}")] if fault else []
    return found, notes


def _raw_predictions(path: Path, id_key: str, keys: Sequence[str]) -> list[tuple[str, str, object]]:
    if path.suffix.lower() == ".json":
        table = read_json(path, f"an object of {id_key}s and predictions")
        if not isinstance(table, dict) or not table:
            raise InputError(f"{path}: must hold an object of {id_key}s and predictions")
        return [(str(path), name, value) for name, value in table.items()]
    rows: list[tuple[str, str, object]] = []
    seen: dict[str, int] = {}
    wanted = f"{id_key} and {keys[0]}"
    for number, row in read_rows(path, wanted):
        where = f"{path}, line {number}"
        name = string_of(row, id_key, where, f"each line must be one object with {wanted}")
        claim(seen, name, number, path)
        key = next((key for key in keys if key in row), None)
        if key is None:
            raise InputError(f"{where}: has no {keys[0]!r}; each line must be one object with {wanted}")
        rows.append((where, name, row[key]))
    return rows
