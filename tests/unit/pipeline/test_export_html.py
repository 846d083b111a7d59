"""The HTML export: one file that loads nothing, every passage and region in it, failures to be seen."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import html
from PIL import Image
from tests.unit.pipeline.export_documents import LOST_PICTURE, PICTURE, SIZE_PX, page_image, rich_document

from gravityocr.document import Document, Page
from gravityocr.errors import InputError
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.export.html import html_pieces
from gravityocr.pipeline.exports import DocumentWriter
from gravityocr.training.synthetic.chromium import Chromium, find_chromium

needs_chromium = pytest.mark.skipif(find_chromium() is None, reason="no Chromium: apt-get install chromium")
RICH = rich_document()


def written(folder: Path, document: Document = RICH, n_pages: int = 2) -> str:
    writer = DocumentWriter(folder / "paper", ["html"])
    writer.save_image(PICTURE, Image.new("RGB", (40, 30), "red"))
    writer.save_image(LOST_PICTURE, Image.new("RGB", (40, 30), "blue"))
    for index in range(n_pages):
        writer.save_page(index, page_image())
    (path,) = writer.finish(document)
    return path.read_text(encoding="utf-8")


def test_nothing_of_the_document_runs_or_loads(tmp_path: Path) -> None:
    text = written(tmp_path)
    tree = html.document_fromstring(text)
    assert len(tree.xpath("//script")) == 1 and "alert" not in tree.xpath("//script")[0].text
    for element in tree.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on") and name not in {"style", "srcset", "action", "formaction", "data"}
            if name in ("href", "src"):
                assert value.startswith("#" if name == "href" else "data:image/jpeg;base64,")
    assert not tree.xpath("//iframe | //object | //embed | //link | //form | //base | //video | //audio")
    policy = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    assert policy.startswith("default-src 'none'; img-src data:;") and "unsafe" not in policy
    assert "url(" not in text and "@import" not in text


def test_every_passage_and_every_region_is_there_and_they_lead_to_one_another(tmp_path: Path) -> None:
    tree = html.document_fromstring(written(tmp_path))
    identities = tree.xpath("//@id")
    assert len(identities) == len(set(identities))
    for number in range(len(RICH.passages)):
        assert f"p{number}" in identities
    boxes = {box.get("id"): box for box in tree.xpath("//a[contains(@class, 'box')]")}
    assert set(boxes) == {f"r{page.index + 1}-{region.index}" for page in RICH.pages for region in page.regions}
    for box in boxes.values():
        assert box.get("href")[1:] in identities
    merged = tree.get_element_by_id("p7")
    assert merged.get("data-boxes") == "r1-8 r2-2"
    assert boxes["r1-8"].get("href") == boxes["r2-2"].get("href") == "#p7"
    assert tree.get_element_by_id("rest-r1-9").text_content().strip().endswith("17")  # furniture can be read, too
    assert tree.get_element_by_id("rest-r2-0").text_content().strip().endswith("Journal of Things")


def test_boxes_are_in_page_pixels_and_outlines_are_kept(tmp_path: Path) -> None:
    tree = html.document_fromstring(written(tmp_path))
    assert tree.xpath("//*[local-name()='svg']/@viewbox") == [f"0 0 {SIZE_PX[0]} {SIZE_PX[1]}"] * 2
    points = {box.get("id"): box.xpath(".//polygon/@points")[0] for box in tree.xpath("//a[contains(@class, 'box')]")}
    assert points["r1-0"] == "60.0,30.0 640.0,30.0 640.0,100.0 60.0,100.0"
    assert points["r1-1"] == "60.0,120.0 640.0,125.0 640.0,190.0 60.0,185.0"


def test_contents_are_rendered_and_hostile_text_is_text(tmp_path: Path) -> None:
    tree = html.document_fromstring(written(tmp_path))
    assert tree.xpath("//article//h1")[0].text_content() == "A Study of Things"
    assert tree.xpath("//article//h2")[0].text_content() == "Results"
    assert tree.get_element_by_id("p2").xpath(".//span[@class='number']")[0].text == "(3.1)"
    assert len(tree.get_element_by_id("p2").xpath(".//math")) == 1
    assert tree.get_element_by_id("p11").xpath(".//code")[0].text == r"\unknowncommand{x}"
    table = tree.get_element_by_id("p3").xpath(".//table")[0]
    assert [cell.get("rowspan") or cell.get("colspan") for cell in table.xpath(".//th")] == ["2", "2", None, None]
    assert len(table.xpath(".//math")) == 1 and "<b>" in table.text_content()
    assert [item.text for item in tree.get_element_by_id("p6").xpath(".//li")] == ["first", "second"]
    assert "print('$x$')" in tree.get_element_by_id("p9").xpath(".//pre")[0].text_content()
    assert "<script>alert" in tree.get_element_by_id("p1").text_content()
    assert tree.get_element_by_id("p4").xpath(".//img/@alt") == ["figure"]


def test_a_blank_page_says_so(tmp_path: Path) -> None:
    tree = html.document_fromstring(written(tmp_path, Document("a.png", "ok", (Page(0, SIZE_PX),)), 0))
    assert "blank page" in tree.get_element_by_id("page1").text_content()
    assert "1 page, 0 regions" in tree.xpath("//header")[0].text_content()


def test_failures_are_to_be_seen(tmp_path: Path) -> None:
    tree = html.document_fromstring(written(tmp_path))
    told = [item.text_content() for item in tree.xpath("//*[@class='status']")]
    assert any("truncated" in text for text in told) and any("failed" in text for text in told)
    lost = tree.get_element_by_id("p8")
    assert "the server answered 500" in lost.text_content() and lost.xpath(".//img")
    third = tree.get_element_by_id("page3")
    assert tree.text_content().count("cannot be rendered") == 1
    (header,) = tree.xpath("//header")
    assert "3 pages, 18 regions: 1 failed, 16 ok, 1 truncated" in header.text_content()
    assert "cannot be rendered" in third.text_content() and not third.xpath(".//img")
    assert "bad" in tree.get_element_by_id("r2-1").get("class")
    assert "an animation" in tree.xpath("//header")[0].text_content()


def test_without_passages_the_pages_own_markdown_is_shown(tmp_path: Path) -> None:
    tree = html.document_fromstring(written(tmp_path, replace(RICH, passages=())))
    assert tree.xpath("//article//h1")[0].text_content() == "A Study of Things"
    assert len(tree.xpath("//a[contains(@class, 'box')]")) == RICH.n_regions


def test_one_page_s_picture_is_read_at_a_time(tmp_path: Path) -> None:
    pictures = {}
    for index in range(3):
        pictures[index] = tmp_path / f"{index}.jpg"
        page_image().save(pictures[index])
    pages = tuple(Page(index, SIZE_PX) for index in range(3))
    pieces = html_pieces(Export(Document("a.pdf", "ok", pages), tmp_path, {}, pictures))
    for piece in pieces:
        if "<img" in piece:
            break
    pictures[1].unlink()  # not read yet
    with pytest.raises(InputError, match=r"1\.jpg: cannot be read"):
        list(pieces)


SCRIPT = """() => {
  const found = {};
  const classes = (id) => document.getElementById(id).className.baseVal ?? document.getElementById(id).className;
  const chosen = () => [...document.querySelectorAll(".chosen")].map((part) => part.id).sort();
  const click = (node) => node.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
  click(document.querySelector("#r2-2 polygon")); found.box = chosen();
  click(document.querySelector("#p3 td")); found.passage = chosen();
  click(document.querySelector("#r1-9 polygon"));
  found.furniture = chosen(); found.open = document.querySelector("#rest-r1-9").closest("details").open;
  document.querySelector("#p7").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  found.near = [...document.querySelectorAll(".near")].map((part) => part.id).sort();
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" })); found.cleared = chosen();
  found.math = document.querySelector(".formula math").getBoundingClientRect().width > 20;
  found.styled = getComputedStyle(document.querySelector(".page")).display;
  found.images = [...document.images].every((image) => image.complete && image.naturalWidth > 0);
  found.over = document.querySelector("#r1-0 polygon").getBoundingClientRect().width;
  found.sheet = document.querySelector(".sheet").getBoundingClientRect().width;
  found.overflow = document.documentElement.scrollWidth > innerWidth + 1;
  return found;
}"""


class ListeningChromium(Chromium):
    """A browser that keeps what pages log, throw or are refused."""

    def __init__(self) -> None:
        self.told: list[str] = []
        super().__init__(timeout_s=60.0)

    def _read_message(self) -> dict[str, object]:
        message = super()._read_message()
        if message.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.told.append(json.dumps(message))
        return message


@needs_chromium
def test_a_browser_shows_it_and_clicks_highlight(tmp_path: Path) -> None:
    text = written(tmp_path)
    with ListeningChromium() as browser:
        for domain in ("Runtime", "Log"):
            browser._call(f"{domain}.enable", browser._session)
        found = browser.lay_out(text, SCRIPT, (1400, 900)).measured
        narrow = browser.lay_out(text, SCRIPT, (420, 900)).measured
        time.sleep(0.05)
        browser._call("Runtime.evaluate", browser._session, expression="1")  # takes what has been told in the meantime
    assert browser.told == []
    assert found["box"] == ["p7", "r1-8", "r2-2"]
    assert found["passage"] == ["p3", "r1-4"]
    assert found["furniture"] == ["r1-9", "rest-r1-9"] and found["open"]
    assert found["near"] == ["p7", "r1-8", "r2-2"] and found["cleared"] == []
    assert found["math"] and found["images"] and found["styled"] == "grid"
    assert found["over"] == pytest.approx(found["sheet"] * 580 / 800, rel=0.02)  # the box is as wide as in the page
    assert not narrow["overflow"]


def test_the_policy_s_digests_are_those_of_the_script_and_style(tmp_path: Path) -> None:
    import base64
    import hashlib

    text = written(tmp_path)
    policy = re.search(r'content="(default-src[^"]*)"', text)
    assert policy is not None
    for tag in ("style", "script"):
        body = text.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
