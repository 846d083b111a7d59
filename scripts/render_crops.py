"""Render whole crops with their targets as one region file: tables, formulas, lines and paragraphs of text.

    python scripts/render_crops.py --data data --out whole.regions.parquet --tables 150 --split heldout --seed 1

`--data` is a folder that scripts/prepare_data.py filled. Tables need Chromium, formulas pdflatex. The crops are what a
layout detector leaves, not the pieces that a small network reads: for `evaluation.whole_crops`, and for `Engine`.
The numbers of rows of the tables are spread over `--rows` as evenly as the content allows.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from gravityocr.document import Task
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, encode_picture, write_regions
from gravityocr.training.synthetic.fonts import Split
from gravityocr.training.synthetic.formula_crops import make_formula_samples
from gravityocr.training.synthetic.synth import SPLITS
from gravityocr.training.synthetic.table_crops import TableCropRenderer
from gravityocr.training.synthetic.table_labels import TableCrop
from gravityocr.training.synthetic.text_crops import CropConfig, TextCropRenderer

SOURCE = "whole"
BATCH = 40
N_BANDS = 4
MAX_VAIN_BATCHES = 25
DIFFICULTY = 0.7
PARAGRAPH = CropConfig(multi_line_share=1.0, multi_line_widths=(384, 512, 640))


def n_rows(crop: TableCrop) -> int:
    return crop.html.count("<tr")


def band_of(rows: int, least: int, most: int) -> int | None:
    """Return which of the bands, equally wide on a scale of ratios, a number of rows belongs to."""
    if not least <= rows <= most:
        return None
    return min(N_BANDS - 1, int(N_BANDS * np.log(rows / least) / np.log((most + 1) / least)))


def tables(renderer: TableCropRenderer, rng: np.random.Generator, n: int, rows: tuple[int, int]) -> list[TableCrop]:
    """Draw tables until every band of row counts has its share; one that stays rare is filled up from the others.

    *Raises*: ConfigError where too few tables have such a number of rows.
    """
    kept: list[list[TableCrop]] = [[] for _ in range(N_BANDS)]
    spare: list[TableCrop] = []
    quota = -(-n // N_BANDS)
    for _ in range(MAX_VAIN_BATCHES + n // BATCH):
        if all(len(band) == quota for band in kept):
            break
        for crop in renderer.batch(rng, BATCH):
            place = band_of(n_rows(crop), *rows)
            if place is not None:
                (kept[place] if len(kept[place]) < quota else spare).append(crop)
    # One of each band in turn, so that the first n hold all of them.
    turns = [band[i] for i in range(quota) for band in kept if i < len(band)]
    found = [*turns, *spare][:n]
    if len(found) < n:
        raise ConfigError(f"only {len(found)} tables of {rows[0]} to {rows[1]} rows were drawn; widen --rows")
    return found


def region(task: Task, image: np.ndarray, target: str, doc_id: str) -> LabelledRegion:
    return LabelledRegion(
        f"{SOURCE}/{doc_id}/0/0", encode_picture(Image.fromarray(image)), image.shape[1],
        image.shape[0], task, target, SOURCE, doc_id,
    )  # fmt: skip


def regions(args: argparse.Namespace) -> Iterator[LabelledRegion]:
    split: Split = args.split
    series = f"{split}-{args.seed}"
    if args.tables:
        with TableCropRenderer(args.data, split) as renderer:
            found = tables(renderer, np.random.default_rng([args.seed, 1]), args.tables, tuple(args.rows))
        for number, crop in enumerate(found):
            # The micro sign is the letter mu everywhere in our targets.
            yield region("table", crop.image, crop.html.replace("µ", "μ"), f"{series}-table-{number}")
    if args.formulas:
        for number, one in enumerate(make_formula_samples(args.data, split, args.seed, args.formulas)):
            yield region("formula", one.image, one.target, f"{series}-formula-{number}")
    for name, n, config in (("line", args.lines, CropConfig(multi_line_share=0.0)),
                            ("paragraph", args.paragraphs, PARAGRAPH)):  # fmt: skip
        renderer_of_text = TextCropRenderer(args.data, split, config) if n else None
        for number in range(n):
            assert renderer_of_text is not None
            sample = renderer_of_text.sample(np.random.default_rng([args.seed, len(name), number]), DIFFICULTY)
            yield region("text", sample.image, sample.text, f"{series}-{name}-{number}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that scripts/prepare_data.py filled")
    parser.add_argument("--out", type=Path, required=True, help=f"file to write, ending in {SUFFIX}")
    for name in ("tables", "formulas", "lines", "paragraphs"):
        what = f"{name} of text" if name in ("lines", "paragraphs") else name
        parser.add_argument(
            f"--{name}", type=int, default=0, metavar="N", help=f"number of {what} to render (default: %(default)s)"
        )
    rows = "least and most rows of a table (default: 3 30)"
    parser.add_argument("--rows", type=int, nargs=2, default=(3, 30), metavar=("LEAST", "MOST"), help=rows)
    split = "part of the content and fonts; heldout is never trained on (default: %(default)s)"
    parser.add_argument("--split", choices=SPLITS, default="heldout", help=split)
    seed = "what is drawn: the same seed gives the same crops (default: %(default)s)"
    parser.add_argument("--seed", type=int, default=0, help=seed)
    args = parser.parse_args()
    if not args.out.name.endswith(SUFFIX):
        parser.error(f"--out {args.out}: name a file that ends in {SUFFIX}")
    if min(args.tables, args.formulas, args.lines, args.paragraphs) < 0 or not 1 <= args.rows[0] < args.rows[1]:
        parser.error("give counts of 0 or more, and --rows in ascending order")
    if not args.tables + args.formulas + args.lines + args.paragraphs:
        parser.error("nothing to render: give --tables, --formulas, --lines or --paragraphs")
    try:
        made = list(regions(args))
        write_regions(args.out, made)
    except (GravityOCRError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"{args.out}: {len(made)} regions, {dict(Counter(one.task for one in made))}")


if __name__ == "__main__":
    main()
