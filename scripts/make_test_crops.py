"""Render the crops in tests/data/crops: our own words, formulas and tables, as a reader would cut them.

    python scripts/make_test_crops.py --data data --out tests/data/crops

Text is drawn in the held-out fonts, formulas by pdflatex, tables by Chromium.
"""

from __future__ import annotations

import argparse
import io
import json
from html import escape
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from gravityocr.metrics.formulas.formula_pictures import draw_formulas
from gravityocr.training.synthetic.chromium import Chromium

LINES = (
    "A draft is cheap when the page itself says what comes next.",
    "Every token that survives was chosen by the causal path.",
    "The verifier reads 17 rows at once and keeps the longest prefix.",
    "3.2 Rejected suffixes are freed by a subtraction",
    "Table 4: Accepted drafts per round, by kind of region (n = 512)",
    "Nothing is lost: a failed page is named, the others are written.",
    "See Section 2.1; the block size B is a run-time choice.",
    "Wrong mask ids keep the output right and spoil the speed.",
    "[12] A. Reader and B. Writer. Notes on slow scanners. 2024.",
    "Prices rose by 3.5% between 1998 and 2003, then fell again.",
    "The quick brown fox jumps over the lazy dog, twice.",
    "Contact: editor@example.org, Room 7, 14 Mill Lane",
)
PARAGRAPHS = (
    "Speculation is worth its price only where the guess is good. On a printed page the guess is good, because "
    "the answer is already in the picture: the next word is not invented, it is read. So a parallel draft of a "
    "whole line is often right to the last letter, and the check that follows costs one more forward.",
    "An archive of letters seldom has one hand or one paper. The ink fades at the folds, the lines climb towards "
    "the right, and the clerk saved space by writing close. A reader that knows where each character lies can "
    "skip none of them.",
    "We measured each step twice. First the time of a forward with one row, then with seventeen; the second was "
    "less than twice the first. Since a round commits more than four tokens on average, the balance is clear even "
    "on two cores.",
)
FORMULAS = (
    r"n_{k+1}=n_{k}+2+A_{k}",
    r"\mathrm{TPF}=\frac{N-1}{F}",
    r"p(y|x)=\prod_{i=1}^{N}p(y_{i}|y_{1},\ldots,y_{i-1},x)",
    r"L=-\sum_{i=1}^{N}\log p(y_{i}),\quad\lambda\geq0",
    r"\int_{0}^{\infty}e^{-\alpha t^{2}}dt=\frac{1}{2}\sqrt{\frac{\pi}{\alpha}}",
    r"\hat{\theta}=\theta-\eta\nabla_{\theta}L(\theta)",
    r"A=\left(\begin{array}{cc}a&b\\ c&d\end{array}\right)",
    r"\tilde{Q}_{i}^{\alpha}\in\mathcal{H}\otimes\mathbb{R}^{3}",
)
RULED = "table{border-collapse:collapse}td{border:1px solid #222;padding:3px 9px}"
BOOKTABS = (
    "table{border-collapse:collapse;border-top:2px solid #000;border-bottom:2px solid #000}"
    "td{padding:2px 12px 2px 4px}tr:first-child td{border-bottom:1px solid #000}"
)
ZEBRA = "table{border-collapse:collapse}td{padding:5px 14px}tr:nth-child(even) td{background:#e4e4e4}"
TABLES = (
    (RULED, 15, "Mode|Forwards|Tokens/draft|1|32/verify|1|9.7/plain|1|1"),
    (BOOKTABS, 13, "Region|n|Edit|TPF/Text|412|0.031|8.52/Formula|96|0.104|10.50/Table|57||13.51"),
    (ZEBRA, 14, "Item|Amount|Price/Paper, 500 sheets|12|$64.80/Ink|3|$41.70/Total||$106.50"),
    (RULED, 11, "Year|Letters|Pages|Unread/1846|218|1,034|17 (7.8%)/1847|305|1,498|22 (7.2%)/1848|97|401|-"),
)
"""Style, font size, and the cells: rows end with a slash, cells with a bar."""


def wrap(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and font.getlength(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line]


def render(lines: list[str], font: ImageFont.FreeTypeFont, rng: np.random.Generator) -> Image.Image:
    step = round(font.size * rng.uniform(1.15, 1.4))
    margin = int(rng.integers(4, 12))
    width = round(max(font.getlength(line) for line in lines)) + 2 * margin
    image = Image.new("L", (width, step * len(lines) + margin), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((margin, margin // 2 + number * step), line, fill=int(rng.integers(0, 60)), font=font)
    image = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.0, 0.7))))
    noisy = np.asarray(image, np.float32) + rng.normal(0, rng.uniform(0, 6), (image.height, image.width))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def formula_crops(out: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for number, (latex, picture) in enumerate(zip(FORMULAS, draw_formulas(FORMULAS), strict=True)):
        if picture is None:
            raise SystemExit(f"pdflatex does not set {latex}")
        name = f"formula_{number:02d}.png"
        with Image.open(io.BytesIO(picture)) as image:
            image.convert("L").save(out / name, optimize=True)
        rows.append({"file": name, "kind": "formula", "ground_truth": {"latex": latex}, "language": "english"})
    return rows


def table_crops(out: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for number, (style, size, cells) in enumerate(TABLES):
        lines = [[f"<td>{escape(cell)}</td>" for cell in row.split("|")] for row in cells.split("/")]
        body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
        page = f"<style>@page{{size:700px 300px;margin:0}}body{{font:{size}px serif;margin:9px}}{style}</style>"
        with Chromium() as browser:
            laid_out = browser.lay_out(f"{page}<table>{body}</table>", "() => null", (700, 300))
        document = pdfium.PdfDocument(laid_out.pdf)
        image = document[0].render(scale=1.6, grayscale=True).to_pil().convert("L")
        document.close()
        left, top, right, bottom = image.point(lambda value: 255 if value < 250 else 0).getbbox() or (0, 0, 1, 1)
        name = f"table_{number:02d}.png"
        image.crop((left - 4, top - 4, right + 4, bottom + 4)).save(out / name, optimize=True)
        truth = {"html": f"<table>{body}</table>"}
        rows.append({"file": name, "kind": "table", "ground_truth": truth, "language": "english"})
    return rows


def text_crops(data: Path, out: Path) -> list[dict[str, object]]:
    fonts = json.loads((data / "fonts.json").read_text(encoding="utf-8"))
    held_out = [font for font in fonts if font["split"] == "heldout"]
    families = sorted({font["family"] for font in held_out})
    rows: list[dict[str, object]] = []
    for number, text in enumerate([*LINES, *PARAGRAPHS]):
        rng = np.random.default_rng([2026, number])
        family = families[number % len(families)]
        faces = sorted(font["path"] for font in held_out if font["family"] == family)
        upright = [face for face in faces if not any(word in face for word in ("Italic", "Oblique"))] or faces
        size = int(rng.integers(18, 34))
        font = ImageFont.truetype(str(data / upright[int(rng.integers(len(upright)))]), size)
        lines = wrap(text, font, 24 * size) if text in PARAGRAPHS else [text]
        name = f"{'line' if text in LINES else 'paragraph'}_{number:02d}.png"
        render(lines, font, rng).save(out / name, optimize=True)
        row = {"file": name, "kind": "text", "ground_truth": {"text": text}, "language": "english"}
        rows.append({**row, "font": family, "n_lines": len(lines)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [*text_crops(args.data, args.out), *formula_crops(args.out), *table_crops(args.out)]
    manifest = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    (args.out / "manifest.json").write_text(manifest, encoding="utf-8")


if __name__ == "__main__":
    main()
