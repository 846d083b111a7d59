"""Draw the sample page that ships with the package, and write what it says beside it.

The text is ours; the picture and its Markdown come from the same constants, so the one cannot drift from the other.
Needs the Liberation Serif fonts (package fonts-liberation on Debian).

    python scripts/make_sample_page.py src/gravityocr/samples
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH_PX, HEIGHT_PX, DPI = 1654, 2339, 200  # A4
MARGIN_PX, GUTTER_PX = 150, 62
COLUMN_PX = (WIDTH_PX - 2 * MARGIN_PX - GUTTER_PX) // 2
BODY_PX, LEADING_PX = 34, 46
GREYS = 16

TITLE = "Self-Speculative Reading of Document Pages"
AUTHORS = "GravityOCR contributors"
ABSTRACT = (
    "A page of print holds a few thousand characters, and a reader that writes them one at a time is slow. We "
    "describe a reader that drafts a whole block of text at once and then checks its own draft word by word. "
    "Whatever the check rejects is written again, so the result is the same as that of the slow reader; only the "
    "time differs."
)
INTRODUCTION = [
    "Most programs that read documents first find the regions of a page: titles, paragraphs, tables, formulas and "
    "pictures. Each region is cut out and handed to a network that writes down what it sees. The network looks at "
    "the picture once, but it runs again for every token that it writes. On a full page nearly all of the time "
    "goes into these small steps.",
    "Text on paper is easy to guess. After a few letters the rest of a word is seldom in doubt, and the picture "
    "leaves even less room for surprise. It would be a waste to spend one step on each token when many of them "
    "could be settled together.",
]
METHOD = [
    "The network has two ways of working. In the first it predicts the next token from all tokens before it. In "
    "the second it fills a block of blanks in a single step. Both ways share the same weights, so nothing has to be "
    "loaded twice and no second network must be trained.",
    "A round has two steps. The draft step fills the blanks. The verify step reads the draft from left to right "
    "and stops at the first token that it would have written differently. The tokens up to there are kept, and the "
    "correct token comes for free.",
]
COST_BEFORE = (
    "Let A be the number of drafted tokens that pass the check. Two more tokens are certain in each round: the "
    "one before the draft and the one after it. A round takes two forward passes, therefore"
)
FORMULA_LATEX = r"T = \frac{n_{\text{tokens}}}{n_{\text{passes}}} = \frac{A + 2}{2}"
COST_AFTER = (
    "which is never less than one. In the worst case every draft is rejected and the reader is as fast as "
    "before, apart from the wider steps. Table 1 shows what longer accepted drafts are worth."
)
CAPTION = "Table 1: Tokens written in one round of two forward passes."
TABLE = [
    ["Accepted", "Written", "Tokens per pass"],
    ["0", "2", "1.0"],
    ["4", "6", "3.0"],
    ["8", "10", "5.0"],
    ["16", "18", "9.0"],
    ["32", "34", "17.0"],
]
LIMITS = [
    "The promise holds for exact arithmetic. With rounded numbers two tokens may come so close that the order of "
    "the sums decides between them. Such ties are rare, and they can be counted: read the page both ways and "
    "compare the two results.",
]
RUNNING_HEAD, PAGE_NUMBER = "GravityOCR sample page", "1"


class Fonts:
    """The faces of the page by role."""

    def __init__(self) -> None:
        def face(style: str, size_px: int) -> ImageFont.FreeTypeFont:
            return ImageFont.truetype(f"LiberationSerif-{style}.ttf", size_px)

        self.title = face("Bold", 58)
        self.authors = face("Regular", 36)
        self.heading = face("Bold", 36)
        self.body = face("Regular", BODY_PX)
        self.small = face("Regular", 31)
        self.head = face("Italic", 26)
        self.math = face("Italic", 42)
        self.digits = face("Regular", 42)
        self.index = face("Regular", 28)


@dataclass
class Pen:
    """Where the next line goes."""

    draw: ImageDraw.ImageDraw
    fonts: Fonts
    x: int
    y: int
    width: int

    def centred(self, text: str, font: ImageFont.FreeTypeFont, leading_px: int) -> None:
        self.draw.text((self.x + (self.width - font.getlength(text)) / 2, self.y), text, 0, font)
        self.y += leading_px

    def heading(self, text: str) -> None:
        self.y += 22
        self.draw.text((self.x, self.y), text, 0, self.fonts.heading)
        self.y += 56

    def paragraph(self, text: str, font: ImageFont.FreeTypeFont, leading_px: int, indent_px: int = 0) -> None:
        """Set justified lines; the last one is left as it falls."""
        lines = wrap(text, font, self.width, indent_px)
        for number, words in enumerate(lines):
            x = float(self.x + (indent_px if number == 0 else 0))
            natural = sum(font.getlength(word) for word in words)
            space = font.getlength(" ")
            if number < len(lines) - 1 and len(words) > 1:
                space = (self.x + self.width - x - natural) / (len(words) - 1)
            for word in words:
                self.draw.text((x, self.y), word, 0, font)
                x += font.getlength(word) + space
            self.y += leading_px
        self.y += 10

    def body(self, paragraphs: list[str]) -> None:
        for number, text in enumerate(paragraphs):
            self.paragraph(text, self.fonts.body, LEADING_PX, indent_px=34 if number else 0)


def wrap(text: str, font: ImageFont.FreeTypeFont, width_px: int, indent_px: int) -> list[list[str]]:
    """Break greedily at blanks."""
    lines: list[list[str]] = [[]]
    for word in text.split():
        room = width_px - (indent_px if len(lines) == 1 else 0)
        if lines[-1] and font.getlength(" ".join([*lines[-1], word])) > room:
            lines.append([])
        lines[-1].append(word)
    return lines


def draw_fraction(pen: Pen, x: float, above: list[tuple[str, str]], below: list[tuple[str, str]]) -> float:
    """Draw a fraction whose bar is at the pen's height; return the x behind it."""
    width = max(run_length(pen.fonts, above), run_length(pen.fonts, below)) + 16
    draw_run(pen, x + (width - run_length(pen.fonts, above)) / 2, pen.y - 60, above)
    draw_run(pen, x + (width - run_length(pen.fonts, below)) / 2, pen.y + 8, below)
    pen.draw.line((x, pen.y, x + width, pen.y), fill=0, width=3)
    return x + width


