"""How generated tables look: rules, backgrounds, spacing, alignment and fonts, written as HTML and CSS."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from gravityocr.training.synthetic.fonts import FontFace, FontLibrary
from gravityocr.training.synthetic.table_model import Cell, Run, Table
from gravityocr.training.synthetic.table_values import chance, pick

FONT_PX = 16.0
PAGE_PX = (1240, 1754)
_TAGS = {
    "": ("", ""),
    "b": ("<b>", "</b>"),
    "i": ("<i>", "</i>"),
    "sup": ("<sup>", "</sup>"),
    "sub": ("<sub>", "</sub>"),
}
_FRAMES = (
    *(("booktabs", 0.40), ("lines", 0.13), ("ruled", 0.17), ("borderless", 0.08), ("zebra", 0.08)),
    *(("frame", 0.05), ("columns", 0.05), ("double", 0.04)),
)  # fmt: skip
_PAGE_CSS = f"""
@page {{ size: {PAGE_PX[0]}px {PAGE_PX[1]}px; margin: 0 }}
* {{ -webkit-print-color-adjust: exact; print-color-adjust: exact; box-sizing: border-box }}
body {{ margin: 0; background: white }}
.page {{ width: {PAGE_PX[0]}px; height: {PAGE_PX[1]}px; padding: 50px; overflow: hidden; break-after: page }}
table {{ border-spacing: 0 }}
td {{ position: relative }}
sup, sub {{ line-height: 0 }}
.trim {{ position: absolute; bottom: 0 }}
"""
# Returns for every page: the table's rectangle and, for each text-bearing element, its key, characters and boxes.
MEASURE_SCRIPT = """
() => [...document.querySelectorAll('.page')].map(page => {
  const box = r => [r.left, r.top, r.width, r.height].map(v => Math.round(v * 100) / 100);
  const origin = page.getBoundingClientRect(), range = document.createRange();
  const texts = [...page.querySelectorAll('[data-k]')].map(element => {
    let chars = '';
    const boxes = [];
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.nodeName === 'BR') { chars += '\\n'; boxes.push(0, 0, 0, 0); }
      if (node.nodeType !== 3) continue;
      for (let i = 0; i < node.length; i++) {
        range.setStart(node, i); range.setEnd(node, i + 1);
        const [x, y, w, h] = box(range.getBoundingClientRect());
        chars += node.data[i]; boxes.push(x - origin.left, y - origin.top, w, h);
      }
    }
    return [Number(element.dataset.k), chars, boxes];
  });
  const [x, y, w, h] = box(page.querySelector('table').getBoundingClientRect());
  return {table: [x - origin.left, y - origin.top, w, h], texts};
})
"""


class Measured(TypedDict):
    """Hold what the script returns of a page: rectangles are left, top, width, height in CSS px, flat for the texts."""

    table: list[float]
    texts: list[tuple[int, str, list[float]]]


@dataclass(frozen=True)
class Look:
    """Hold the looks of one table: its faces, its CSS (`#ID` stands for the table's selector), trimmed rules."""

    faces: dict[str, FontFace]
    css: str
    trimmed: str
    indent_px: float


def choose_faces(rng: np.random.Generator, fonts: FontLibrary) -> dict[str, FontFace]:
    """Choose a family: its regular, bold and italic faces, as far as there are such."""
    face = fonts.pick(rng, 0.6)
    for _ in range(2):
        # Journals set tables in sans faces more often than their text.
        if face.kind != "sans" and chance(rng, 0.5):
            face = fonts.pick(rng, 0.6)
    family = {other.style: other for other in reversed(fonts.faces) if other.family == face.family}
    if face.style in ("regular", "bold", "italic") and not chance(rng, 0.15):
        face = family.get("regular", face)
    faces = {"regular": face}
    if face.style == "regular":
        faces |= {style: family[style] for style in ("bold", "italic") if style in family}
    return faces


def choose_look(rng: np.random.Generator, fonts: FontLibrary, table: Table) -> Look:
    """Choose how a table looks."""
    faces = choose_faces(rng, fonts)
    frame = _FRAMES[int(rng.choice(len(_FRAMES), p=np.array([share for _, share in _FRAMES])))][0]
    # Without rules between them, columns need white space, as typesetters know.
    least = 1.5 if frame in ("ruled", "columns", "double") else 4.5
    pad_x = least + float(rng.choice((0, 1.5, 3.5, 6, 11), p=(0.1, 0.25, 0.3, 0.2, 0.15))) + float(rng.uniform(0, 3))
    pad_y = float(rng.choice((0, 1, 2, 4, 7), p=(0.12, 0.18, 0.3, 0.25, 0.15))) + float(rng.uniform(0, 1.5))
    natural = _natural_width(table, pad_x)
    width = float(np.clip(natural * rng.triangular(0.5, 1.0, 1.5), 180, PAGE_PX[0] - 120))
    spacing = "normal" if chance(rng, 0.8) else f"{rng.uniform(-0.2, 0.7):.2f}px"
    ligatures = "none" if faces["regular"].kind == "mono" or chance(rng, 0.5) else "normal"
    css = [
        f"#ID {{ font-size: {FONT_PX:g}px; line-height: {rng.uniform(1.05, 1.5):.2f}; color: {_ink(rng)};"
        f" font-variant-ligatures: {ligatures}; letter-spacing: {spacing} }}",
        f"#ID .hold {{ width: {width:.0f}px }}",
        f"#ID td {{ padding: {pad_y:.1f}px {pad_x:.1f}px; vertical-align: {_vertical(rng)} }}",
        f"#ID .hd {{ vertical-align: {_vertical(rng)} }}",
        f"#ID sup, #ID sub {{ font-size: {rng.uniform(0.62, 0.8):.2f}em }}",
    ]
    if chance(rng, 0.45):
        css.append("#ID table { width: 100% }")
    if chance(rng, 0.65):
        css.append("#ID .hd { font-weight: bold }")
    if chance(rng, 0.08):
        css.append("#ID .stub { font-weight: bold }")
    if chance(rng, 0.85):
        css.append("#ID .number { white-space: nowrap }")
    if chance(rng, 0.03):
        css.append("#ID .hd { word-break: break-all }")
    css += _alignment(rng)
    rules, trimmed = _rules(rng, frame)
    return Look(faces, "\n".join([*css, *rules]), trimmed, float(rng.choice((8, 12, 18, 26))))


def document_of(tables: Sequence[tuple[Table, Look, tuple[str, str]]]) -> str:
    """Write a document with one page a table; the pair of strings is the text above and below it."""
    css, pages = [_PAGE_CSS], []
    for number, (table, look, (above, below)) in enumerate(tables):
        css.append(look.css.replace("#ID", f"#t{number}"))
        for style, face in look.faces.items():
            shape = {"bold": "font-weight: bold", "italic": "font-style: italic"}.get(style, "")
            css.append(
                f"@font-face {{ font-family: f{number}; src: url('{Path(face.path).absolute().as_uri()}'); {shape} }}"
            )
        css.append(f"#t{number} {{ font-family: f{number}, 'DejaVu Sans' }}")
        pages.append(f'<div class="page" id="t{number}">{_page_body(table, look, above, below)}</div>')
    head = f'<head><meta charset="utf-8"><style>{"".join(css)}</style></head>'
    return f"<!DOCTYPE html><html>{head}<body>{''.join(pages)}</body></html>"


def _page_body(table: Table, look: Look, above: str, below: str) -> str:
    micro = look.faces["regular"].micro_for_mu
    rows: list[list[str]] = [[] for _ in range(table.n_rows)]
    for number, cell in enumerate(table.cells):
        rows[cell.row].append(_cell_html(number, cell, table, look, micro))
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    parts = [f'<div class="hold"><table>{body}</table></div>']
    for key, text, place in ((-1, above, 0), (-2, below, 2)):
        if text:
            parts.insert(place, f'<div class="cap{-key}" data-k="{key}">{_escape(text, micro)}</div>')
    return "".join(parts)


def _cell_html(number: int, cell: Cell, table: Table, look: Look, micro: bool) -> str:
    is_head = cell.row < table.n_head
    classes = [cell.kind, f"p{cell.row % 2}"]
    if is_head:
        classes.append("hd")
        if cell.row + cell.n_rows == table.n_head:
            classes.append("last")
        elif cell.n_columns > 1 and cell.text:
            classes.append("gp")
    elif cell.row + cell.n_rows == table.n_rows:
        classes.append("end")
    attributes = f' class="{" ".join(classes)}" data-k="{number}"'
    attributes += f' colspan="{cell.n_columns}"' if cell.n_columns > 1 else ""
    attributes += f' rowspan="{cell.n_rows}"' if cell.n_rows > 1 else ""
    text = "".join(_run_html(run, micro) for run in cell.runs)
    if cell.indent:
        text = f'<div style="padding-left: {cell.indent * look.indent_px:g}px">{text}</div>'
    trim = f'<div class="trim" style="{look.trimmed}"></div>' if "gp" in classes and look.trimmed else ""
    return f"<td{attributes}>{text}{trim}</td>"


def _run_html(run: Run, micro: bool) -> str:
    opening, closing = _TAGS[run.style]
    return f"{opening}{_escape(run.text, micro)}{closing}"


def _escape(text: str, micro: bool) -> str:
    drawn = text.replace("μ", "µ") if micro else text
    return html.escape(drawn).replace("\n", "<br>")


def _natural_width(table: Table, pad_x: float) -> float:
    """Estimate the width that the table takes where no cell wraps, long sentences counted as 40 characters."""
    widths = [0.0] * table.n_columns
    for cell in table.cells:
        share = min(len(cell.text), 40) / cell.n_columns
        for column in range(cell.column, cell.column + cell.n_columns):
            widths[column] = max(widths[column], share)
    return sum(0.5 * FONT_PX * width + 2 * pad_x for width in widths)


def _ink(rng: np.random.Generator) -> str:
    roll = rng.random()
    if roll < 0.7:
        return "#000"
    grey = int(rng.integers(10, 110))
    return f"rgb({grey},{grey},{grey})" if roll < 0.94 else f"rgb({grey // 2},{grey // 2},{grey + 60})"


def _vertical(rng: np.random.Generator) -> str:
    return pick(rng, ("top", "top", "top", "middle", "middle", "bottom"))


def _alignment(rng: np.random.Generator) -> list[str]:
    numbers = pick(rng, ("left", "left", "center", "center", "right", "right"))
    texts = pick(rng, ("left", "left", "left", "center"))
    heads = pick(rng, (numbers, numbers, "center", "left"))
    justified = "; text-align: justify" if texts == "left" and chance(rng, 0.08) else ""
    css = [
        f"#ID .number {{ text-align: {numbers} }}",
        f"#ID .text {{ text-align: {texts}{justified} }}",
        f"#ID .stub {{ text-align: {pick(rng, ('left', 'left', 'left', 'left', 'left', 'center', 'right'))} }}",
        f"#ID .hd {{ text-align: {heads} }}",
        f"#ID .gp {{ text-align: {pick(rng, ('center', 'center', 'left'))} }}",
        f"#ID .section {{ text-align: {pick(rng, ('left', 'left', 'left', 'center'))} }}",
    ]
    if chance(rng, 0.7):
        css.append("#ID tr > td:first-child { text-align: left }")
    for key in (1, 2):
        gap, size = rng.uniform(2, 16), rng.uniform(0.8, 1.1)
        css.append(f"#ID .cap{key} {{ margin: {gap:.1f}px 0; font-size: {size:.2f}em; white-space: nowrap }}")
    return css


def _rules(rng: np.random.Generator, frame: str) -> tuple[list[str], str]:
    """Return the CSS of rules and backgrounds, and the style of trimmed rules under the heads of groups."""
    roll = rng.random()
    colour = "#000" if roll < 0.7 else (f"rgb({(g := int(rng.integers(60, 190)))},{g},{g})" if roll < 0.94 else "#36a")
    thin, thick = float(rng.uniform(0.5, 1.6)), float(rng.uniform(1.0, 3.0))
    line, bold = f"{thin:.1f}px solid {colour}", f"{thick:.1f}px solid {colour}"
    css = ["#ID table { border-collapse: collapse }"]
    trimmed = ""
    if frame in ("booktabs", "zebra", "borderless", "lines"):
        if frame != "borderless":
            css.append(f"#ID table {{ border-top: {bold}; border-bottom: {bold} }}")
            css.append(f"#ID .last {{ border-bottom: {pick(rng, (line, bold))} }}")
        roll = rng.random()
        if roll < 0.5:
            css.append(f"#ID .gp {{ border-bottom: {line} }}")
        elif roll < 0.85:
            trimmed = f"border-bottom: {line}; left: {rng.uniform(2, 10):.0f}px; right: {rng.uniform(2, 10):.0f}px"
    if frame == "lines":
        css.append(f"#ID td {{ border-bottom: {line} }}")
    elif frame == "ruled":
        css.append(f"#ID td {{ border: {line} }}")
    elif frame == "frame":
        css.append(f"#ID table {{ border: {bold} }} #ID .last {{ border-bottom: {line} }}")
    elif frame == "columns":
        css.append(f"#ID td + td {{ border-left: {line} }} #ID .last {{ border-bottom: {line} }}")
        css.append(f"#ID table {{ border: {pick(rng, (line, bold, 'none'))} }}")
    elif frame == "double":
        css.append(f"#ID table {{ border: 4px double {colour} }} #ID .last {{ border-bottom: 4px double {colour} }}")
        css.append(f"#ID td {{ border-right: {pick(rng, (line, 'none'))} }}")
    if frame == "zebra" or chance(rng, 0.04):
        grey = int(rng.integers(205, 246))
        css.append(f"#ID .p{rng.integers(2)} {{ background: rgb({grey},{grey},{grey}) }}")
    if chance(rng, 0.12 if frame in ("booktabs", "lines", "borderless") else 0.25):
        css.append(_header_bar(rng))
    if chance(rng, 0.06):
        css.append(f"#ID .section {{ background: rgb(225,225,225); border-top: {line}; border-bottom: {line} }}")
    return css, trimmed


def _header_bar(rng: np.random.Generator) -> str:
    if chance(rng, 0.45):
        dark = int(rng.integers(0, 110))
        return f"#ID .hd {{ background: rgb({dark},{dark},{dark + 30}); color: white }}"
    light = int(rng.integers(190, 242))
    return f"#ID .hd {{ background: rgb({light},{light},{light}) }}"
