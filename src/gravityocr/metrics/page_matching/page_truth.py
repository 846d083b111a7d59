"""Read a page of OmniDocBench's annotations as the targets that predictions are matched with."""

from __future__ import annotations

import math
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

_WANTED = "expected OmniDocBench's JSON: a list of pages with page_info, layout_dets and extra"
_CONTENT = {"table": "html", "equation_isolated": "latex"}  # text in all other categories
_MOST_ORDER = 10**9  # no page has so many blocks
_MOST_BITS = 64


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
    """Read one page of the annotation file; an order that is no number of a place counts as none.

    *Raises*: InputError where the page lacks what every page has, naming the page and, where it is one, the block.
    """
    check_page(page)
    try:
        return _read(page)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{_name(page)} cannot be read ({error!r}); {_WANTED}") from error


def check_page(page: Any) -> None:
    """Check the blocks of a page.

    *Raises*: InputError naming the page and the block that is none.
    """
    layout = page.get("layout_dets") if isinstance(page, dict) else None
    if not isinstance(layout, list):
        raise InputError(f"{_name(page)} lacks layout_dets, a list of blocks; {_WANTED}")
    for number, item in enumerate(layout, start=1):
        fault = _fault(item)
        if fault:
            raise InputError(f"{_name(page)}, {_block(number, item)}: {fault}; {_WANTED}")


def odd_orders(page: dict[str, Any]) -> list[str]:
    """Tell of every block of a checked page whose `order` is there and is no number of a place."""
    return [
        f"{_block(number, item)}: its order ({_short(item['order'])}) is no number of a place and counts as none"
        for number, item in enumerate(page["layout_dets"], start=1)
        if item.get("order") is not None and _order(item) is None
    ]


def _fault(item: Any) -> str | None:
    if not isinstance(item, dict):
        return "is no object"
    category = item.get("category_type")
    if not isinstance(category, str):
        return "has no category_type, a string"
    if not isinstance(item.get("ignore"), bool | None):
        return f"ignore is {_short(item['ignore'])}, neither true nor false"
    key = _CONTENT.get(category, "text")
    if not isinstance(item.get(key), str | None):
        return f"{key} is no string"
    if isinstance(item.get("anno_id"), dict | list):
        return "anno_id is no number or string"
    if not isinstance(item.get("attribute"), dict | None):
        return "attribute is no object"
    return None


def _name(page: Any) -> str:
    info = page.get("page_info") if isinstance(page, dict) else None
    name = info.get("image_path") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name else "a page of the annotations"


def _block(number: int, item: Any) -> str:
    known = item.get("anno_id") if isinstance(item, dict) else None
    return f"block {number}" + (f" (anno_id {_short(known)})" if isinstance(known, str | int) else "")


def _short(value: object) -> str:
    shown = repr(_plain(value))
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def _plain(value: Any) -> Any:
    """Return what every reader of JSON takes: numbers that it has none for are written out."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _read(page: dict[str, Any]) -> PageTruth:
    info = page["page_info"]
    name = PurePosixPath(str(info["image_path"])).name
    layout = page["layout_dets"]
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
    attributes = dict(_plain(info.get("page_attribute") or {}))
    return PageTruth(name, _in_order(mixed), _in_order(by_category.get("table", [])), attributes)


def _in_order(targets: Iterable[Target]) -> list[Target]:
    return sorted(targets, key=lambda target: target.order or 0)


def _target(item: dict[str, Any]) -> Target:
    category = item["category_type"]
    content = item.get(_CONTENT.get(category, "text")) or ""
    return Target(category, content, _order(item), _plain(item.get("attribute") or {}))


def _order(item: dict[str, Any]) -> float | None:
    order = item.get("order")
    is_place = isinstance(order, int | float) and not isinstance(order, bool) and -_MOST_ORDER < order < _MOST_ORDER
    return order if is_place else None


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
        parts = sorted((by_id[key] for key in group if key in by_id), key=lambda item: _order(item) or 0)
        if parts and not any(part.get("ignore") for part in parts):
            text = "".join(str(part.get("text") or "") for part in parts)
            first = parts[0]
            # The official scorer drops the attributes of joined paragraphs.
            out.append({"category_type": first["category_type"], "order": _order(first), "text": text})
    return out
