"""Sum up scored pages: the axes and Overall with intervals, by attribute, and what mending each fault changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gravityocr.metrics.omnidocbench import PageScore, score_by_rules
from gravityocr.metrics.page_matching.page_truth import read_page
from gravityocr.metrics.page_matching.rules import FAULTS, MENDED, OFFICIAL, official_but
from gravityocr.metrics.runs.confidence import BootstrapConfig, axis_intervals

AXES = ("text_edit", "cdm", "teds", "teds_struct", "order_edit")
PAGE_AXES = ("text_edit", "teds", "teds_struct", "order_edit")
MODES = ("official", "ours")
Record = dict[str, Any]
Axes = Mapping[str, "float | np.ndarray[Any, np.dtype[np.float64]]"]
Pair = tuple[str, str]
"""A prediction and its reference, as CDM takes them."""


def page_record(page: dict[str, Any], markdown: str) -> Record:
    """Score one page in both modes, all but CDM, as what JSON holds.

    *Raises*: InputError where the annotation is not a page.
    """
    truth = read_page(page)
    official, ours = (score_by_rules(truth, markdown, rules) for rules in (OFFICIAL, MENDED))
    faults = {}
    if _comparable(official) != _comparable(ours):
        for name in FAULTS:
            mended = score_by_rules(truth, markdown, official_but(name))
            if _comparable(mended) != _comparable(official):
                faults[name] = {axis: getattr(mended, axis) for axis in PAGE_AXES}
    return {
        "image_name": truth.image_name,
        "attributes": truth.attributes,
        "modes": {"official": _mode_record(official), "ours": _mode_record(ours)},
        "faults": faults,
    }


def _comparable(page: PageScore) -> tuple[Any, ...]:
    pairs = tuple((sample.ref, sample.preds) for sample in page.formulas)
    return (*(getattr(page, axis) for axis in PAGE_AXES), pairs)


def _mode_record(page: PageScore) -> Record:
    record = asdict(page)
    for name in ("image_name", "attributes"):
        del record[name]
    return record | {axis: getattr(page, axis) for axis in PAGE_AXES}


def formula_pairs(records: Iterable[Record]) -> list[Pair]:
    """Return the pairs that CDM has to score for these pages, each once."""
    pairs = (
        (pred, sample["ref"])
        for record in records
        for mode in MODES
        for sample in record["modes"][mode]["formulas"]
        for pred in sample["preds"]
    )
    return list(dict.fromkeys(pairs))


def add_cdm(records: Sequence[Record], scores: Mapping[Pair, Mapping[str, Any]]) -> None:
    """Enter CDM into the pages: of a formula's predictions the best one counts.

    `scores` maps every pair of `formula_pairs` to `f1`, `f1_strict`, `status` and `error`. Officially a formula whose
    reference cannot be rendered scores 0; by default it is left out, and the others count by their strict score.
    """
    for record in records:
        for mode in MODES:
            page = record["modes"][mode]
            key = "f1" if mode == "official" else "f1_strict"
            for sample in page["formulas"]:
                best = max((scores[pred, sample["ref"]] for pred in sample["preds"]), key=lambda score: score[key])
                sample |= {f"cdm_{name}": best[name] for name in ("f1", "f1_strict", "status", "error")}
                sample["cdm"] = None if mode == "ours" and _is_broken(sample) else best[key]
            page["cdm"] = _page_cdm(page, [sample["cdm"] for sample in page["formulas"]])


def _is_broken(sample: Record) -> bool:
    return bool(sample["cdm_status"] == "ref_unrenderable")


def _page_cdm(page: Record, scores: Sequence[float | None]) -> float | None:
    missing = page["has_formulas"] and not page["formulas"]
    return 0.0 if missing else _mean(scores)


def overall(axes: Axes) -> Any:
    """Return ((1 - text_edit) + cdm + teds) x 100 / 3. *Source*: OmniDocBench v1.6, Overall."""
    return ((1 - axes["text_edit"]) + axes["cdm"] + axes["teds"]) * 100 / 3


def summarize(records: Sequence[Record], mode: str, seed: int = 0) -> Record:
    """Return the axes, Overall and its interval, the number of pages behind each, and the breakdowns, for one mode.

    An axis that no page has is None, and so is Overall then: a mean of what is left would compare with nothing.
    """
    pages = [record["modes"][mode] for record in records]
    known = {axis: [page.get(axis) for page in pages] for axis in AXES}
    intervals = axis_intervals(
        {axis: _with_nan(values) for axis, values in known.items()}, overall, BootstrapConfig(seed=seed)
    )
    summary: Record = {"overall": intervals["overall"].value if "overall" in intervals else None}
    summary |= {axis: _mean(known[axis]) for axis in AXES}
    summary["n_pages"] = len(records)
    summary["n_pages_by_axis"] = {axis: sum(v is not None for v in known[axis]) for axis in AXES}
    summary["ci95"] = {axis: list(one.bounds) if one.bounds else None for axis, one in intervals.items()}
    summary["missing_axes"] = [axis for axis in AXES if summary[axis] is None]
    summary["n_samples"] = {kind: sum(len(page[kind]) for page in pages) for kind in ("texts", "tables", "formulas")}
    summary["n_extra_tables"] = sum(page["n_extra_tables"] for page in pages)
    summary["by_page_attribute"] = _by_page_attribute(records, mode)
    summary["by_block_attribute"] = _by_block_attribute(pages)
    return summary


def _with_nan(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _labels(attributes: Mapping[str, Any]) -> list[str]:
    labels: list[str] = []
    for key, value in attributes.items():
        # The special issues that concern a table are attributes of that table.
        values = [v for v in value if "table" not in str(v)] if isinstance(value, list) else [value]
        labels += [f"{key}: {v}" for v in values]
    return labels


def _by_page_attribute(records: Sequence[Record], mode: str) -> Record:
    groups: dict[str, list[Record]] = {}
    for record in records:
        for label in _labels(record["attributes"]):
            groups.setdefault(label, []).append(record["modes"][mode])
    return {
        label: {axis: _mean(page.get(axis) for page in pages) for axis in AXES} | {"n_pages": len(pages)}
        for label, pages in sorted(groups.items())
    }


def _by_block_attribute(pages: Sequence[Record]) -> Record:
    """Return the means over samples by the attributes of their blocks: language, rotation, frame, ..."""
    values: dict[str, dict[str, list[float]]] = {}
    for page in pages:
        for kind, of_sample in _SAMPLE_VALUES.items():
            for sample in page[kind]:
                labels = {f"{key}: {value}" for attributes in sample["attributes"] for key, value in attributes.items()}
                for label in labels:
                    for axis, value in of_sample(sample).items():
                        if value is not None:
                            values.setdefault(label, {}).setdefault(axis, []).append(value)
    return {
        label: {axis: _mean(found) for axis, found in axes.items()} | {"n_samples": max(map(len, axes.values()))}
        for label, axes in sorted(values.items())
    }


_SAMPLE_VALUES: dict[str, Callable[[Record], dict[str, float | None]]] = {
    "texts": lambda sample: {"text_edit": sample["edit"]["ned"] if sample["edit"]["n_chars"] else None},
    "tables": lambda sample: {"teds": sample["teds"]["teds"], "teds_struct": sample["teds"]["teds_struct"]},
    "formulas": lambda sample: {"cdm": sample.get("cdm")},
}


def differences(records: Sequence[Record]) -> list[Record]:
    """Return every fault of the official scorer that changes this run: its pages, and what mending it alone does.

    `effect` is the change of an axis where this one fault is mended and all others stay.
    """
    found = []
    for name, what in FAULTS.items():
        pages = [record for record in records if name in record["faults"]]
        effect = {axis: _effect(records, name, axis) for axis in PAGE_AXES}
        entry = {
            "fault": name,
            "official": what,
            "n_pages": len(pages),
            "effect": {a: e for a, e in effect.items() if e},
        }
        if name in _CDM_FAULTS:
            entry |= _cdm_fault(records, *_CDM_FAULTS[name])
        if entry["n_pages"]:
            found.append({"pages": [record["image_name"] for record in pages[:20]]} | entry)
    return found


def _effect(records: Sequence[Record], name: str, axis: str) -> float:
    official = [record["modes"]["official"][axis] for record in records]
    mended = [
        record["faults"][name][axis] if name in record["faults"] else value
        for record, value in zip(records, official, strict=True)
    ]
    before, after = _mean(official), _mean(mended)
    return after - before if before is not None and after is not None else 0.0


def _cdm_fault(
    records: Sequence[Record], concerns: Callable[[Record], bool], mended: Callable[[Record], float | None]
) -> Record:
    """Return what mending a fault of CDM changes: it shows once all formulas are scored."""
    pages = [record["modes"]["official"] for record in records]
    found = [
        record["image_name"]
        for record, page in zip(records, pages, strict=True)
        for sample in page["formulas"]
        if "cdm" in sample and concerns(sample)
    ]
    if not found:
        return {"n_pages": 0}
    before = _mean(page["cdm"] for page in pages)
    after = _mean(_page_cdm(page, [mended(sample) for sample in page["formulas"]]) for page in pages)
    effect = {"cdm": after - before} if before is not None and after is not None else {}
    names = list(dict.fromkeys(found))
    return {"n_pages": len(names), "n_formulas": len(found), "effect": effect, "pages": names[:20]}


_CDM_FAULTS: dict[str, tuple[Callable[[Record], bool], Callable[[Record], float | None]]] = {
    "skip_broken_references": (_is_broken, lambda sample: None if _is_broken(sample) else sample["cdm"]),
    "cdm_sees_scripts": (lambda s: s["cdm_f1_strict"] != s["cdm_f1"], lambda sample: sample["cdm_f1_strict"]),
}
