"""Crops with ground truth, read from a folder with a manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from gravityocr.document import Crop, Task
from gravityocr.errors import InputError
from gravityocr.pipeline.source import iter_pages

LANGUAGES = {
    "text_english": "english",
    "text_simplified_chinese": "simplified_chinese",
    "text_en_ch_mixed": "en_ch_mixed",
}


@dataclass(frozen=True)
class Case:
    """One crop and what it says; `truth` is text, HTML or LaTeX by `task`."""

    file: Path
    task: Task
    language: str
    truth: str

    @property
    def has_formula(self) -> bool:
        """Tell whether the truth of a text crop holds inline LaTeX."""
        return "$" in self.truth

    @property
    def kind(self) -> str:
        """Return `text`, `text_with_formula`, `table` or `formula`."""
        return "text_with_formula" if self.task == "text" and self.has_formula else self.task

    def crop(self) -> Crop:
        """Open the image."""
        page = next(iter_pages(self.file))
        if page.image is None:
            raise InputError(f"{self.file}: {page.error}")
        return Crop(page.image, self.task)


def load_cases(
    folder: Path, tasks: tuple[str, ...] = ("text", "table", "formula"), limit: int | None = None
) -> list[Case]:
    """Read `manifest.json`: a list of `{file, kind, ground_truth: {text | html | latex}, language}`.

    *Raises*: InputError where the manifest is missing or holds no crop of these tasks.
    """
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        raise InputError(f"{manifest} does not exist; --cases wants a folder with a manifest.json")
    try:
        rows = json.loads(manifest.read_text(encoding="utf-8"))
        cases = [
            Case(
                folder / row["file"],
                cast(Task, row["kind"]),
                LANGUAGES.get(row["language"], row["language"]),
                _truth(row["ground_truth"]),
            )
            for row in rows
            if row["kind"] in tasks
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{manifest} is not a list of cases: {type(error).__name__} {error}") from error
    if not cases:
        raise InputError(f"{manifest} holds no crop of {', '.join(tasks)}")
    return cases[:limit]


def _truth(value: object) -> str:
    if isinstance(value, dict):
        for name in ("text", "html", "latex"):
            if name in value:
                return str(value[name])
        raise KeyError(f"text, html or latex among {sorted(value)}")
    return str(value)
