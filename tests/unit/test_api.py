"""The Python door: what it takes, and the example of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer

from gravityocr import GravityOCR
from gravityocr.errors import ConfigError
from gravityocr.pipeline.assembly import AssemblyConfig
from gravityocr.pipeline.convert import DocumentJob, PipelineConfig, convert_all
from gravityocr.pipeline.exports import DocumentWriter, OutputFolders
from gravityocr.pipeline.inputs import collect_inputs
from gravityocr.pipeline.source import PageRanges, SourceConfig
from gravityocr.pipeline.stages import RunConfig


@pytest.fixture
def ocr() -> GravityOCR:
    return GravityOCR(ScriptedRecognizer(), ScriptedDetector([]))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, 3, b"a.pdf", Image.new("RGB", (9, 9)), ["a.pdf"]])
def test_what_is_no_path_is_refused_by_its_type(ocr: GravityOCR, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f'wants a path, a URL or "-".*not {type(wrong).__name__}'):
        ocr.parse(wrong)


@pytest.mark.parametrize(
    ("pages", "error"), [(2, TypeError), ([1, 2], TypeError), ("x", ConfigError), ("", ConfigError)]
)
def test_pages_are_text(ocr: GravityOCR, pages: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="1-5,8"):
        ocr.parse("a.pdf", pages=pages)


def test_the_example_of_the_documentation(tmp_path: Path, ocr: GravityOCR) -> None:
    """Parse several files with settings and formats of one's own."""
    image = Image.new("RGB", (90, 90), "white")
    for name in ("a.pdf", "b.pdf"):
        image.save(tmp_path / name, save_all=True, append_images=[image] * 3)
    config = PipelineConfig(
        source=SourceConfig(password="secret", text_layer=True),
        assembly=AssemblyConfig(keep_furniture=True),
        run=RunConfig(verify_text_layer=True),
    )
    folders = OutputFolders(tmp_path / "out")
    jobs, writers = [], []
    for item in collect_inputs([tmp_path / "a.pdf", tmp_path / "b.pdf"]):
        writer = DocumentWriter(folders.claim(item.path), ["md", "json", "html"])
        writers.append(writer)
        jobs.append(
            DocumentJob(item, PageRanges.parse("1-2"), save_image=writer.save_image, save_page=writer.save_page)
        )
    for writer, document in zip(writers, convert_all(jobs, ocr.engine, ocr.detector, config), strict=True):
        paths = writer.finish(document, config.assembly) if document.pages else []
        assert document.status == "ok" and len(document.pages) == 2
        assert [path.suffix for path in paths] == [".md", ".json", ".html"] and all(path.is_file() for path in paths)
