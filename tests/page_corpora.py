"""DocLayNet and UniMER-1M in exactly the layouts in which they are published, in miniature."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

HASHES = tuple(f"{number:02x}" * 32 for number in range(16))


def coco_image(number: int, **changes: object) -> dict[str, object]:
    """Return the record of a page in DocLayNet's COCO file."""
    values = {
        "id": number, "width": 1025, "height": 1025, "file_name": f"{HASHES[number % len(HASHES)]}.png",
        "doc_category": "financial_reports", "collection": "ann_reports_00_04_fancy",
        "doc_name": f"NASDAQ_FFIN_200{number // 2}.pdf", "page_no": 9 + number, "precedence": 0,
    }  # fmt: skip
    return {**values, **changes}


def coco_annotation(number: int) -> dict[str, object]:
    """Return the record of a block in DocLayNet's COCO file."""
    box = [67.0, 112.0, 290.9, 13.7]
    values = {"id": number, "image_id": 1, "category_id": 8, "bbox": box, "segmentation": [box], "area": 3974.0}
    return {**values, "iscrowd": 0, "precedence": 0}


def coco(images: list[dict[str, object]], *, images_last: bool = False) -> str:
    """Return a COCO file of some pages, and of annotations that belong to none of them."""
    parts = {"images": images, "annotations": [coco_annotation(number) for number in range(40)]}
    names = [*parts][::-1] if images_last else [*parts]
    return json.dumps({"categories": [{"id": 1, "name": "Caption"}], **{name: parts[name] for name in names}}, indent=1)


def write_doclaynet(root: Path, pages: Mapping[str, bytes]) -> None:
    """Write DocLayNet: an encoded page of each of some documents, all for training; test.json names the first."""
    images = [coco_image(number, doc_name=name, page_no=1) for number, name in enumerate(pages)]
    (root / "COCO").mkdir(parents=True)
    for split, listed in {"train": images, "val": [], "test": images[:1]}.items():
        (root / "COCO" / f"{split}.json").write_text(coco(listed), encoding="utf-8")
    (root / "PNG").mkdir()
    for record, data in zip(images, pages.values(), strict=True):
        (root / "PNG" / str(record["file_name"])).write_bytes(data)


def write_unimer(root: Path, formulas: Mapping[str, bytes]) -> None:
    """Write UniMER-1M: formulas with their encoded pictures, and a test part beside it."""
    folder = root / "UniMER-1M"
    (folder / "images").mkdir(parents=True)
    (folder / "train.txt").write_bytes("\n".join(formulas).encode())
    for number, data in enumerate(formulas.values()):
        (folder / "images" / f"{number:07d}.png").write_bytes(data)
    (root / "UniMER-Test" / "spe").mkdir(parents=True)
    (root / "UniMER-Test" / "spe.txt").write_text("x\n", encoding="utf-8")
