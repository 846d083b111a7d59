"""hOCR and ALTO files as words; hostile and broken ones are told, and nothing outside of them is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from gravityocr.document import Box, PlacedText
from gravityocr.errors import InputError
from gravityocr.pipeline.source import SourceConfig, iter_pages
from gravityocr.pipeline.text_files import read_alto, read_hocr, read_known_pages

HOCR = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title></title></head><body>
<div class="ocr_page" id="page_1" title='image "a.png"; bbox 10 20 410 220; ppageno 0'>
 <span class="ocr_line" title="bbox 20 30 200 50">
  <span class="ocrx_word x" title="bbox 20 30 60 50; x_wconf 95"><strong>Größe</strong></span>
  <span class="ocrx_word" title="bbox 70 30 100 50">  A&amp;B </span>
  <span class="ocrx_word" title="bbox 110 30 120 50"> </span>
  <span class="ocrx_word" title="x_wconf 3">placeless</span>
 </span></div>
<div class="ocr_page" title="bbox 0 0 100 100"><span class="ocr_line" title="bbox 0.5 1 90 9">a line</span></div>
</body></html>"""

ALTO = """<?xml version="1.0" encoding="UTF-8"?>
<alto xmlns="http://www.loc.gov/standards/alto/ns-v3#"><Description><MeasurementUnit>mm10</MeasurementUnit></Description>
<Layout><Page WIDTH="400" HEIGHT="200"><PrintSpace><TextBlock><TextLine>
<String CONTENT="moral" HPOS="10" VPOS="20" WIDTH="40" HEIGHT="10"/><SP/>
<String CONTENT="prin" HPOS="60" VPOS="20" WIDTH="30" HEIGHT="10" SUBS_CONTENT="principle"/><HYP CONTENT="-"/>
</TextLine><TextLine><String CONTENT="ciple" HPOS="10" VPOS="40" WIDTH="40" HEIGHT="10"/>
<String CONTENT="nowhere" HPOS="x"/><HYP/></TextLine></TextBlock></PrintSpace></Page>
<Page><PrintSpace WIDTH="50" HEIGHT="60"/></Page></Layout></alto>"""

BOMB = '<!DOCTYPE alto [<!ENTITY a "aaaaaaaaaa">{}]>'.format(
    "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
)


def write(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "known.xml"
    path.write_bytes(text.encode(encoding))
    return path


def test_hocr_words_in_pixels_of_their_page(tmp_path: Path) -> None:
    one, two = read_hocr(write(tmp_path, HOCR))
    assert one.size == (400, 200) and two.size == (100, 100)
    assert one.words == (PlacedText("Größe", Box(10, 10, 50, 30)), PlacedText("A&B", Box(60, 10, 90, 30)))
    assert two.words == (PlacedText("a line", Box(0.5, 1, 90, 9)),)
    assert one.words_on((800, 100))[0] == PlacedText("Größe", Box(20, 5, 100, 15))


def test_hocr_of_another_encoding(tmp_path: Path) -> None:
    latin = '<html><head><meta charset="iso-8859-1"></head>' + HOCR[HOCR.index("<body>") :]
    assert read_hocr(write(tmp_path, latin, "latin-1"))[0].words[0].text == "Größe"


def test_alto_strings_with_the_hyphen_of_their_line(tmp_path: Path) -> None:
    one, two = read_alto(write(tmp_path, ALTO))
    assert [word.text for word in one.words] == ["moral", "prin-", "ciple"]
    assert one.words_on((800, 400))[0].box == Box(20, 40, 100, 60)
    assert two.size == (50, 60) and two.words == ()


def test_words_off_the_page_are_left_out(tmp_path: Path) -> None:
    wild = ALTO.replace('HPOS="10" VPOS="20" WIDTH="40"', 'HPOS="-9e307" VPOS="20" WIDTH="1e308"')
    wild = wild.replace('HPOS="60" VPOS="20" WIDTH="30"', 'HPOS="1e308" VPOS="20" WIDTH="1e308"')
    first, _ = read_alto(write(tmp_path, wild))
    assert len(first.words) == 3
    placed = first.words_on((4000, 2000))  # the scale makes infinities of the first two
    assert [(word.text, word.box) for word in placed] == [
        ("moral", Box(0, 200, 4000, 300)), ("ciple", Box(100, 400, 500, 500)),
    ]  # fmt: skip


def test_the_kind_is_told_by_the_content(tmp_path: Path) -> None:
    assert read_known_pages(write(tmp_path, "\ufeff" + HOCR))[0].size == (400, 200)
    assert read_known_pages(write(tmp_path, ALTO))[0].words[0].text == "moral"


def test_pages_of_a_file_go_with_those_of_the_input(tmp_path: Path) -> None:
    second = Image.new("L", (9, 9))
    Image.new("RGB", (800, 400), "white").save(tmp_path / "two.tif", save_all=True, append_images=[second])
    config = SourceConfig(reference=str(write(tmp_path, HOCR)))
    one, two = iter_pages(tmp_path / "two.tif", config=config)
    assert one.words[0] == PlacedText("Größe", Box(20, 20, 100, 60)) and [word.text for word in two.words] == ["a line"]
    with pytest.raises(InputError, match=r"gone\.hocr: cannot be read"):
        next(iter(iter_pages(tmp_path / "two.tif", config=SourceConfig(reference=str(tmp_path / "gone.hocr")))))


@pytest.mark.parametrize("read", [read_hocr, read_alto, read_known_pages])
@pytest.mark.parametrize(
    "text",
    ["", "no markup", "<alto", "<alto/>", "<html><body><p>text</p></body></html>",
     '<div class="ocr_page" title="bbox 1 2"/>', '<alto><Layout><Page WIDTH="0" HEIGHT="nan"/></Layout></alto>',
     "\0\1\2" * 99],
)  # fmt: skip
def test_what_is_neither_is_told(tmp_path: Path, read: Callable[[Path], object], text: str) -> None:
    with pytest.raises(InputError, match=r"known\.xml: .*; hand an intact"):
        read(write(tmp_path, text))


def test_entities_neither_multiply_nor_read_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    body, hocr = ALTO[ALTO.index("<alto") :], HOCR[HOCR.index("<html") :]
    with pytest.raises(InputError, match="cannot be parsed"):
        read_alto(write(tmp_path, BOMB + body.replace("moral", "&j;")))
    outer = f'<!DOCTYPE alto [<!ENTITY x SYSTEM "{tmp_path / "secret"}">]>'
    with pytest.raises(InputError, match="cannot be parsed"):
        read_alto(write(tmp_path, outer + body.replace("moral", "&x;")))
    read = read_alto(write(tmp_path, outer + body.replace("<SP/>", "&x;")))
    assert "secret" not in str(read)
    (_, left_alone), _ = (page.words for page in read_hocr(write(tmp_path, BOMB + hocr.replace("A&amp;B", "&j;"))))
    assert left_alone.text == "&j;"
