"""A scoring run as one HTML page that needs nothing else: no script, no address, every foreign text escaped.

Predictions are hostile until shown otherwise: tables are reduced to bare table tags and then rendered in sandboxed
frames, and the page's own policy forbids whatever is not in the file.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Literal

from PIL import Image

from gravityocr.errors import InputError
from gravityocr.metrics.runs.confidence import Interval
from gravityocr.metrics.runs.datasets import Note
from gravityocr.metrics.runs.report_diff import MOST_CHARS, diff_html, shown, table_markup

Kind = Literal["text", "table", "formula", "page"]
Draw = Callable[[Sequence[str]], list[bytes | None]]
"""Makes a PNG of every LaTeX formula, None of one that cannot be set."""

_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
_IMAGE_SIDE_PX = 1100
_N_OPEN = 3  # samples that are unfolded at first
_N_NOTES = 200
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-src about:; form-action 'none'"
_FRAME_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_FRAME_STYLE = (
    "body{margin:8px;font:13px/1.45 system-ui,sans-serif;color:#1b1f27;background:#fff}"
    "table{border-collapse:collapse}td,th{border:1px solid #b9c1cc;padding:3px 7px;vertical-align:top}"
)


@dataclass(frozen=True)
class ReportAxis:
    """One figure of the summary; `interval` is None where nothing was scored. *Units*: 0 to `top`."""

    name: str
    interval: Interval | None
    higher_is_better: bool = True
    top: float = 1.0
    main: bool = False


@dataclass(frozen=True)
class ReportSample:
    """One sample: `goodness` is 1 for a perfect one and None where it was not scored; `image` is its picture's file."""

    id: str
    kind: Kind
    pred: str
    ref: str
    goodness: float | None
    values: Mapping[str, float | None] = field(default_factory=dict)
    status: str = "ok"
    error: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    image: Path | None = None


@dataclass(frozen=True)
class BreakdownRow:
    """The scores of the samples that share one value of an attribute."""

    attribute: str
    value: str
    n: int
    scores: Mapping[str, float | None]


@dataclass(frozen=True)
class Report:
    """All that the page shows; `facts` are what was run, `differences` where modes of scoring disagree."""

    title: str
    subtitle: str
    axes: Sequence[ReportAxis]
    samples: Sequence[ReportSample]
    breakdown: Sequence[BreakdownRow] = ()
    notes: Sequence[Note] = ()
    differences: Sequence[str] = ()
    facts: Mapping[str, object] = field(default_factory=dict)


