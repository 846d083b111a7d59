"""Plots of a report as inline SVG: panels side by side, ours and the paper's always in different ones."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gravityocr.errors import ConfigError

_COLORS = ("#2f5d8a", "#c8553d", "#4f8a4b", "#8a6bb1", "#b58a1b", "#3d9aa1", "#777777", "#a14a76")
_GREYS = ("#8c8c8c", "#bdbdbd", "#6b6b6b", "#d6d6d6")


@dataclass(frozen=True)
class Panel:
    """One set of axes: named series of (x, y) points; `is_paper` draws in grey, so that no eye mixes the two."""

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[tuple[str | float, float]]]
    kind: Literal["bars", "lines"] = "bars"
    is_paper: bool = False


def draw(panels: Sequence[Panel]) -> str:
    """Return one SVG element with the panels that hold a point, or nothing where none does.

    *Raises*: ConfigError where matplotlib is not installed.
    """
    shown = [panel for panel in panels if any(panel.series.values())]
    if not shown:
        return ""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        remedy = "install the extra: pip install 'gravityocr[report]'"
        raise ConfigError(f"bench report: plots need matplotlib; {remedy}") from error
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "gravityocr", "font.size": 9, "font.family": "sans-serif"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(4.4 * len(shown), 3.5), layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            _fill(axes, panel)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _fill(axes: Any, panel: Panel) -> None:
    colors = _GREYS if panel.is_paper else _COLORS
    named = [(name, points) for name, points in panel.series.items() if points]
    if panel.kind == "lines":
        for number, (name, points) in enumerate(named):
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, marker="o", markersize=3.5, label=name, color=colors[number % len(colors)])
        axes.set_xlim(left=0)
    else:
        _bars(axes, named, colors)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(named) > 1 or panel.kind == "lines":
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=min(3, len(named)))


def _bars(axes: Any, named: Sequence[tuple[str, Sequence[tuple[str | float, float]]]], colors: Sequence[str]) -> None:
    places = {x: place for place, x in enumerate(dict.fromkeys(x for _, points in named for x, _ in points))}
    width = 0.8 / len(named)
    for number, (name, points) in enumerate(named):
        xs = [places[x] - 0.4 + width * (number + 0.5) for x, _ in points]
        axes.bar(xs, [y for _, y in points], width, label=name, color=colors[number % len(colors)])
    axes.set_xticks(list(places.values()), [str(x) for x in places], rotation=0 if len(places) < 5 else 20)