def run_length(fonts: Fonts, run: list[tuple[str, str]]) -> float:
    return sum(getattr(fonts, role).getlength(text) for role, text in run)


def draw_run(pen: Pen, x: float, y: float, run: list[tuple[str, str]]) -> None:
    for role, text in run:
        font = getattr(pen.fonts, role)
        pen.draw.text((x, y + (20 if role == "index" else 0)), text, 0, font)
        x += font.getlength(text)


def draw_formula(pen: Pen) -> None:
    """Draw what FORMULA_LATEX says."""
    pen.y += 86
    tokens, passes = [("math", "n"), ("index", "tokens")], [("math", "n"), ("index", "passes")]
    x = pen.x + 120.0
    draw_run(pen, x, pen.y - 24, [("math", "T"), ("digits", " = ")])
    x += run_length(pen.fonts, [("math", "T"), ("digits", " = ")])
    x = draw_fraction(pen, x, tokens, passes)
    draw_run(pen, x, pen.y - 24, [("digits", " = ")])
    x += run_length(pen.fonts, [("digits", " = ")])
    draw_fraction(pen, x, [("math", "A"), ("digits", " + 2")], [("digits", "2")])
    pen.y += 96


def draw_table(pen: Pen) -> None:
    """Draw the caption above a table with three rules."""
    pen.y += 20
    pen.paragraph(CAPTION, pen.fonts.small, 40)
    rights = [pen.x + 170, pen.x + 350, pen.x + pen.width - 20]
    row_px = 44
    for line in (0, row_px + 4, row_px * len(TABLE) + 8):
        pen.draw.line((pen.x, pen.y + line, pen.x + pen.width, pen.y + line), fill=0, width=3)
    for number, row in enumerate(TABLE):
        y = pen.y + 6 + number * row_px + (6 if number else 0)
        for text, right in zip(row, rights, strict=True):
            pen.draw.text((right - pen.fonts.body.getlength(text), y), text, 0, pen.fonts.body)
    pen.y += row_px * len(TABLE) + 30


def draw_page() -> Image.Image:
    """Draw the whole page and make sure that it fits."""
    fonts = Fonts()
    page = Image.new("L", (WIDTH_PX, HEIGHT_PX), 255)
    draw = ImageDraw.Draw(page)
    draw.text((MARGIN_PX, 84), RUNNING_HEAD, 0, fonts.head)
    draw.text((WIDTH_PX / 2 - fonts.small.getlength(PAGE_NUMBER) / 2, 2232), PAGE_NUMBER, 0, fonts.small)

    top = Pen(draw, fonts, MARGIN_PX, 172, WIDTH_PX - 2 * MARGIN_PX)
    top.centred(TITLE, fonts.title, 92)
    top.centred(AUTHORS, fonts.authors, 78)
    top.centred("Abstract", fonts.heading, 56)
    abstract = Pen(draw, fonts, MARGIN_PX + 130, top.y, top.width - 260)
    abstract.paragraph(ABSTRACT, fonts.body, LEADING_PX)

    columns_top = abstract.y + 26
    left = Pen(draw, fonts, MARGIN_PX, columns_top, COLUMN_PX)
    left.heading("1 Introduction")
    left.body(INTRODUCTION)
    left.heading("2 One Network, Two Ways")
    left.body(METHOD)
    right = Pen(draw, fonts, MARGIN_PX + COLUMN_PX + GUTTER_PX, columns_top, COLUMN_PX)
    right.heading("3 What a Round Costs")
    right.body([COST_BEFORE])
    draw_formula(right)
    right.body([COST_AFTER])
    draw_table(right)
    right.heading("4 Limits")
    right.body(LIMITS)
    for pen in (left, right):
        if pen.y > HEIGHT_PX - MARGIN_PX:
            raise SystemExit(f"the text runs {pen.y - HEIGHT_PX + MARGIN_PX} px over the page: shorten it")
    return page


def markdown() -> str:
    """Write what the page says; the running head and the page number are no part of it."""
    rows = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in TABLE)
    blocks = [
        f"# {TITLE}", AUTHORS, "## Abstract", ABSTRACT,
        "## 1 Introduction", *INTRODUCTION,
        "## 2 One Network, Two Ways", *METHOD,
        "## 3 What a Round Costs", COST_BEFORE, f"$$\n{FORMULA_LATEX}\n$$", COST_AFTER,
        CAPTION, f"<table>\n{rows}\n</table>",
        "## 4 Limits", *LIMITS,
    ]  # fmt: skip
    return "\n\n".join(blocks) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where sample_page.png and sample_page.md go")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    # a palette of few greys halves the file and cannot be seen
    page = draw_page().quantize(GREYS)
    page.save(folder / "sample_page.png", optimize=True, dpi=(DPI, DPI))
    (folder / "sample_page.md").write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