def render_report(report: Report, n_worst: int = 20, draw: Draw | None = None) -> str:
    """Return the page: summary, breakdown, notes, and the `n_worst` samples of each kind side by side.

    The worst come first, and before them those without a score. `draw` makes pictures of formulas.
    """
    parts = [
        f"<h1>{escape(report.title)}</h1><p class='soft'>{escape(report.subtitle)}</p>",
        _facts(report.facts),
        f"<section class='axes'>{''.join(_axis(axis) for axis in report.axes)}</section>",
        _histogram(report.samples),
        _breakdown(report.breakdown),
        _differences(report.differences),
        _notes(report.notes),
        _worst(report.samples, n_worst, draw),
    ]
    style = files("gravityocr.metrics.runs").joinpath("score_report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(report.title)}</title>\n<style>{style}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def write_report(path: Path, report: Report, n_worst: int = 20, draw: Draw | None = None) -> None:
    """Write the page.

    *Raises*: InputError where that is impossible.
    """
    page = render_report(report, n_worst, draw).encode("utf-8", "replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(page)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another place") from error


def find_image(folder: Path, stem: str | None) -> Path | None:
    """Return the picture of `stem` (or of that very name) in a folder, None where there is none."""
    if not stem or PurePosixPath(stem).is_absolute() or ".." in PurePosixPath(stem).parts or "\0" in stem:
        return None
    names = ["", *_IMAGE_SUFFIXES, *(suffix.upper() for suffix in _IMAGE_SUFFIXES)]
    for suffix in names:
        path = folder / f"{stem}{suffix}"
        if path.suffix.lower() in _IMAGE_SUFFIXES and path.is_file():
            return path
    return None


# Summary -------------------------------------------------------------------------------------------


def _facts(facts: Mapping[str, object]) -> str:
    items = "".join(
        f"<li>{escape(name)}: {escape(value if isinstance(value, str) else json.dumps(value))}</li>"
        for name, value in facts.items()
    )
    return f"<ul class='facts'>{items}</ul>" if items else ""


def number(value: float | None, top: float = 1.0) -> str:
    """Write a score for a reader: four digits behind the point of 0-1, two of 0-100, a dash for none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.2f}" if top > 1 else f"{value:.4f}"


def _axis(axis: ReportAxis) -> str:
    found = axis.interval
    direction = "higher is better" if axis.higher_is_better else "lower is better"
    head = f"<h3>{escape(axis.name)}</h3><b>{number(found.value if found else None, axis.top)}</b>"
    if found is None:
        below = "<p class='small soft'>nothing was scored</p>"
    else:
        x, low, high = (100 * min(1.0, max(0.0, value / axis.top)) for value in (found.value, found.low, found.high))
        below = (
            "<svg viewBox='0 0 100 10' preserveAspectRatio='none' aria-hidden='true'>"
            "<rect y='4' width='100' height='2' rx='1' fill='var(--line)'/>"
            f"<rect x='{low:.2f}' y='2.5' width='{max(0.6, high - low):.2f}' height='5' rx='1.5' fill='var(--accent)' "
            f"opacity='.35'/><rect x='{max(0.0, x - 0.5):.2f}' y='1' width='1' height='8' fill='var(--accent)'/></svg>"
            f"<p class='small soft'>95 % CI {number(found.low, axis.top)} – {number(found.high, axis.top)}<br>"
            f"n = {found.n}, {direction}</p>"
        )
    return f"<div class='card axis{' main' if axis.main else ''}'>{head}{below}</div>"


def _histogram(samples: Sequence[ReportSample], n_bins: int = 25) -> str:
    known = [sample.goodness for sample in samples if sample.goodness is not None]
    if len(known) < 2:
        return ""
    counts = [0] * n_bins
    for value in known:
        counts[min(n_bins - 1, max(0, int(value * n_bins)))] += 1
    top, width = max(counts), 1000 / n_bins
    bars = "".join(
        f"<rect x='{i * width + 2:.1f}' y='{90 - 88 * n / top:.1f}' width='{width - 4:.1f}' rx='3' "
        f"height='{88 * n / top:.1f}' fill='var(--accent)' opacity='.75'>"
        f"<title>{i / n_bins:.2f}–{(i + 1) / n_bins:.2f}: {n}</title></rect>"
        for i, n in enumerate(counts)
        if n
    )
    return (
        "<h2>Samples by score</h2><div class='card histogram'>"
        f"<svg viewBox='0 0 1000 90' preserveAspectRatio='none' role='img' aria-label='Samples by score'>{bars}</svg>"
        f"<p class='small soft'>0 (worst) to 1 (perfect); {len(known)} samples, at most {top} in a bar</p></div>"
    )


def _breakdown(rows: Sequence[BreakdownRow]) -> str:
    if not rows:
        return ""
    columns = list(dict.fromkeys(name for row in rows for name in row.scores))
    head = "".join(f"<th class='n'>{escape(name)}</th>" for name in columns)
    body = []
    previous = None
    for row in rows:
        cells = "".join(f"<td class='n'>{number(row.scores.get(name))}</td>" for name in columns)
        label = escape(row.attribute) if row.attribute != previous else ""
        previous = row.attribute
        body.append(
            f"<tr><td class='soft'>{label}</td><td>{escape(row.value)}</td><td class='n'>{row.n}</td>{cells}</tr>"
        )
    return (
        "<h2>By attribute</h2><div class='card wide'><table class='plain'><thead><tr><th>attribute</th><th>value</th>"
        f"<th class='n'>n</th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _differences(differences: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(one)}</li>" for one in differences)
    return f"<h2>Where the official scorer differs</h2><div class='card wide'><ul>{items}</ul></div>" if items else ""


def _notes(notes: Sequence[Note]) -> str:
    if not notes:
        return ""
    rows = "".join(
        f"<tr><td><span class='tag'>{escape(note.status)}</span></td><td>{escape(note.id)}</td>"
        f"<td class='soft'>{escape(note.message)}</td></tr>"
        for note in notes[:_N_NOTES]
    )
    more = f"<p class='small soft'>and {len(notes) - _N_NOTES} more</p>" if len(notes) > _N_NOTES else ""
    return f"<h2>Notes on the input</h2><div class='card wide'><table class='plain'>{rows}</table>{more}</div>"


# Samples -------------------------------------------------------------------------------------------


def _worst(samples: Sequence[ReportSample], n_worst: int, draw: Draw | None) -> str:
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
        parts.append(f"<h3>{head}{len(chosen)} of {len(ranked)} samples, the worst first</h3>")
        parts += [_sample(sample, index < _N_OPEN, pictures) for index, sample in enumerate(chosen)]
    return "\n".join(parts)


def _rank(sample: ReportSample) -> float:
    return -1.0 if sample.goodness is None else sample.goodness


def _sample(sample: ReportSample, is_open: bool, pictures: Mapping[str, bytes | None]) -> str:
    grade = "bad"
    if sample.goodness is not None and sample.goodness >= 0.5:
        grade = "good" if sample.goodness >= 0.9 else "mid"
    tags = [f"<span class='tag'>{escape(name)} {number(value)}</span>" for name, value in sample.values.items()]
    tags += [f"<span class='tag'>{escape(key)}: {escape(value)}</span>" for key, value in sample.attributes.items()]
    if sample.status != "ok":
        tags.append(f"<span class='tag bad'>{escape(sample.status)}</span>")
    error = f"<p class='error small'>{escape(sample.error)}</p>" if sample.error else ""
    picture = _picture(sample.image) if sample.image else ""
    frames = ""
    if sample.kind == "table":
        frames = _sides(_frame(sample.ref), _frame(sample.pred))
    elif sample.kind == "formula" and pictures:
        frames = _sides(_drawn(pictures[sample.ref]), _drawn(pictures[sample.pred]))
    prose = " prose" if sample.kind in ("text", "page") else ""
    raw = _sides(
        f"<pre class='text{prose}'>{shown(sample.ref)}</pre>", f"<pre class='text{prose}'>{shown(sample.pred)}</pre>"
    )
    if sample.kind == "table":
        raw = f"<details class='raw'><summary>Markup</summary>{raw}</details>"
    diff = f"<div><h3>Diff</h3><pre class='diff'>{diff_html(sample.pred, sample.ref)}</pre></div>"
    return (
        f"<details class='card sample'{' open' if is_open else ''}><summary>"
        f"<span class='score {grade}'>{number(sample.goodness)}</span><span class='name'>{escape(sample.id)}</span>"
        f"{''.join(tags)}</summary><div class='body'>{error}{picture}{frames}{raw}{diff}</div></details>"
    )


def _sides(ref: str, pred: str) -> str:
    return (
        f"<div class='sides'><div class='side'><h3>Reference</h3>{ref}</div>"
        f"<div class='side'><h3>Prediction</h3>{pred}</div></div>"
    )


def _frame(html: str) -> str:
    """Render a table where nothing of it can run, load or navigate."""
    if not html.strip():
        return "<p class='soft small'>empty</p>"
    page = (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_FRAME_POLICY}">'
        f"<style>{_FRAME_STYLE}</style>{table_markup(html[: 5 * MOST_CHARS])}"
    )
    height = min(440, max(90, 40 + 27 * html.lower().count("<tr")))
    return (
        f'<iframe sandbox="" loading="lazy" referrerpolicy="no-referrer" title="table" style="height:{height}px" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def _drawn(png: bytes | None) -> str:
    if png is None:
        return "<p class='soft small'>cannot be rendered</p>"
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
