"""Read a page of OmniDocBench's annotations as the targets that predictions are matched with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from gravityocr.errors import InputError
from gravityocr.metrics.page_matching.block_matching import Target

TEXT_CATEGORIES = (
    "text_block", "title", "code_txt", "code_txt_caption", "reference", "equation_caption", "figure_caption",
    "figure_footnote", "table_caption", "table_footnote", "code_algorithm", "code_algorithm_caption", "header",
    "footer", "page_footnote", "page_number",
)  # fmt: skip
"""The categories whose text is matched, in the order in which blocks without a place in the reading order stand."""


@dataclass(frozen=True)
class PageTruth:
    """Hold the targets of one page: `mixed` texts and formulas in reading order, and the tables."""

    image_name: str
    mixed: list[Target]
    tables: list[Target]
    attributes: dict[str, Any]

    @property
    def formulas(self) -> list[Target]:
        """The display formulas in reading order."""
        return [target for target in self.mixed if target.is_formula]


def read_page(page: dict[str, Any]) -> PageTruth:
    """Read one page of the annotation file.

    *Raises*: InputError where the page lacks what every page has.
    """
    try:
        return _read(page)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"a page of the annotations cannot be read ({error!r}); expected OmniDocBench's JSON: a list of pages with "
            "page_info, layout_dets and extra"
        ) from error


def _read(page: dict[str, Any]) -> PageTruth:
    info = page["page_info"]
    name = PurePosixPath(str(info["image_path"])).name
    layout = [item for item in page["layout_dets"] if isinstance(item, dict) and "category_type" in item]
    relations = (page.get("extra") or {}).get("relation") or []
    pairs = [
        (relation["source_anno_id"], relation["target_anno_id"])
        for relation in relations
        if relation["relation_type"] == "truncated"
    ]
    by_category: dict[str, list[Target]] = {}
    for item in [*_alone(layout, pairs), *_joined(layout, pairs)]:
        by_category.setdefault(item["category_type"], []).append(_target(item))
    mixed = [target for category in (*TEXT_CATEGORIES, "equation_isolated") for target in by_category.get(category, [])]
    attributes = dict(info.get("page_attribute") or {})
    return PageTruth(name, _in_order(mixed), _in_order(by_category.get("table", [])), attributes)


def _in_order(targets: Iterable[Target]) -> list[Target]:
    return sorted(targets, key=lambda target: target.order or 0)


def _target(item: dict[str, Any]) -> Target:
    category = item["category_type"]
    key = {"table": "html", "equation_isolated": "latex"}.get(category, "text")
    order = item.get("order")
    return Target(
        category,
        str(item.get(key) or ""),
        order if isinstance(order, int | float) else None,
        dict(item.get("attribute") or {}),
    )


def _groups(pairs: Iterable[tuple[Any, Any]]) -> list[set[Any]]:
    """Return the sets of annotations that are connected: paragraphs cut by a column or a page element."""
    groups: list[set[Any]] = []
    for pair in pairs:
        joined = set(pair)
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return groups


def _alone(layout: list[dict[str, Any]], pairs: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    cut = {anno_id for pair in pairs for anno_id in pair}
    return [item for item in layout if item.get("anno_id") not in cut and not item.get("ignore")]


def _joined(layout: list[dict[str, Any]], pairs: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    by_id = {item.get("anno_id"): item for item in layout}
    out = []
    for group in _groups(pairs):
        parts = sorted((by_id[key] for key in group if key in by_id), key=lambda item: item.get("order") or 0)
        if parts and not any(part.get("ignore") for part in parts):
            text = "".join(str(part.get("text") or "") for part in parts)
            first = parts[0]
            # The official scorer drops the attributes of joined paragraphs.
            out.append({"category_type": first["category_type"], "order": first.get("order"), "text": text})
    return out
