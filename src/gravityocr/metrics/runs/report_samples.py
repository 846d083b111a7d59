"""The lower half of a score report: the worst samples side by side, as HTML."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

from PIL import Image

from gravityocr.metrics.runs.axes import axis_name
from gravityocr.metrics.runs.report_diff import MOST_CHARS, diff_html, shown, table_markup
from gravityocr.metrics.runs.report_model import ReportSample, counted, number
from gravityocr.metrics.runs.table_input import comparable_table, table_as_html

Draw = Callable[[Sequence[str]], list[bytes | None]]
"""Makes a PNG of every LaTeX formula, None of one that cannot be set."""

_EMPTY = "<p class='soft small'>empty</p>"
_IMAGE_SIDE_PX = 1100
_N_OPEN = 3  # samples that are unfolded at first
_FRAME_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_FRAME_STYLE = (
    "body{margin:8px;font:13px/1.45 system-ui,sans-serif;color:#1b1f27;background:#fff}"
    "table{border-collapse:collapse}td,th{border:1px solid #b9c1cc;padding:3px 7px;vertical-align:top}"
)


def worst_html(samples: Sequence[ReportSample], n_worst: int, draw: Draw | None) -> str:
    """Show the worst of each kind: figures of tables and of texts do not compare."""
    if not samples or not n_worst:
        return ""
    legend = "In the diffs: <del>only in the reference</del> <ins>only in the prediction</ins>"
    parts = [f"<h2>Worst samples</h2><p class='small soft'>{legend}</p>"]
    kinds = list(dict.fromkeys(sample.kind for sample in samples))
    for kind in kinds:
        ranked = sorted((sample for sample in samples if sample.kind == kind), key=_rank)
        chosen = ranked[:n_worst]
        pictures: dict[str, bytes | None] = {}
        if kind == "formula" and draw is not None:
            texts = list(dict.fromkeys(text for sample in chosen for text in (sample.ref, sample.pred)))
            pictures = dict(zip(texts, draw(texts), strict=True))
        head = f"{kind.capitalize()}s: " if len(kinds) > 1 else ""
        parts.append(f"<h3>{head}{len(chosen)} of {counted(len(ranked), 'sample')}, the worst first</h3>")
        parts += [_sample(sample, index < _N_OPEN, pictures) for index, sample in enumerate(chosen)]
    return "\n".join(parts)


def _rank(sample: ReportSample) -> float:
    return -1.0 if sample.goodness is None else sample.goodness


def _sample(sample: ReportSample, is_open: bool, pictures: Mapping[str, bytes | None]) -> str:
    error = f"<p class='error small'>{escape(sample.error)}</p>" if sample.error else ""
    picture = _picture(sample.image) if sample.image else ""
    frames = ""
    if sample.kind == "table":
        frames = _sides(_frame(sample.ref), _frame(sample.pred))
    elif sample.kind == "formula" and pictures:
        frames = _sides(_drawn(pictures[sample.ref], sample.ref), _drawn(pictures[sample.pred], sample.pred))
    raw = _sides(_raw(sample.ref, sample.kind), _raw(sample.pred, sample.kind))
    if sample.kind == "table":
        raw = f"<details class='raw'><summary>Markup</summary>{raw}</details>"
        title, pred, ref = "Diff of the normal forms", comparable_table(sample.pred), comparable_table(sample.ref)
    else:
        title, pred, ref = "Diff", sample.pred, sample.ref
    diff = f"<div><h3>{title}</h3><pre class='diff'>{diff_html(pred, ref)}</pre></div>"
    return (
        f"<details class='card sample'{' open' if is_open else ''}><summary>{_head(sample)}</summary>"
        f"<div class='body'>{error}{picture}{frames}{raw}{diff}</div></details>"
    )


def _head(sample: ReportSample) -> str:
    grade = "bad"
    if sample.goodness is not None and sample.goodness >= 0.5:
        grade = "good" if sample.goodness >= 0.9 else "mid"
    tags = [f"<span class='tag bad'>{escape(sample.badge)}</span>"] if sample.badge else []
    if sample.status != "ok":
        tags.append(f"<span class='tag bad'>{escape(sample.status)}</span>")
    for name, value in sample.values.items():
        known = axis_name(name)
        tags.append(f"<span class='tag'>{escape(known.arrow)} {number(value, known.top)}</span>")
    tags += [f"<span class='tag'>{escape(key)}: {escape(value)}</span>" for key, value in sample.attributes.items()]
    measure = f"<span class='measure'>{escape(sample.measure)}</span> " if sample.measure else ""
    return (
        f"<span class='score {grade}'>{measure}{number(sample.goodness)}</span>"
        f"<span class='name'>{escape(sample.id)}</span>{''.join(tags)}"
    )


def _raw(text: str, kind: str) -> str:
    if not text:
        return _EMPTY
    return f"<pre class='text{' prose' if kind in ('text', 'page') else ''}'>{shown(text)}</pre>"


def _sides(ref: str, pred: str) -> str:
    return (
        f"<div class='sides'><div class='side'><h3>Reference</h3>{ref}</div>"
        f"<div class='side'><h3>Prediction</h3>{pred}</div></div>"
    )


def _frame(text: str) -> str:
    """Render a table where nothing of it can run, load or navigate."""
    if not text.strip():
        return _EMPTY
    html = table_as_html(text[: 5 * MOST_CHARS])
    page = (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_FRAME_POLICY}">'
        f"<style>{_FRAME_STYLE}</style>{table_markup(html)}"
    )
    height = min(440, max(90, 40 + 27 * html.lower().count("<tr")))
    return (
        f'<iframe sandbox="" loading="lazy" referrerpolicy="no-referrer" title="table" style="height:{height}px" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def _drawn(png: bytes | None, latex: str) -> str:
    if png is None:
        return "<p class='soft small'>cannot be rendered</p>" if latex.strip() else _EMPTY
    data = base64.b64encode(png).decode("ascii")
    return f'<div class="picture"><img alt="formula" src="data:image/png;base64,{data}"></div>'


def _picture(path: Path) -> str:
    """Embed a picture, made smaller where it is large; one that cannot be read says so."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * _IMAGE_SIDE_PX, 2 * _IMAGE_SIDE_PX))
            small = image.convert("RGB")
            small.thumbnail((_IMAGE_SIDE_PX, _IMAGE_SIDE_PX))
        stream = io.BytesIO()
        small.save(stream, "WEBP", quality=82)
    except (OSError, EOFError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f"<p class='error small'>{escape(path.name)}: cannot be shown ({escape(str(error))})</p>"
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return f'<div class="picture"><img alt="{escape(path.name)}" src="data:image/webp;base64,{data}"></div>'
