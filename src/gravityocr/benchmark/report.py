"""Earlier measurements as one HTML page that needs nothing else: ours, the paper's beside them, SIMULATED apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from gravityocr import __version__
from gravityocr.benchmark.report_sections import SECTIONS
from gravityocr.errors import InputError

REPORT_MARK = '<meta name="generator" content="gravityocr bench'
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_REMEDY = "hand what 'gravityocr bench ... --json' printed"
_STYLE = """
:root { --ink: #1d2430; --soft: #667085; --line: #dfe3e8; --ours: #2f5d8a; }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); margin: 0 auto; max-width: 76rem; padding: 2rem; }
h1 { margin-bottom: .2rem; } h2 { margin-top: 2.6rem; border-bottom: 2px solid var(--ours); padding-bottom: .2rem; }
h3 { margin: 1.4rem 0 .3rem; font-size: 1rem; } .soft { color: var(--soft); font-size: .9rem; margin: .2rem 0; }
table { border-collapse: collapse; margin: .4rem 0 1rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } caption { text-align: left; font-weight: 600; padding: .3rem 0; }
.paper { border-left: 6px solid #bdbdbd; padding-left: 1rem; margin: 1rem 0; } .paper table { color: #555; }
.simulated { border: 2px dashed #c8553d; padding: 0 1.2rem 1rem; margin-top: 3rem; }
.simulated h2 { border-color: #c8553d; } .simulated caption::before { content: "SIMULATED: "; color: #c8553d; }
svg { max-width: 100%; height: auto; } .scroll { overflow-x: auto; }
"""


@dataclass(frozen=True)
class Measurement:
    """One JSON file of an earlier `gravityocr bench`."""

    file: Path
    data: dict[str, Any]

    @property
    def bench(self) -> str:
        """Return which measurement it is."""
        return str(self.data["bench"])

    @property
    def is_simulated(self) -> bool:
        """Tell whether drafts were made up."""
        return self.data.get("simulated") is not False


def read_measurements(paths: Sequence[Path]) -> list[Measurement]:
    """Read JSON files, and those of folders.

    *Raises*: InputError for a path without one, and for a file that is no measurement.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path}: holds no JSON file; {_REMEDY}")
        files += found
    return [_read(file) for file in files]


def _read(file: Path) -> Measurement:
    if file.exists() and not file.is_file():
        raise InputError(f"{file}: is no regular file; {_REMEDY}")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read ({error}); {_REMEDY}") from error
    if not isinstance(data, dict) or str(data.get("bench")) not in SECTIONS:
        known = ", ".join(SECTIONS)
        raise InputError(f"{file}: is no measurement of gravityocr bench ({known}); leave it out")
    return Measurement(file, data)


def render(measurements: Sequence[Measurement]) -> str:
    """Return the page; what was simulated stands at its end, in a frame and under a heading of its own.

    *Raises*: InputError for a file that lacks a part; ConfigError where matplotlib is not installed.
    """
    order = list(SECTIONS)
    ranked = sorted(measurements, key=lambda one: order.index(one.bench))
    measured = "\n".join(_section(one) for one in ranked if not one.is_simulated)
    simulated = "\n".join(_section(one) for one in ranked if one.is_simulated)
    if simulated:
        what = "Drafts were taken from a finished AR decode and spoiled so that the accepted lengths follow a given "
        what += "distribution; the forwards are real. Nothing in this frame is a result of the checkpoint."
        simulated = f"<div class='simulated'><h2>SIMULATED</h2><p>{what}</p>{simulated}</div>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'{REPORT_MARK} {__version__}">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>GravityOCR: speed</title>\n<style>{_STYLE}</style></head>\n<body>\n<h1>GravityOCR: speed</h1>\n"
        f"<p class='soft'>{len(measurements)} measurements, gravityocr {escape(__version__)}. Ratios hold inside one "
        "run only; each section names its boundary.</p>\n"
        f"{measured}\n{simulated}\n</body></html>\n"
    )


def _section(one: Measurement) -> str:
    title, build = SECTIONS[one.bench]
    if one.data.get("protocol") == "one-by-one":
        title += ", one sequence at a time"
    try:
        return f"<section><h2>{escape(title)}</h2>{_facts(one)}{build(one.data)}</section>"
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        what = f"{type(error).__name__} {error}"
        raise InputError(f"{one.file}: is no whole measurement ({what}); measure again with this version") from error


def _facts(one: Measurement) -> str:
    data, machine = one.data, one.data["machine"]
    profile = data.get("profile")
    facts = [
        f"checkpoint {data['checkpoint']}", machine["dtype"], machine["accelerator"] or machine["processor"],
        f"{machine['threads']} threads", f"torch {machine['torch']}", f"load {machine['load']}",
        f"{data['repeats']} passes", f"acceptance profile {profile['name']}, seed {profile['seed']}" if profile else "",
        one.file.name,
    ]  # fmt: skip
    lines = [" · ".join(str(fact) for fact in facts if fact), f"Boundary: {data['boundary']}", data.get("baseline", "")]
    if data["failed"]:
        lines.append(f"{len(data['failed'])} inputs failed and are left out")
    return "".join(f"<p class='soft'>{escape(str(line))}</p>" for line in lines if line)
