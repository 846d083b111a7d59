"""Lists of one's own: targets, documents, boxes, and every line that is wrong named by its number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.training.corpora.page_fixtures import encoded, taken

from gravityocr.document import Box
from gravityocr.errors import InputError
from gravityocr.pipeline.crops import cut
from gravityocr.training.corpora import jsonl
from gravityocr.training.corpora.conversion import ConversionConfig, convert_source
from gravityocr.training.corpora.jsonl import JsonLines


def picture(number: int, size: tuple[int, int] = (60, 40)) -> Image.Image:
    made = Image.linear_gradient("L").resize(size)
    made.putpixel((number, 0), 7)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "scans").mkdir(parents=True)
    for number in range(3):
        (folder / "scans" / f"p{number}.png").write_bytes(encoded(picture(number)))
    (folder / "scans" / "cut.png").write_bytes(encoded(picture(0))[:60])
    (folder / "scans" / "words.png").write_text("no picture at all", encoding="utf-8")
    (tmp_path / "secret.png").write_bytes(encoded(picture(4)))
    return folder


def write_list(file: Path, lines: Sequence[Mapping[str, object] | str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")


def record(number: int = 0, **changes: object) -> dict[str, object]:
    return {"image": f"scans/p{number}.png", "task": "text", "text": f"line {number}", **changes}


def test_lines_become_regions(root: Path) -> None:
    table = "<table><tr><td>a</td></tr></table>"
    write_list(
        root / "train.jsonl",
        [
            record(0), record(1, task="table", text=table, doc_id="book", page=4, note="ignored"), "",
            record(2, task="formula", text="$$ x^2 $$"), record(2, text=None),
            {"image": "scans/p1.png", "task": "text"}, record(0, doc_id=17),
        ],
    )  # fmt: skip
    (unit,) = JsonLines(ConversionConfig()).units(root)
    regions, skipped = taken(JsonLines(ConversionConfig()), unit)
    assert skipped == []
    assert [(one.task, one.target, one.target_origin) for one in regions] == [
        ("text", "line 0", "annotation"), ("table", table, "annotation"), ("formula", "x^2", "annotation"),
        ("text", "", "pending"), ("text", "", "pending"), ("text", "line 0", "annotation"),
    ]  # fmt: skip
    assert [(one.doc_id, one.page) for one in regions[:3]] == [("scans/p0", 0), ("book", 4), ("scans/p2", 0)]
    assert regions[5].doc_id == "17" and {one.source for one in regions} == {"jsonl"}
    assert len({one.region_id for one in regions}) == 6 and regions[3].region_id == "jsonl/scans/p2/0/train-5"
    assert regions[0].image == (root / "scans" / "p0.png").read_bytes()
    assert (regions[0].width_px, regions[0].height_px, regions[0].bbox) == (60, 40, None)


def test_a_box_is_cut_as_inference_cuts_it(root: Path) -> None:
    write_list(root / "a.jsonl", [record(1, bbox=[10, 5, 50, 35.5]), record(1, bbox=[100, 0, 120, 9])])
    (unit,) = JsonLines(ConversionConfig()).units(root)
    (region,), (skipped,) = taken(JsonLines(ConversionConfig()), unit)
    page = Image.open(root / "scans" / "p1.png").convert("RGB")
    expected = cut(page, Box(10, 5, 50, 35.5))
    assert region.picture().convert("RGB").tobytes() == expected.tobytes()
    assert region.bbox == (10.0, 5.0, 50.0, 35.5) and (region.width_px, region.height_px) == expected.size
    assert skipped.where == "a.jsonl, line 2" and skipped.reason.startswith("no crop: ")


WRONG: dict[str, tuple[Mapping[str, object] | str, str]] = {
    "half": ('{"image": "scans/p0.png", ', "no JSON: "),
    "deep": ("[" * 100_000, "no JSON: "),
    "number": ("17", "no JSON object: it is a int"),
    "task": (record(task="texts"), "unknown task: 'texts'; choose text, table or formula"),
    "task-list": (record(task=["text"]), "unknown task: "),
    "misspelt": ({"image": "scans/p0.png", "task": "text", "target": "a"}, "no text: the unknown field 'target'"),
    "text": (record(text=7), "bad text: 7 is no string"),
    "empty": (record(text=" \n"), "empty text: write null"),
    "surrogate": ('{"image": "scans/p0.png", "task": "text", "text": "a\\ud800"}', "bad text: half a surrogate pair"),
    "no-image": (record(image=None), "no image: "),
    "missing": (record(image="scans/p9.png"), "missing file: p9.png"),
    "folder": (record(image="scans"), "missing file: scans"),
    "nul": (record(image="a\0b"), "bad image: "),
    "long": (record(image="a" * 5000), "missing file: "),
    "cut": (record(image="scans/cut.png"), "unreadable image: it is broken"),
    "words": (record(image="scans/words.png"), "unreadable image: it is broken (no image)"),
    "words-box": (record(image="scans/words.png", bbox=[0, 0, 9, 9]), "unreadable image: it is broken (no image)"),
    "up": (record(image="../secret.png"), "image outside of ROOT: '../secret.png'"),
    "absolute": (record(image="/etc/hostname"), "image outside of ROOT: "),
    "document": (record(doc_id=""), "bad doc_id: "),
    "page": (record(page=-1), "bad page: -1"),
    "page-true": (record(page=True), "bad page: True"),
    "box": (record(bbox=[0, 0, 5]), "bad bbox: [0, 0, 5] is not [x0, y0, x1, y1]"),
    "box-nan": ('{"image": "scans/p0.png", "task": "text", "text": "a", "bbox": [0, 0, NaN, 9]}', "bad bbox: "),
    "box-huge": (record(bbox=[0, 0, 10**400, 9]), "bad bbox: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_broken_line_is_skipped_by_its_number(root: Path, name: str) -> None:
    line, reason = WRONG[name]
    write_list(root / "in" / "a.jsonl", [record(image="../scans/p0.png")] * 2)
    with (root / "in" / "a.jsonl").open("a", encoding="utf-8") as stream:
        shown = line if isinstance(line, str) else json.dumps(line)
        stream.write(shown.replace('"scans', '"../scans').replace('"../secret', '"../../secret') + "\n")
    (unit,) = JsonLines(ConversionConfig()).units(root)
    regions, (skipped,) = taken(JsonLines(ConversionConfig()), unit)
    assert len(regions) == 2 and skipped.where == "in/a.jsonl, line 3"
    assert skipped.reason.replace("'../../", "'../").startswith(reason) and "0x" not in skipped.reason


def test_a_link_out_of_the_folder_is_refused(root: Path) -> None:
    (root / "scans" / "link.png").symlink_to(root.parent / "secret.png")
    write_list(root / "a.jsonl", [record(image="scans/link.png")])
    (unit,) = JsonLines(ConversionConfig()).units(root)
    regions, (skipped,) = taken(JsonLines(ConversionConfig()), unit)
    assert not regions and skipped.reason.startswith("image outside of ROOT")


def test_units_are_slices_and_lines_keep_their_numbers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "UNIT_LINES", 2)
    write_list(root / "a.jsonl", [record(0), "é?", record(1), "", "[]"])
    write_list(root / "b" / "a.jsonl", [record(image="../scans/p2.png")] * 2)
    (root / "c.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(record(2)).encode() + b"\r\n")
    (root / "none.jsonl").write_bytes(b"")
    converter = JsonLines(ConversionConfig())
    units = converter.units(root)
    assert [unit.name for unit in units] == ["a-00000", "a-00001", "a-00002", "b-a-00000", "c-00000", "none-00000"]
    found = [taken(converter, unit) for unit in units]
    assert [len(regions) for regions, _ in found] == [1, 1, 0, 2, 1, 0]
    assert [item.where for _, skipped in found for item in skipped] == ["a.jsonl, line 2", "a.jsonl, line 5"]
    ids = [region.region_id for regions, _ in found for region in regions]
    assert len({*ids}) == 5


def test_an_edited_list_is_converted_anew(root: Path, tmp_path: Path) -> None:
    config, out = ConversionConfig(), tmp_path / "out"
    write_list(root / "a.jsonl", [record(0, text="a")])
    assert [report.status for report in convert_source(JsonLines(config), root, out, config)] == ["made"]
    assert [report.status for report in convert_source(JsonLines(config), root, out, config)] == ["kept"]
    write_list(root / "a.jsonl", [record(0, text="b")])  # as long as before
    assert [report.status for report in convert_source(JsonLines(config), root, out, config)] == ["made"]


def test_a_folder_without_lists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no list \(\*\.jsonl\); write one with lines such as"):
        JsonLines(ConversionConfig()).units(tmp_path)
