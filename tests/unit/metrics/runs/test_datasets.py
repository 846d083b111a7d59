"""Readers of pairs and benchmarks: what they find, and what they say of files that are wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gravityocr.errors import InputError
from gravityocr.metrics.runs.benchmark_sets import (
    prediction_names,
    read_annotations,
    read_golden,
    read_omnidocbench,
    read_pubtabnet,
    read_unimer,
    table_html,
)
from gravityocr.metrics.runs.datasets import read_folders, read_json, read_pairs, read_rows


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_rows(path: Path, rows: list[object]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


# Rows ----------------------------------------------------------------------------------------------


def test_only_line_ends_split_json_lines(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"id": "a\u2028b\x85c"}\r\n\n{"id": "d"}')
    assert list(read_rows(path, "id")) == [(1, {"id": "a\u2028b\x85c"}), (3, {"id": "d"})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "a", "pred": "", "ref": ""}\n{"id": \n', "a.jsonl, line 2: is no JSON"),
        ("[1, 2]\n", "line 1: holds a list; each line must be one object with id, pred and ref"),
        ("", "a.jsonl: is empty; it must hold one object with id, pred and ref a line"),
        ("\n \n", "is empty"),
        ('{"id": "a", "pred": "x"}\n', "line 1: has no 'ref' (only id, pred)"),
        ('{"id": "a", "pred": ["x"], "ref": "y"}\n', "line 1: 'pred' is a list, not a string"),
        ('{"id": true, "pred": "x", "ref": "y"}\n', "'id' is true or false, not a string"),
        (
            '{"id": "a", "pred": "x", "ref": "y"}\n\n{"id": "a", "pred": "x", "ref": "y"}\n',
            "line 3: the id 'a' stands in line 1 already; give every sample its own",
        ),
        ('{"id": "a", "pred": "x", "ref": "y", "attributes": "z"}\n', "'attributes' is a string"),
        ("[" * 100_000, "line 1: is no JSON"),
        ("9" * 10_000, "line 1: is no JSON"),
        (b"\xff\xfe", "is empty"),
        (b'{"id": "\xe9', "line 1: is no JSON (is no UTF-8"),
    ],
)
def test_faults_of_jsonl_name_file_line_and_remedy(tmp_path, content, message):
    path = write(tmp_path / "a.jsonl", content)
    with pytest.raises(InputError, match=re.escape(message)):
        read_pairs(path)


def test_pairs_of_jsonl(tmp_path):
    rows = [
        {"id": "b", "pred": "x", "ref": "y", "attributes": {"language": "en", "n": 3}, "image": "b.png"},
        {"id": 7, "pred": None, "ref": "y"},
        {"id": "e", "pred": " \n", "ref": "y"},
        {"id": "n", "pred": "", "ref": ""},
        {"id": "s", "pred": "\ud800", "ref": "y"},
    ]
    found = read_pairs(write_rows(tmp_path / "a.jsonl", rows))
    assert [pair.id for pair in found.pairs] == ["b", "7", "e", "n", "s"]
    assert found.pairs[0].attributes == {"language": "en", "n": "3"} and found.pairs[0].image == "b.png"
    assert found.missing == ("7",) and found.pairs[1].pred == ""
    assert found.pairs[4].pred == "\ufffd"
    assert {(note.id, note.status) for note in found.notes} == {
        ("7", "missing_prediction"), ("e", "empty_prediction"), ("s", "bad_encoding"),
    }  # fmt: skip


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="none.jsonl: does not exist"):
        read_pairs(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        read_pairs(tmp_path)


def test_faults_of_json_name_line_and_column(tmp_path):
    with pytest.raises(InputError, match=r"a\.json, line 2, column \d+: is no JSON .*; it must hold a list"):
        read_json(write(tmp_path / "a.json", '{"a":\n1,}'), "a list")


# Folders -------------------------------------------------------------------------------------------


def test_folders_are_paired_by_stem(tmp_path):
    for name, text in {
        "b.html": "ref b",
        "a.pdf_1.md": "ref a",
        "c.txt": "ref c",
        ".hidden.md": "",
        "note.pdf": "",
    }.items():
        write(tmp_path / "ref" / name, text)
    for name, data in {"a.pdf_1.txt": b"pred a", "b.md": b"\xff", "z.md": b"extra"}.items():
        write(tmp_path / "pred" / name, data)
    found = read_folders(tmp_path / "pred", tmp_path / "ref")
    assert [(pair.id, pair.pred, pair.ref) for pair in found.pairs] == [
        ("a.pdf_1", "pred a", "ref a"), ("b", "\ufffd", "ref b"), ("c", "", "ref c"),
    ]  # fmt: skip
    assert found.missing == ("c",) and found.extra == ("z",)
    assert [(note.id, note.status) for note in found.notes] == [("b", "bad_encoding"), ("c", "missing_prediction")]


def test_folders_that_do_not_fit_are_told(tmp_path):
    pred, ref = tmp_path / "pred", tmp_path / "ref"
    write(ref / "a.md", "x")
    with pytest.raises(InputError, match="pred: does not exist; name an existing folder"):
        read_folders(pred, ref)
    pred.mkdir()
    with pytest.raises(InputError, match="pred: holds no file that ends in .html"):
        read_folders(pred, ref)
    write(pred / "b.md", "x")
    with pytest.raises(InputError, match="holds no prediction for .*there a, here b"):
        read_folders(pred, ref)
    write(pred / "b.txt", "x")
    with pytest.raises(InputError, match=r"b\.txt: has the stem of b\.md"):
        read_folders(pred, ref)
    with pytest.raises(InputError, match="is no folder"):
        read_folders(pred, ref / "a.md")


# OmniDocBench --------------------------------------------------------------------------------------


def page(image: str) -> dict[str, object]:
    return {"page_info": {"image_path": image, "page_attribute": {"language": "english"}}, "layout_dets": []}


def test_pages_find_their_predictions(tmp_path):
    images = ["images/a.pdf_1.jpg", "b.png", "c.jpeg", "d.jpg"]
    gt = write(tmp_path / "gt.json", json.dumps([page(image) for image in images]))
    for name in ("a.pdf_1.md", "b.png.md", "d_old.md", "README.txt"):
        write(tmp_path / "pred" / name, f"text of {name}")
    write(tmp_path / "pred" / "d.md", b" \n")
    found = read_omnidocbench(gt, tmp_path / "pred")
    assert [(one.name, one.markdown) for one in found.pages] == [
        ("a.pdf_1.jpg", "text of a.pdf_1.md"), ("b.png", "text of b.png.md"), ("c.jpeg", None), ("d.jpg", " \n"),
    ]  # fmt: skip
    assert found.missing == ("c.jpeg",) and found.extra == ("d_old.md",)
    assert {(note.id, note.status) for note in found.notes} == {
        ("c.jpeg", "missing_prediction"), ("d.jpg", "empty_prediction"),
    }  # fmt: skip
    assert prediction_names("x.pdf_3.jpg") == ["x.pdf_3.md", "x_3.mmd", "x_3.md", "x.pdf_3.jpg.md"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "must hold a list of pages"),
        ("[]", "must hold a list of pages"),
        ('[{"layout_dets": []}]', "page 1: lacks page_info.image_path"),
        ('[{"page_info": {"image_path": "x/"}, "layout_dets": {}}]', "page 1: x/ lacks layout_dets"),
        ('[{"page_info": {"image_path": "/"}, "layout_dets": []}]', "page 1: lacks page_info.image_path"),
        ('[{"page_info": {"image_path": "a.jpg"}, "layout_dets": {}}]', "page 1: a.jpg lacks layout_dets"),
        ('[{"page_info": {"image_path": "a.jpg"}, "layout_dets": [3]}]', "page 1: a.jpg, block 1: is no object"),
        (
            '[{"page_info": {"image_path": "a.jpg"}, "layout_dets": [{"anno_id": 7}]}]',
            "block 1 (anno_id 7): has no cat",
        ),
        ("[3]", "page 1: lacks"),
        (json.dumps([page("a.jpg"), page("x/a.jpg")]), "page 2: a.jpg comes twice"),
    ],
)
def test_faults_of_a_ground_truth_are_named(tmp_path, content, message):
    with pytest.raises(InputError, match=re.escape(message)):
        read_annotations(write(tmp_path / "gt.json", content))


def test_a_folder_without_predictions_is_told(tmp_path):
    gt = write(tmp_path / "gt.json", json.dumps([page("a.jpg")]))
    write(tmp_path / "pred" / "b.md", "x")
    with pytest.raises(InputError, match=r"holds no prediction for any of the 1 pages .*it holds b\.md.* is a\.md"):
        read_omnidocbench(gt, tmp_path / "pred")


def test_the_handed_pages_have_predictions(cases_dir):
    folder = cases_dir / "golden" / "e2e"
    for name in ("pred_demo", "pred_gtmd"):
        found = read_omnidocbench(folder / "gt.json", folder / name)
        assert len(found.pages) == 7 and not found.missing


# PubTabNet -----------------------------------------------------------------------------------------


def tokens(*cells: str, open_tags: tuple[str, ...] = ("<td>",)) -> dict[str, object]:
    row = ["<tr>", *[tag for _ in cells for tag in (*open_tags, "</td>")], "</tr>"]
    structure = ["<thead>", "</thead>", "<tbody>", *row, "</tbody>"]
    return {"structure": {"tokens": structure}, "cells": [{"tokens": list(cell)} for cell in cells]}


def test_tokens_become_a_table():
    html = {
        "structure": {"tokens": ["<tr>", "<td", ' colspan="2"', ">", "</td>", "<td>", "</td>", "</tr>"]},
        "cells": [{"tokens": ["<b>", "a", "&", "</b>"]}, {"tokens": []}],
    }
    expected = '<tr><td colspan="2"><b>a&amp;</b></td><td></td></tr>'
    assert table_html(html, "here") == f"<html><body><table>{expected}</table></body></html>"


def test_pubtabnet_of_jsonl(tmp_path):
    wide = tokens("x", open_tags=("<td", ' colspan="3"', ">"))
    gt = write_rows(
        tmp_path / "PubTabNet_val.jsonl",
        [
            {"filename": "a.png", "split": "val", "html": tokens("1", "2")},
            {"filename": "b.png", "split": "val", "html": wide},
            {"filename": "t.png", "split": "train", "html": tokens("3")},
        ],
    )
    pred = write(tmp_path / "pred.json", json.dumps({"a.png": "<table></table>", "b.png": None, "q.png": ""}))
    found = read_pubtabnet(gt, pred)
    assert [(pair.id, pair.attributes["type"], pair.image) for pair in found.pairs] == [
        ("a.png", "simple", "a"), ("b.png", "complex", "b"),
    ]  # fmt: skip
    assert found.missing == ("b.png",) and found.extra == ("q.png",)
    rows = write_rows(tmp_path / "pred.jsonl", [{"filename": "t.png", "html": "<table>t</table>"}])
    assert read_pubtabnet(gt, rows, "train").pairs[0].pred == "<table>t</table>"
    with pytest.raises(InputError, match="none of its 3 samples is of the split 'test'"):
        read_pubtabnet(gt, pred, "test")


def test_pubtabnet_of_the_final_evaluation(tmp_path):
    truth = {"a.png": {"html": "<table></table>", "type": "complex"}, "b.png": {"html": '<td rowspan="1">'}}
    gt = write(tmp_path / "final.json", json.dumps(truth))
    pred = write(tmp_path / "pred.json", '{"a.png": "x"}')
    found = read_pubtabnet(gt, pred)
    assert [pair.attributes["type"] for pair in found.pairs] == ["complex", "simple"]


@pytest.mark.parametrize(
    ("html", "message"),
    [
        (None, "line 1: TypeError"),
        ({"cells": []}, "line 1: KeyError 'structure'"),
        ({"structure": {"tokens": [3]}, "cells": []}, "line 1: TypeError"),
        ({"structure": {"tokens": ["<td>"]}, "cells": ["x"]}, "line 1: AttributeError"),
    ],
)
def test_faults_of_pubtabnet_are_named(tmp_path, html, message):
    gt = write_rows(tmp_path / "gt.jsonl", [{"filename": "a.png", "split": "val", "html": html}])
    with pytest.raises(InputError, match=re.escape(message)):
        read_pubtabnet(gt, write(tmp_path / "pred.json", '{"a.png": ""}'))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.json", "[]", "must hold an object of filenames and predictions"),
        ("p.json", '{"a.png": 3}', "the prediction for 'a.png' is no string"),
        ("p.json", '{"z.png": "x"}', "holds no prediction for"),
        ("p.jsonl", '{"filename": "a.png"}', "line 1: has no 'html'"),
        ("p.jsonl", '{"filename": "a.png", "html": ""}\n' * 2, "line 2: the id 'a.png' stands in line 1"),
    ],
)
def test_faults_of_predictions_are_named(tmp_path, name, content, message):
    gt = write_rows(tmp_path / "gt.jsonl", [{"filename": "a.png", "split": "val", "html": tokens("1")}])
    with pytest.raises(InputError, match=re.escape(message)):
        read_pubtabnet(gt, write(tmp_path / name, content))


# UniMER-Test ---------------------------------------------------------------------------------------


def test_unimer_by_lines_and_by_id(tmp_path):
    gt = tmp_path / "UniMER-Test"
    write(gt / "spe.txt", "a\nb\n")
    write(gt / "hwe.txt", "c\r\n\r\nd")
    write(tmp_path / "pred" / "spe.txt", "A\n\n")
    found = read_unimer(gt, tmp_path / "pred")
    assert [(pair.id, pair.pred, pair.ref, pair.attributes["subset"]) for pair in found.pairs] == [
        ("spe/0000000", "A", "a", "SPE"), ("spe/0000001", "", "b", "SPE"),
        ("hwe/0000000", "", "c", "HWE"), ("hwe/0000001", "", "", "HWE"), ("hwe/0000002", "", "d", "HWE"),
    ]  # fmt: skip
    assert found.missing == ("hwe/0000000", "hwe/0000001", "hwe/0000002")
    rows = write_rows(tmp_path / "pred.jsonl", [{"id": "hwe/0000002", "pred": "D"}, {"id": "cpe/0000000", "pred": ""}])
    found = read_unimer(gt, rows)
    assert found.pairs[-1].pred == "D" and found.extra == ("cpe/0000000",)


def test_unimer_takes_lines_or_rows_of_a_subset_and_lists_what_it_does_not_use(tmp_path):
    gt, pred = tmp_path / "gt", tmp_path / "pred"
    for name, text in {"spe.txt": "a\nb\n", "cpe.txt": "c\n"}.items():
        write(gt / name, text)
    write(pred / "spe.txt", "a\nb\n")
    write_rows(pred / "cpe.jsonl", [{"id": "cpe/0000000", "pred": "C"}, {"id": "cpe/0000009", "pred": ""}])
    write(pred / "sce.txt", "no reference\n")
    write(pred / "CPE.txt", "c\n")
    found = read_unimer(gt, pred)
    assert [pair.pred for pair in found.pairs] == ["a", "b", "C"] and not found.missing and not found.notes
    assert found.extra == ("cpe/0000009", "CPE.txt", "sce.txt")
    write(pred / "spe.jsonl", "{}")
    with pytest.raises(InputError, match=r"holds spe\.jsonl and spe\.txt; keep one of them"):
        read_unimer(gt, pred)


@pytest.mark.parametrize(
    ("lines", "preds", "missing", "extra", "told"),
    [
        ("a\n", ["a", ""], ("spe/0000001",), (), "has 1 lines for 2 formulas; the last are scored as empty"),
        ("a\nb\nc\n", ["a", "b"], (), ("spe/0000002",), "has 3 lines for 2 formulas; the last are not scored"),
    ],
)
def test_a_line_too_few_or_too_many_is_told_and_the_rest_is_scored(tmp_path, lines, preds, missing, extra, told):
    write(tmp_path / "gt" / "spe.txt", "a\nb\n")
    write(tmp_path / "pred" / "spe.txt", lines)
    found = read_unimer(tmp_path / "gt", tmp_path / "pred")
    assert [pair.pred for pair in found.pairs] == preds
    assert (found.missing, found.extra) == (missing, extra)
    assert found.notes[0].status == "line_count" and told in found.notes[0].message


def test_faults_of_unimer_are_named(tmp_path):
    gt, pred = tmp_path / "gt", tmp_path / "pred"
    write(gt / "spe.txt", "a\nb\n")
    pred.mkdir()
    with pytest.raises(InputError, match="holds no prediction for"):
        read_unimer(gt, pred)
    (gt / "spe.txt").unlink()
    with pytest.raises(InputError, match=r"holds none of spe\.txt"):
        read_unimer(gt, pred)
    with pytest.raises(InputError, match="nowhere: does not exist"):
        read_unimer(tmp_path / "nowhere", pred)


# Official values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["{}", "[]", '[{"id": "a"}]', "[1]"])
def test_faults_of_official_values_are_named(tmp_path, content):
    with pytest.raises(InputError, match="must hold a list of objects with id, pred"):
        read_golden(write(tmp_path / "golden.json", content), ("pred",))


# What is scored all the same ---------------------------------------------------------------------------


def test_pages_that_share_a_prediction_are_told(tmp_path):
    gt = write(tmp_path / "gt.json", json.dumps([page(image) for image in ("a.png", "x/a.jpg", "b.png", "c.jpg")]))
    for name in ("a.md", "b.md", "c.jpg.md"):
        write(tmp_path / "pred" / name, "x")
    found = read_omnidocbench(gt, tmp_path / "pred")
    assert [(note.id, note.status) for note in found.notes] == [
        ("a.png", "shared_prediction"), ("a.jpg", "shared_prediction"),
    ]  # fmt: skip
    assert "a.md is taken for a.jpg too" in found.notes[0].message
    # The remedy that the note names is one.
    (tmp_path / "pred" / "a.md").unlink()
    for name in ("a.png.md", "a.jpg.md"):
        assert name in found.notes[0].message
        write(tmp_path / "pred" / name, name)
    found = read_omnidocbench(gt, tmp_path / "pred")
    assert [one.markdown for one in found.pages[:2]] == ["a.png.md", "a.jpg.md"] and not found.notes


def test_an_order_that_is_none_is_told_with_its_block(tmp_path):
    blocks = [
        {"category_type": "title", "order": 1}, {"category_type": "header", "order": None},
        {"category_type": "title", "order": float("nan"), "anno_id": 9},
    ]  # fmt: skip
    gt = write(tmp_path / "gt.json", json.dumps([{**page("a.png"), "layout_dets": blocks}]))
    write(tmp_path / "pred" / "a.md", "x")
    (note,) = read_omnidocbench(gt, tmp_path / "pred").notes
    assert (note.id, note.status) == ("a.png", "bad_order")
    assert note.message.startswith("block 3 (anno_id 9): its order ('nan') is no number of a place")


@pytest.mark.parametrize("depth", [99, 100, 900])
def test_json_that_nests_too_deep_is_told(tmp_path, depth):
    nested = "[" * (depth - 1) + "]" * (depth - 1)
    gt = write(tmp_path / "gt.json", '{"a": ' + nested + "}")
    rows = write(tmp_path / "a.jsonl", '{"id": ' + nested + "}\n")
    if depth < 101:
        assert read_json(gt, "x") and list(read_rows(rows, "id"))
        return
    with pytest.raises(InputError, match=r"gt\.json: .*nests deeper than 100 levels"):
        read_json(gt, "x")
    with pytest.raises(InputError, match=r"a\.jsonl, line 1: .*nests deeper than 100 levels"):
        list(read_rows(rows, "id"))
