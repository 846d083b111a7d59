"""A scoring run as one HTML page that needs nothing else: no script, no address, every foreign text escaped.

Predictions are hostile until shown otherwise: tables are reduced to bare table tags and then rendered in sandboxed
frames, and the page's own policy forbids whatever is not in the file.
"""

from __future__ import annotations

import os
import secrets
from html import escape
from importlib.resources import files
from pathlib import Path, PurePosixPath

from gravityocr import __version__
from gravityocr.errors import InputError
from gravityocr.metrics.runs import report_summary as summary
from gravityocr.metrics.runs.output_places import REPORT_MARK, check_report_place
from gravityocr.metrics.runs.report_model import Report
from gravityocr.metrics.runs.report_samples import Draw, worst_html

_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-src about:; form-action 'none'"


def render_report(report: Report, n_worst: int = 20, draw: Draw | None = None) -> str:
    """Return the page: summary, breakdown, notes, and the `n_worst` samples of each kind side by side.

    The worst come first, and before them those without a score. `draw` makes pictures of formulas.
    """
    parts = [
        f"<h1>{escape(report.title)}</h1><p class='soft'>{escape(report.subtitle)}</p>",
        summary.facts_html(report.facts),
        summary.warnings_html(report.warnings),
        summary.axes_html(report.axes),
        summary.modes_html(report.modes),
        summary.histograms_html(report.samples),
        summary.breakdown_html(report.breakdown),
        summary.notes_html(report.notes),
        worst_html(report.samples, n_worst, draw),
        summary.footer_html(report.footer),
    ]
    style = files("gravityocr.metrics.runs").joinpath("score_report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'{REPORT_MARK} {__version__}">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(report.title)}</title>\n<style>{style}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def write_report(path: Path, report: Report, n_worst: int = 20, draw: Draw | None = None) -> None:
    """Write the page to a new file or over another report; where that fails, what was there stays as it was.

    *Raises*: ConfigError where something else is there, InputError where writing fails.
    """
    check_report_place(path, "report")
    page = render_report(report, n_worst, draw).encode("utf-8", "replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(Path(os.path.realpath(path)), page)
    except OSError as error:
        remedy = "make room or choose another place; nothing was left there"
        raise InputError(f"{path}: cannot be written ({error.strerror}); {remedy}") from error


def _replace(path: Path, data: bytes) -> None:
    """Write a file beside its place and move it there when it is whole."""
    beside = path.with_name(f".gravityocr-{secrets.token_hex(6)}.part")
    try:
        with beside.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def find_image(folder: Path, stem: str | None) -> Path | None:
    """Return the picture of `stem` (or of that very name) in a folder, None where there is none."""
    if not stem or PurePosixPath(stem).is_absolute() or ".." in PurePosixPath(stem).parts or "\0" in stem:
        return None
    names = ["", *_IMAGE_SUFFIXES, *(suffix.upper() for suffix in _IMAGE_SUFFIXES)]
    for suffix in names:
        path = folder / f"{stem}{suffix}"
        if path.suffix.lower() in _IMAGE_SUFFIXES and os.path.isfile(path):  # Path.is_file raises for long names
            return path
    return None
