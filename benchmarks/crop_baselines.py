"""Other readers of text, measured on the same crops in the same run: tesseract and PP-OCR.

Neither is part of the package or of its extras: a baseline that is not installed is named with its remedy. What they
return is scored as they return it, line by line; words that a line end cuts are not joined.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from gravityocr.errors import ConfigError, InputError

MAX_SECONDS = 600
CHINESE = ("simplified_chinese", "en_ch_mixed")


class Baseline(Protocol):
    """A reader of text crops."""

    name: str

    def read(self, image: Image.Image, language: str) -> tuple[str, float]:
        """Return the text of a crop and the seconds that reading took.

        *Raises*: InputError where the reader gives up on it.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Return version, models, how it is installed, threads, and what its seconds hold."""
        ...


class Tesseract:
    """Tesseract's command line: one process an image, as its users run it."""

    name = "tesseract"
    installed_by = "apt-get install tesseract-ocr (Chinese: tesseract-ocr-chi-sim)"

    def __init__(self, n_threads: int = 1, page_mode: int = 6) -> None:
        self.n_threads, self.page_mode = n_threads, page_mode
        found = shutil.which("tesseract")
        if found is None:
            raise ConfigError(f"the baseline tesseract is not installed: {self.installed_by}")
        self._program = found
        self.version = self._run("--version").partition("\n")[0]
        self.languages = self._run("--list-langs").split("\n")[1:]
        if "eng" not in self.languages:
            raise ConfigError("the baseline tesseract has no English data: apt-get install tesseract-ocr-eng")

    def language_of(self, language: str) -> str:
        """Return the data to read a language with: English, and Chinese where it is asked for and installed."""
        return "chi_sim+eng" if language in CHINESE and "chi_sim" in self.languages else "eng"

    def read(self, image: Image.Image, language: str) -> tuple[str, float]:
        """Read an image; writing it to a file is outside of the seconds."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "image.png"
            image.save(file, compress_level=1)
            return self.read_file(file, language)

    def read_file(self, file: Path, language: str) -> tuple[str, float]:
        """Read an image file; return its text and the seconds from start to end of the process."""
        start = time.perf_counter()
        text = self._run(str(file), "stdout", "-l", self.language_of(language), "--psm", str(self.page_mode))
        return text, time.perf_counter() - start

    def describe(self) -> dict[str, Any]:
        """Say what was measured."""
        return {
            "version": self.version,
            "models": [f"{name}.traineddata" for name in self.languages if name in ("eng", "chi_sim")],
            "installed_by": self.installed_by,
            "page_segmentation_mode": self.page_mode,
            "threads": self.n_threads,
            "boundary": "one process an image: start, loading the language data, opening the PNG, reading, printing",
        }

    def _run(self, *arguments: str) -> str:
        # Tesseract takes its number of threads from the environment only.
        limited = os.environ | {"OMP_THREAD_LIMIT": str(self.n_threads)}
        try:
            done = subprocess.run(
                [self._program, *arguments], capture_output=True, text=True, env=limited, timeout=MAX_SECONDS,
                check=True, encoding="utf-8", errors="replace",
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise InputError(f"tesseract {arguments[0]}: {error.stderr.strip()[-200:]}") from error
        except subprocess.TimeoutExpired as error:
            raise InputError(f"tesseract {arguments[0]}: no answer within {MAX_SECONDS} s") from error
        return done.stdout


class PPOcr:
    """PP-OCR by the package rapidocr, with the models inside of its wheel; nothing is downloaded."""

    name = "pp-ocr"
    installed_by = "pip install '.[baselines]'"
    models = {
        "Det": "PP-OCRv6_det_small.onnx",
        "Cls": "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
        "Rec": "PP-OCRv6_rec_small.onnx",
    }

    def __init__(self, n_threads: int = 1) -> None:
        try:
            import cv2
            import rapidocr
        except ImportError as error:
            raise ConfigError(f"the baseline pp-ocr is not installed: {self.installed_by} ({error})") from error
        self.n_threads = n_threads
        self.version = f"rapidocr {importlib.metadata.version('rapidocr')}"
        folder = Path(rapidocr.__file__).parent / "models"
        missing = [name for name in self.models.values() if not (folder / name).is_file()]
        if missing:
            raise ConfigError(f"{self.version} does not bring {', '.join(missing)}: {self.installed_by}")
        cv2.setNumThreads(n_threads)
        threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": n_threads for kind in ("intra", "inter")}
        paths = {f"{part}.model_path": str(folder / name) for part, name in self.models.items()}
        # The package logs to stderr "no text found" for a crop without any, among others.
        self._reader: Any = rapidocr.RapidOCR(params={**threads, **paths, "Global.log_level": "critical"})

    def read(self, image: Image.Image, language: str) -> tuple[str, float]:
        """Read an image; its one model knows Chinese and English."""
        pixels = np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])
        start = time.perf_counter()
        lines = getattr(self._reader(pixels), "txts", None)
        return "\n".join(lines or ()), time.perf_counter() - start

    def describe(self) -> dict[str, Any]:
        """Say what was measured."""
        return {
            "version": self.version,
            "models": list(self.models.values()),
            "installed_by": self.installed_by,
            "threads": self.n_threads,
            "boundary": "models loaded, one crop read before; finding lines, turning them upright and reading them",
        }


BASELINES = {"tesseract": Tesseract, "pp-ocr": PPOcr}


def open_baselines(names: Sequence[str] | None, n_threads: int) -> tuple[list[Baseline], list[str]]:
    """Return the named baselines, or with None all that are installed, and why the others are not there.

    *Raises*: ConfigError for an unknown name, for a named one that is not installed, and where none is.
    """
    if unknown := [name for name in names or () if name not in BASELINES]:
        raise ConfigError(f"unknown baseline {unknown[0]!r}; choose among {', '.join(BASELINES)}")
    opened: list[Baseline] = []
    left_out: list[str] = []
    for name in names or BASELINES:
        try:
            opened.append(BASELINES[name](n_threads))
        except ConfigError as error:
            if names:
                raise
            left_out.append(str(error))
    if not opened:
        raise ConfigError("; ".join(left_out))
    return opened, left_out
