"""Nothing that was read is lost in any format, whatever a page holds and however it was put together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html
from tests.unit.pipeline.export_documents import SIZE_PX

from gravityocr.document import Box, Document, Label, Page, Region, RegionStatus
from gravityocr.pipeline.assembly import AssemblyConfig, assemble
from gravityocr.pipeline.export.docling import docling_json
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.export.document_json import document_json
from gravityocr.pipeline.export.glm_ocr import glm_ocr_json
from gravityocr.pipeline.export.html import html_pieces
from gravityocr.pipeline.export.mineru import content_list
from gravityocr.pipeline.exports import DocumentWriter, OutputFolders
from gravityocr.pipeline.layout import TASKS

FURNITURE = ("header", "footer", "page_number", "logo")
STATUSES: tuple[RegionStatus, ...] = ("ok", "ok", "ok", "truncated", "loop_cut")
SHAPES = {
    "text": "{0} and more",
    "table": "<table><tr><td>{0}</td><td>b</td></tr></table>",
    "formula": "x = \\text{{{0}}}",
}


@st.composite
def documents(draw: st.DrawFn) -> tuple[Document, AssemblyConfig]:
    pages = []
    for index in range(draw(st.integers(1, 3))):
        regions = []
        for place in range(draw(st.integers(0, 6))):
            label: Label = draw(st.sampled_from(get_args(Label)))
            task = TASKS[label]
            shape = draw(
                st.sampled_from(["{0}", "- {0}", "1. {0}", "{0}\n{0}b", "{0} goes on", "({0})", "# {0}", "{0}."])
            )
            content = (SHAPES[task] if task in ("table", "formula") else shape).format(f"w{index}x{place}q")
            left, top = 50.0 + 350 * draw(st.integers(0, 1)), 20.0 + 90 * place
            regions.append(
                Region(
                    place, label, label, task, Box(left, top, left + 300, top + 60), content if task else "",
                    draw(st.sampled_from(STATUSES)), "cut",
                    image=None if task else f"page{index + 1:04d}_region{place:03d}.png",
                )
            )  # fmt: skip
        pages.append(Page(index, SIZE_PX, tuple(regions)))
    config = AssemblyConfig(
        text_format=draw(st.sampled_from(["plain", "markdown"])),
        merge=draw(st.booleans()),
        keep_furniture=draw(st.booleans()),
    )
    document = Document("in/a.pdf", "ok", tuple(pages))
    return replace(document, passages=assemble(document.pages, config)), config


@given(documents())
def test_every_word_is_in_every_format(case: tuple[Document, AssemblyConfig]) -> None:
    document, config = case
    export = Export(document, Path("out/a"), assembly=config)
    page = html.document_fromstring("".join(html_pieces(export)))
    texts = {
        "json": json.dumps(document_json(document)),
        "html": page.text_content(),
        "content-list": json.dumps(content_list(export)),
        "docling": json.dumps(docling_json(export)),
        "glm-ocr": json.dumps(glm_ocr_json(export)),
    }
    identities = page.xpath("//@id")
    assert len(identities) == len(set(identities))
    for index, region in ((page.index, region) for page in document.pages for region in page.regions):
        assert f"r{index + 1}-{region.index}" in identities
        word = f"w{index}x{region.index}q"
        dropped = region.label in FURNITURE and not config.keep_furniture
        for name, text in texts.items():
            if region.task is not None and not (name == "glm-ocr" and dropped):
                assert word in text, (name, region)
            if region.task is None and name != "html" and not (name == "glm-ocr" and dropped):
                assert f"images/{region.image}" in text or name == "docling", (name, region)


@pytest.mark.parametrize("source", ["https://e.example/papers/a%20b.pdf?key=secret", "-"])
def test_what_is_no_file_has_a_folder_of_its_own(tmp_path: Path, source: str) -> None:
    folder = OutputFolders(tmp_path).claim(source)
    assert folder.name == ("stdin" if source == "-" else "a b")
    paths = DocumentWriter(folder, ["md", "json"]).finish(Document(source, "ok", (Page(0, SIZE_PX, markdown="x\n"),)))
    assert "secret" not in json.loads(paths[1].read_text())["source_path"]
    assert OutputFolders(tmp_path).claim(source) == folder
    assert OutputFolders(tmp_path).claim(f"{folder.name}.pdf").name == f"{folder.name}-2"
