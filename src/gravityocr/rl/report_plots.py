"""The curves of a run of GRPO as one picture."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gravityocr.errors import ConfigError
from gravityocr.rl.evaluation_records import ALL

CURVES_FILE = "curves.png"
COLORS = {"text": "#2f5d8a", "table": "#c8553d", "formula": "#4f8a4b", ALL: "#1d2430"}
_WHOLE = {"whole_text": "#7fa8cf", "whole_table": "#e39a86", "whole_formula": "#9cc699"}
_MINE, _SOFT = "#2f5d8a", "#98a2b3"
_SIZE_IN, _DPI = (10.0, 6.7), 120
_SMOOTH_SHARE = 0.05
N_COLORS = 64
Array = NDArray[np.float64]


def draw_curves(log: Sequence[Mapping[str, Any]], summaries: Mapping[int, Mapping[str, Any]], file: Path) -> None:
    """Draw the reward, divergence, entropy and length of training, and reward and TPF of the held-out regions.

    `log` holds the lines of a run's log, `summaries` those of its evaluations by step. What the log lacks has an empty
    panel that says so.

    *Raises*: ConfigError where matplotlib is not installed or the file cannot be written.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        remedy = "install the extra: pip install 'gravityocr[report]'"
        raise ConfigError(f"the curves of a run need matplotlib; {remedy}") from error
    training = [row for row in log if "eval" not in row and isinstance(row.get("step"), int)]
    part = file.with_name(file.name + ".part")
    try:
        with matplotlib.rc_context({"font.size": 8.5, "font.family": "sans-serif", "axes.titlesize": 9.5}):
            figure = Figure(figsize=_SIZE_IN, dpi=_DPI, layout="constrained")
            panels = figure.subplots(2, 3).ravel()
            _reward(panels[0], training)
            _series(panels[1], training, "kl", "KL to the start", "nats a token")
            _series(panels[2], training, "entropy", "Entropy", "nats a token")
            _series(panels[3], training, "completion_tokens", "Length of completions", "tokens")
            _held_out(panels[4], summaries, "reward", "Held-out reward")
            _held_out(panels[5], summaries, "tpf", "Held-out TPF")
            for axes in panels:
                _tidy(axes)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", metadata={"Software": None})
        with Image.open(buffer) as picture:
            # The few colours of a plot, as a palette: a third of the bytes.
            picture.convert("RGB").quantize(N_COLORS).save(part, format="PNG", optimize=True)
        part.replace(file)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written ({error}); choose another folder") from error


def smoothed(values: Array) -> Array:
    """Return running means over a twentieth of the series on either side, fewer at its ends.

    *Shapes*: [n] -> [n].
    """
    reach = max(1, round(_SMOOTH_SHARE * len(values)))
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    first, last = np.maximum(places - reach, 0), np.minimum(places + reach + 1, len(values))
    return np.asarray((sums[last] - sums[first]) / (last - first))


def _points(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[Array, Array]:
    found = [(row["step"], row[name]) for row in rows if _is_number(row.get(name))]
    table = np.asarray(found, np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _reward(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    both = [row for row in rows if _is_number(row.get("reward")) and _is_number(row.get("reward_std"))]
    if both:
        steps, means = _points(both, "reward")
        spread = smoothed(_points(both, "reward_std")[1])
        middle = smoothed(means)
        low, high = (np.clip(edge, 0.0, 1.0) for edge in (middle - spread, middle + spread))
        axes.fill_between(steps, low, high, color=_MINE, alpha=0.12, linewidth=0, label="± std of the rollouts")
    _series(axes, rows, "reward", "Reward in training", "")


def _series(axes: Any, rows: Sequence[Mapping[str, Any]], name: str, title: str, unit: str) -> None:
    steps, values = _points(rows, name)
    axes.set(title=title, xlabel="step", ylabel=unit)
    if not len(values):
        _say_missing(axes, "not in the log")
        return
    axes.plot(steps, values, color=_SOFT, linewidth=0.7, marker="." if len(values) < 10 else "", markersize=4)
    axes.plot(steps, smoothed(values), color=_MINE, linewidth=1.8, label="moving mean")
    _legend(axes)


def _held_out(axes: Any, summaries: Mapping[int, Mapping[str, Any]], name: str, title: str) -> None:
    axes.set(title=title, xlabel="step")
    kinds = list(dict.fromkeys(kind for one in summaries.values() for kind in one["kinds"]))
    drawn = False
    for kind in [*kinds, ALL] if len(kinds) > 1 else kinds:
        rows = [
            {"step": step, name: (one[ALL] if kind == ALL else one["kinds"].get(kind, {})).get(name)}
            for step, one in sorted(summaries.items())
        ]
        steps, values = _points(rows, name)
        if len(values):
            color = {**COLORS, **_WHOLE}.get(kind, _SOFT)
            style = {"linestyle": "--", "linewidth": 1.0} if kind == ALL else {"linewidth": 1.6}
            axes.plot(steps, values, color=color, marker=".", markersize=5, label=kind.replace("_", " "), **style)
            drawn = True
    if drawn:
        _legend(axes)
    else:
        _say_missing(axes, "not evaluated")


def _legend(axes: Any) -> None:
    """Put the legend under the panel, where no line can run."""
    axes.legend(frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, columnspacing=1.2)


def _say_missing(axes: Any, what: str) -> None:
    axes.text(0.5, 0.5, what, ha="center", va="center", color=_SOFT, transform=axes.transAxes)
    axes.set(xticks=[], yticks=[])


def _tidy(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    if len(axes.get_lines()):
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#eaecf0", linewidth=0.6)
    axes.set_axisbelow(True)
