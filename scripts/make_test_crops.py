"""Render the text crops in tests/data/crops: our own words in the held-out fonts, as a reader would cut them.

    python scripts/make_test_crops.py --data data --out tests/data/crops
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    fonts = json.loads((args.data / "fonts.json").read_text(encoding="utf-8"))
    held_out = [font for font in fonts if font["split"] == "heldout"]
    families = sorted({font["family"] for font in held_out})
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, text in enumerate([*LINES, *PARAGRAPHS]):
        rng = np.random.default_rng([2026, number])
        family = families[number % len(families)]
        faces = sorted(font["path"] for font in held_out if font["family"] == family)
        upright = [face for face in faces if not any(word in face for word in ("Italic", "Oblique"))] or faces
        size = int(rng.integers(18, 34))
        font = ImageFont.truetype(str(args.data / upright[int(rng.integers(len(upright)))]), size)
        lines = wrap(text, font, 24 * size) if text in PARAGRAPHS else [text]
        name = f"{'line' if text in LINES else 'paragraph'}_{number:02d}.png"
        render(lines, font, rng).save(args.out / name, optimize=True)
        row = {"file": name, "kind": "text", "ground_truth": {"text": text}, "language": "english"}
        rows.append({**row, "font": family, "n_lines": len(lines)})
    manifest = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    (args.out / "manifest.json").write_text(manifest, encoding="utf-8")


if __name__ == "__main__":
    main()
