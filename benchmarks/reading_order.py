"""How well regions are put in order: on annotated boxes and on detected ones, beside plain orders of the same boxes.

    python -m benchmarks.reading_order --cases DIR --json

The figure is OmniDocBench's: the edit distance between the annotated order and the one found, over the longer of the
two; 0 is the same order. What the annotation gives no place, as page numbers, is handed in but does not count. Means
are over pages. `annotated` pages have their whole order from the annotation; on `derived` ones (DocBank's two-column
pages, see `benchmarks.reading_order_truth`) the order of the columns is ours, so they stand apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.crop_tables import format_table
from benchmarks.reading_order_truth import TruthPage, load_pages
from gravityocr.api import build_detector
from gravityocr.document import Box
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.metrics.reading_order import order_edit
from gravityocr.pipeline.layout import LayoutBox, LayoutConfig, LayoutDetector, find_regions
from gravityocr.pipeline.reading_order import reading_order

CASES = Path("../shared/cases")
LEAST_SHARE = 0.3
MATCHING = (
    "an annotated region stands where the detected one that covers most of it does, if that covers at least"
    f" {LEAST_SHARE} of it; several in one detected region stand in it from top to bottom, so that few large regions"
    " are easy to order; one that is covered by none is missing from the order, which counts as an edit"
)
Order = Callable[[Sequence[LayoutBox], tuple[int, int]], list[LayoutBox]]


def top_to_bottom(boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Return boxes by their upper edge, those level with each other from left to right: the plainest order."""
    return sorted(boxes, key=lambda item: (item.box.y0, item.box.x0))


def as_given(boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Return boxes as the detector gives them: by its own order where it has one."""
    return sorted(boxes, key=lambda item: (item.order is None, item.order or 0))


ON_BOXES: dict[str, Order] = {"ours": reading_order, "top_to_bottom": top_to_bottom}
ON_DETECTED: dict[str, Order] = {**ON_BOXES, "as_given": as_given}


def score_boxes(page: TruthPage, order: Order) -> float:
    """Return the distance of an order of the annotated boxes themselves."""
    boxes = [LayoutBox(region.box, region.label, str(k)) for k, region in enumerate(page.regions)]
    places = {int(item.native_label): place for place, item in enumerate(order(boxes, page.size_px))}
    return _distance(page, [places[k] for k in range(len(boxes))])


def score_detected(page: TruthPage, ordered: Sequence[LayoutBox]) -> float:
    """Return the distance of an order of detected boxes, from the annotated regions that they cover."""
    places = [_place(region.box, ordered) for region in page.regions]
    within = sorted(range(len(places)), key=lambda k: (page.regions[k].box.y0, page.regions[k].box.x0))
    rank = {k: number / (len(places) + 1) for number, k in enumerate(within)}
    return _distance(page, [None if place is None else place + rank[k] for k, place in enumerate(places)])


def _place(box: Box, ordered: Sequence[LayoutBox]) -> int | None:
    covered = [box.inside(item.box) for item in ordered]
    best = max(range(len(covered)), key=lambda k: covered[k], default=None)
    return best if best is not None and covered[best] >= LEAST_SHARE else None


def _distance(page: TruthPage, places: Sequence[float | None]) -> float:
    score = order_edit([([region.order], place) for region, place in zip(page.regions, places, strict=True)])
    assert score is not None, f"{page.file}: no region has an order"
    return score.edit


def measure_page(page: TruthPage, detector: LayoutDetector | None) -> dict[str, Any]:
    """Return the distances of one page, those on detected boxes where there is a detector."""
    row: dict[str, Any] = {
        "file": page.file.name,
        "source": page.source,
        "order": "derived" if page.derived else "annotated",
        "n_regions": len(page.regions),
        "n_ordered": page.n_ordered,
        "boxes": {name: score_boxes(page, order) for name, order in ON_BOXES.items()},
    }
    if detector is not None:
        with Image.open(page.file) as image:
            found = find_regions(image.convert("RGB"), detector, LayoutConfig())
        ordered = {name: order(found, page.size_px) for name, order in ON_DETECTED.items()}
        scored = [region for region in page.regions if region.order is not None]
        row |= {
            "n_detected": len(found),
            "n_covered": sum(_place(region.box, found) is not None for region in scored),
            "detected": {name: score_detected(page, boxes) for name, boxes in ordered.items()},
        }
    return row


def summarize(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the means over the pages, of every kind of order and of all together."""
    groups = {name: [row for row in rows if row["order"] == name] for name in ("annotated", "derived")}
    groups["all"] = list(rows)
    return {
        name: {
            "n_pages": len(members),
            **{
                part: {key: statistics.mean(row[part][key] for row in members) for key in members[0][part]}
                for part in ("boxes", "detected")
                if part in members[0]
            },
        }
        for name, members in groups.items()
        if members
    }


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; wrong usage ends the program with 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=CASES, help=f"a folder with manifest.json; default: {CASES}")
    parser.add_argument("--layout", default="cdla", help="the detector; none: annotated boxes only; default: cdla")
    parser.add_argument("--json", action="store_true", help="everything, page by page, on stdout")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark: 0 = all well, 1 = the cases cannot be read, 2 = wrong settings."""
    args = parse_arguments(arguments)
    try:
        pages, left_out = load_pages(args.cases)
        detector = None if args.layout == "none" else build_detector(args.layout)
        rows = [measure_page(page, detector) for page in pages]
    except (GravityOCRError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    report = {
        "measurement": "reading-order",
        "layout": args.layout,
        "means": summarize(rows),
        "pages": rows,
        "left_out": left_out,
        "matching": MATCHING if detector is not None else None,
    }
    print(json.dumps(report, ensure_ascii=False) if args.json else readable(report))
    return 0


def readable(report: dict[str, Any]) -> str:
    """Return the report as a table, a row for every page and mean, and the pages that are left out."""
    parts = {"boxes": list(ON_BOXES)}
    if report["matching"] is not None:
        parts["detected"] = list(ON_DETECTED)
    heads = ["page", "order", "n", *(f"{part}: {name}" for part, names in parts.items() for name in names)]
    heads += ["detected", "covered"]

    def figures(row: dict[str, Any]) -> list[str]:
        return [f"{row[part][name]:.3f}" for part, names in parts.items() for name in names]

    table = [
        [row["file"][:48], row["order"], str(row["n_ordered"]), *figures(row)]
        + [str(row.get(key, "-")) for key in ("n_detected", "n_covered")]
        for row in report["pages"]
    ]
    table += [[f"mean of {row['n_pages']}", name, "", *figures(row), "", ""] for name, row in report["means"].items()]
    lines = [format_table(heads, table), ""]
    lines += [f"left out: {row['file']}: {row['reason']}" for row in report["left_out"]]
    if report["matching"] is not None:
        lines.append(f"detected ({report['layout']}): {report['matching']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
