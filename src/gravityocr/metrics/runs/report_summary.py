"""The upper half of a score report: figures, histograms, the modes, breakdowns and notes, as HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape

from gravityocr.metrics.runs.axes import axis_name
from gravityocr.metrics.runs.datasets import Note
from gravityocr.metrics.runs.report_model import BreakdownRow, ModeRow, ReportAxis, ReportSample, counted, number

_N_NOTES = 200
_N_BINS = 10


def facts_html(facts: Sequence[str]) -> str:
    """Show what was run as a row of chips."""
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return f"<ul class='facts'>{items}</ul>" if items else ""


def warnings_html(warnings: Sequence[str]) -> str:
    """Show what a reader must know before the figures."""
    return "".join(f"<p class='warning'>{escape(one)}</p>" for one in warnings)


def axes_html(axes: Sequence[ReportAxis]) -> str:
    """Show the figures with their intervals, a card each."""
    return f"<section class='axes'>{''.join(_axis(axis) for axis in axes)}</section>"


def _axis(axis: ReportAxis) -> str:
    found, name = axis.interval, axis_name(axis.name)
    head = (
        f"<h3>{escape(name.arrow)}</h3><b>{number(found.value if found else None, name.top)}</b>"
        f"<p class='small soft'>{escape(name.meaning)}</p>"
    )
    if found is None:
        below = f"<p class='small soft'>{escape(axis.absent)}</p>"
    elif found.low is None or found.high is None:
        below = f"<p class='small soft'>{escape(found.caution or '')}</p>"
    else:
        x, low, high = (100 * min(1.0, max(0.0, value / name.top)) for value in (found.value, found.low, found.high))
        below = (
            "<svg viewBox='0 0 100 10' preserveAspectRatio='none' aria-hidden='true'>"
            "<rect y='4' width='100' height='2' rx='1' fill='var(--line)'/>"
            f"<rect x='{low:.2f}' y='2.5' width='{max(0.6, high - low):.2f}' height='5' rx='1.5' fill='var(--accent)' "
            f"opacity='.35'/><rect x='{max(0.0, x - 0.5):.2f}' y='1' width='1' height='8' fill='var(--accent)'/></svg>"
            f"<p class='small soft'>95 % CI {number(found.low, name.top)} – {number(found.high, name.top)}<br>"
            f"{escape(found.caution or f'n = {found.n}')}</p>"
        )
    return f"<div class='card axis{' main' if axis.main else ''}'>{head}{below}</div>"


# Histograms ----------------------------------------------------------------------------------------


def histograms_html(samples: Sequence[ReportSample]) -> str:
    """Show how the scores of each kind of sample are spread."""
    cards = []
    for kind in dict.fromkeys(sample.kind for sample in samples):
        chosen = [sample for sample in samples if sample.kind == kind]
        known = [sample.goodness for sample in chosen if sample.goodness is not None]
        if len(known) > 1:
            measure = next((sample.measure for sample in chosen if sample.measure), "score")
            cards.append(_histogram(kind, measure, known, len(chosen) - len(known)))
    return f"<h2>Samples by score</h2><div class='histograms'>{''.join(cards)}</div>" if cards else ""


def _histogram(kind: str, measure: str, known: Sequence[float], n_unscored: int) -> str:
    counts = [0] * _N_BINS
    for value in known:
        counts[min(_N_BINS - 1, max(0, int(value * _N_BINS)))] += 1
    top, left, width, base = max(counts), 30, 44, 130
    parts = [f"<line x1='{left}' y1='{base}' x2='{left + width * _N_BINS}' y2='{base}' stroke='var(--soft)'/>"]
    for i, n in enumerate(counts):
        x, height = left + i * width, 100 * n / top
        if n:
            parts.append(
                f"<rect x='{x + 3}' y='{base - height:.1f}' width='{width - 6}' height='{height:.1f}' rx='3' "
                "fill='var(--accent)' opacity='.75'/>"
                f"<text x='{x + width / 2}' y='{base - height - 5:.1f}' text-anchor='middle'>{n}</text>"
            )
    for i in range(0, _N_BINS + 1, 2):
        parts.append(f"<text x='{left + i * width}' y='{base + 17}' text-anchor='middle'>{i / _N_BINS:.1f}</text>")
    middle = left + width * _N_BINS / 2
    parts.append(f"<text x='{middle}' y='{base + 36}' text-anchor='middle'>{escape(measure)} (1 is perfect)</text>")
    parts.append(f"<text x='12' y='{base / 2 + 15}' text-anchor='middle' transform='rotate(-90 12 {base / 2 + 15})'>"
                 f"{escape(kind)}s</text>")  # fmt: skip
    unscored = f", {n_unscored} not scored" if n_unscored else ""
    label = f"{kind.capitalize()}s by {measure}"
    return (
        f"<div class='card histogram'><h3>{escape(label)}: {counted(len(known), 'sample')}{unscored}</h3>"
        f"<svg viewBox='0 0 {left + width * _N_BINS + 14} {base + 42}' role='img' aria-label='{escape(label)}'>"
        f"{''.join(parts)}</svg></div>"
    )


# Tables --------------------------------------------------------------------------------------------


def modes_html(rows: Sequence[ModeRow]) -> str:
    """Show the way from the official figures to ours."""
    if not rows:
        return ""
    axes = list(rows[0].values)
    head = "".join(f"<th class='n'>{escape(axis_name(axis).arrow)}</th>" for axis in axes)
    body = []
    for row in rows:
        cells = "".join(f"<td class='n'>{_change(row, axis)}</td>" for axis in axes)
        pages = "" if row.n_pages is None else str(row.n_pages)
        detail = f"<br><span class='soft small'>{escape(row.detail)}</span>" if row.detail else ""
        style = "" if row.is_change else " class='total'"
        body.append(f"<tr{style}><td>{escape(row.label)}{detail}</td><td class='n'>{pages}</td>{cells}</tr>")
    return (
        "<h2>Official and ours</h2><p class='small soft'>What the official scorer does, and what mending it alone "
        "changes; the interaction is what is left, so that the rows add up.</p><div class='card wide'>"
        "<table class='plain'><thead><tr><th>what the official scorer does</th><th class='n'>pages</th>"
        f"{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _change(row: ModeRow, axis: str) -> str:
    value = row.values.get(axis)
    if row.is_change and not value:
        return "<span class='soft'>·</span>"
    return number(value, axis_name(axis).top, sign=row.is_change)


def breakdown_html(rows: Sequence[BreakdownRow]) -> str:
    """Show the scores by attribute, a table for each."""
    groups: dict[str, list[BreakdownRow]] = {}
    for row in rows:
        groups.setdefault(row.attribute, []).append(row)
    return "<h2>By attribute</h2>" + "".join(_group(*group) for group in groups.items()) if groups else ""


def _group(attribute: str, rows: Sequence[BreakdownRow]) -> str:
    columns = [
        name
        for name in dict.fromkeys(name for row in rows for name in row.scores)
        if any(row.scores.get(name) is not None for row in rows)
    ]
    head = "".join(f"<th class='n'>{escape(axis_name(name).arrow)}</th>" for name in columns)
    body = "".join(
        f"<tr><td>{escape(row.value)}</td><td class='n'>{row.n}</td>"
        + "".join(f"<td class='n'>{number(row.scores.get(name))}</td>" for name in columns)
        + "</tr>"
        for row in rows
    )
    return (
        f"<div class='card wide group'><table class='plain'><thead><tr><th>{escape(attribute)}</th>"
        f"<th class='n'>n</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def notes_html(notes: Sequence[Note]) -> str:
    """Show what was wrong with the input."""
    if not notes:
        return ""
    rows = "".join(
        f"<tr><td><span class='tag'>{escape(note.status)}</span></td><td>{escape(note.id)}</td>"
        f"<td class='soft'>{escape(note.message)}</td></tr>"
        for note in notes[:_N_NOTES]
    )
    more = f"<p class='small soft'>… {len(notes) - _N_NOTES} more</p>" if len(notes) > _N_NOTES else ""
    return f"<h2>Notes on the input</h2><div class='card wide'><table class='plain'>{rows}</table>{more}</div>"


def footer_html(footer: Mapping[str, object]) -> str:
    """Show with what the figures were made."""
    items = " · ".join(
        f"{escape(name)}: {escape(value if isinstance(value, str) else json.dumps(value))}"
        for name, value in footer.items()
    )
    return f"<p class='footer small soft'>{items}</p>" if items else ""
