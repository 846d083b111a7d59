"""Crops with ground truth, read from a folder with a manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gravityocr.document import Crop, Task
from gravityocr.errors import ConfigError, InputError
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
        """Open the image.

        *Raises*: InputError where it cannot be read.
        """
        page = next(iter_pages(self.file))
        if page.image is None:
            raise InputError(f"{self.file}: {page.error}")
        return Crop(page.image, self.task)


def load_cases(
    folder: Path,
    tasks: tuple[str, ...] = ("text", "table", "formula"),
    limit: int | None = None,
    language: str | None = None,
) -> list[Case]:
    """Read `manifest.json`: a list of `{file, kind, ground_truth: {text | html | latex}, language}`.

    *Raises*: InputError where the manifest is missing or broken, or holds no crop of these tasks in this language;
    ConfigError for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"a limit of {limit} crops: choose at least 1")
    manifest = folder / "manifest.json"
    try:
        rows = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{manifest} does not exist; --cases wants a folder with a manifest.json") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{manifest} cannot be read ({error}); --cases wants a folder with a manifest.json") from error
    if not isinstance(rows, list):
        raise InputError(f"{manifest} must hold a list of cases")
    cases = []
    for number, row in enumerate(rows, 1):
        try:
            if row["kind"] in tasks:
                cases.append(_case(folder, row))
        except (KeyError, TypeError) as error:
            raise InputError(f"{manifest}, case {number}: {type(error).__name__} {error}") from error
    cases = [case for case in cases if language in (None, case.language)]
    if not cases:
        raise InputError(f"{manifest} holds no crop of {', '.join(tasks)}{f' in {language}' if language else ''}")
    return cases[:limit]


def _case(folder: Path, row: dict[str, Any]) -> Case:
    file, language = row["file"], row["language"]
    if not isinstance(file, str) or not isinstance(language, str):
        raise TypeError("file and language must be strings")
    return Case(folder / file, cast(Task, row["kind"]), LANGUAGES.get(language, language), _truth(row["ground_truth"]))


def _truth(value: object) -> str:
    if isinstance(value, dict):
        found = [value[name] for name in ("text", "html", "latex") if name in value]
        if not found:
            raise KeyError(f"text, html or latex among {sorted(value)}")
        value = found[0]
    if not isinstance(value, str):
        raise TypeError(f"ground_truth is {value!r}; it must be a string")
    return value
