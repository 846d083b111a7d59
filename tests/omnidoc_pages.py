"""Pages of our own making in OmniDocBench's JSON, and the Markdown that a perfect model would write of them."""

from __future__ import annotations

from typing import Any

Item = dict[str, Any]
HEIGHT = (
    "The tower was built by masons from the valley, who carried every stone up the hill on their backs.",
    "Nobody remembers why the northern stairs were closed, although several letters mention a fire.",
    "Visitors are asked to leave umbrellas at the desk and to return before the bells ring at noon.",
)
TABLE = "<table><tr><td>year</td><td>stones</td></tr><tr><td>1401</td><td>220</td></tr></table>"
OTHER_TABLE = (
    "<table><tr><td>bell</td><td>weight</td><td>tone</td></tr><tr><td>Anna</td><td>9</td><td>e</td></tr></table>"
)
FORMULA = "$$v^2 = \\frac{2 g h}{1 + \\mu}$$"


def item(category: str, content: str, order: float | None = None, **more: Any) -> Item:
    """Build one annotation; its id is its order unless `anno_id` is given."""
    key = {"table": "html", "equation_isolated": "latex"}.get(category, "text")
    return {"category_type": category, key: content, "order": order, "anno_id": order, "ignore": False, **more}


def text(content: str, order: float | None, **more: Any) -> Item:
    """Build a paragraph."""
    return item("text_block", content, order, **more)


def page(*items: Item, truncated: tuple[tuple[Any, Any], ...] = (), **attributes: Any) -> dict[str, Any]:
    """Build a page; `truncated` are pairs of ids of a paragraph's parts."""
    relations = [
        {"relation_type": "truncated", "source_anno_id": source, "target_anno_id": target}
        for source, target in truncated
    ]
    return {
        "page_info": {"image_path": "folder/tower.jpg", "page_attribute": attributes},
        "layout_dets": list(items),
        "extra": {"relation": relations},
    }


def texts_page(*contents: str) -> dict[str, Any]:
    """Build a page of paragraphs."""
    return page(*(text(content, i) for i, content in enumerate(contents, 1)))


def full_page() -> dict[str, Any]:
    """Build a page with every kind of block, an ignored header and a page number too."""
    return page(
        item("header", "Guide to the castle", None, anno_id=90),
        item("title", "The tower", 1),
        text(HEIGHT[0], 2),
        item("table", TABLE, 3),
        text(HEIGHT[1], 4),
        item("equation_isolated", FORMULA, 5),
        text(HEIGHT[2], 6),
        item("table", OTHER_TABLE, 7),
        item("page_number", "217", None, anno_id=91),
        language="english",
        layout="single_column",
    )


def contents(page: dict[str, Any]) -> list[str]:
    """Return what a perfect model writes of a page, block by block in reading order."""
    items = sorted((one for one in page["layout_dets"] if one["order"]), key=lambda one: one["order"])
    return [one.get("html") or one.get("latex") or one["text"] for one in items]
