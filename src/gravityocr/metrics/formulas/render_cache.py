"""Rendered formulas on disk, so that references are rendered once and not once per run."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pypdfium2

from gravityocr.errors import ConfigError
from gravityocr.metrics.formulas.formula_render import DPI, MIN_OPACITY, TokenBoxes
from gravityocr.metrics.formulas.tex_runner import pdflatex_version

LAYOUT = 2
_KEPT = ("ok", "empty", "unrenderable")


class RenderCache:
    """A folder of renders, one file each, keyed by the formula, the settings and the tool versions.

    A damaged file counts as missing and is replaced. Formulas that ran out of time are not kept.

    *Raises*: `ConfigError` where the folder cannot be made.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cache folder {folder}: cannot be made ({error.strerror}); name another") from error
        self._settings = [LAYOUT, DPI, MIN_OPACITY, pdflatex_version(), str(pypdfium2.PDFIUM_INFO)]

    def path_of(self, latex: str) -> Path:
        """Return the file that holds the render of a formula."""
        text = json.dumps([latex, *self._settings])
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return self.folder / name[:2] / f"{name}.json"

    def load(self, latex: str) -> TokenBoxes | None:
        """Return the kept render of a formula, or None."""
        try:
            digest, _, body = self.path_of(latex).read_text(encoding="utf-8").partition("\n")
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        if digest != hashlib.sha256(body.encode()).hexdigest():
            return None
        kept = json.loads(body)
        boxes = np.array(kept["boxes"], np.int32).reshape(-1, 4)
        tokens, roles, size = (tuple(kept[name]) for name in ("tokens", "roles", "size"))
        return TokenBoxes(tokens, boxes, size, kept["status"], kept["error"], roles)

    def store(self, formulas: Sequence[str], renders: Sequence[TokenBoxes]) -> None:
        """Keep renders; each file appears whole or not at all."""
        for latex, render in zip(formulas, renders, strict=True):
            if render.status not in _KEPT:
                continue
            fields = {
                "tokens": render.tokens,
                "roles": render.roles,
                "boxes": render.boxes.tolist(),
                "size": render.size,
                "status": render.status,
                "error": render.error,
            }
            body = json.dumps(fields)
            path = self.path_of(latex)
            path.parent.mkdir(exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with open(handle, "w", encoding="utf-8") as file:
                file.write(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")
            os.replace(temporary, path)
