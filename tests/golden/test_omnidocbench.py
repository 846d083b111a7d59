"""The seven handed pages end to end against the official scorer, for both sets of predictions."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from tests.tex_tools import needs_tex

from gravityocr.metrics.cdm import CdmConfig, CdmScorer
from gravityocr.metrics.omnidocbench_summary import (
    MODES,
    Record,
    add_cdm,
    differences,
    formula_pairs,
    page_record,
    summarize,
)

RUNS = ("demo", "gtmd")
AXES = {
    "text_edit": "text_block_Edit_dist",
    "teds": "table_TEDS",
    "teds_struct": "table_TEDS_structure_only",
    "order_edit": "reading_order_Edit_dist",
}
PER_PAGE = {
    "text_edit": "text_block_edit",
    "order_edit": "reading_order_edit",
    "teds": "table_TEDS",
    "teds_struct": "table_TEDS_S",
}


@pytest.fixture(scope="module")
def golden(cases_dir) -> dict:
    return json.loads((cases_dir / "golden" / "golden_e2e_handed.json").read_text(encoding="utf-8"))["runs"]


@pytest.fixture(scope="module")
def records(cases_dir) -> dict[str, list[Record]]:
    folder = cases_dir / "golden" / "e2e"
    pages = json.loads((folder / "gt.json").read_text(encoding="utf-8"))

    def printed(page: dict, run: str) -> str:
        name = page["page_info"]["image_path"].rsplit(".", 1)[0]
        return (folder / f"pred_{run}" / f"{name}.md").read_text(encoding="utf-8")

    return {run: [page_record(page, printed(page, run)) for page in pages] for run in RUNS}


@pytest.mark.parametrize("run", RUNS)
def test_axes_are_the_official_ones(records, golden, run: str) -> None:
    summary = summarize(records[run], "official")
    for axis, name in AXES.items():
        official = golden[run]["summary"]["metrics"][name]
        assert summary[axis] == pytest.approx(official["raw"], abs=1e-6), axis
        assert summary["n_pages_by_axis"][axis] == official["page_denominator"], axis


@pytest.mark.parametrize("run", RUNS)
def test_every_page_has_the_official_values(records, golden, run: str) -> None:
    assert len(records[run]) == 7
    for record in records[run]:
        official = golden[run]["per_page"][record["image_name"]]
        page = record["modes"]["official"]
        for axis, name in PER_PAGE.items():
            if name in official:
                assert page[axis] == pytest.approx(official[name], abs=1e-6), (record["image_name"], axis)
            else:
                assert page[axis] is None, (record["image_name"], axis)


@pytest.mark.parametrize("run", RUNS)
def test_every_text_pair_is_the_official_one(records, golden, run: str) -> None:
    samples = golden[run]["samples"]["text_block"]
    for record in records[run]:
        of_page = [one for one in samples if one["img_id"] == record["image_name"]]
        texts = record["modes"]["official"]["texts"]
        assert sorted((sample["gt"], sample["edit"]["ref"], sample["edit"]["pred"]) for sample in texts) == sorted(
            (tuple(one["gt_idx"]), one["norm_gt"] or one["gt"], one["norm_pred"] or one["pred"]) for one in of_page
        ), record["image_name"]


@pytest.mark.parametrize("run", RUNS)
def test_cdm_gets_the_official_pairs(records, golden, run: str) -> None:
    samples = golden[run]["samples"]["display_formula"]
    found = [
        (record["image_name"], sample["ref"], sample["preds"][0])
        for record in records[run]
        for sample in record["modes"]["official"]["formulas"]
    ]
    assert sorted(found) == sorted((one["img_id"], one["gt_cdm"], one["pred_cdm"]) for one in samples)
    assert len(found) == 10


def test_our_scores_differ_for_named_reasons_only(records) -> None:
    for run in RUNS:
        official, ours = (summarize(records[run], mode) for mode in MODES)
        named = {axis for one in differences(records[run]) for axis in one["effect"]}
        assert {axis for axis in AXES if abs(official[axis] - ours[axis]) > 1e-9} <= named, run
    perfect = summarize(records["gtmd"], MODES[1])
    assert [perfect[axis] for axis in AXES] == [0.0, 1.0, 1.0, 0.0]


@needs_tex
def test_overall_is_the_official_one(records, golden, tmp_path) -> None:
    pairs = list(dict.fromkeys(pair for run in RUNS for pair in formula_pairs(records[run])))
    with CdmScorer(CdmConfig(cache_folder=str(tmp_path))) as scorer:
        scores = dict(zip(pairs, map(asdict, scorer.score(pairs)), strict=True))
    for run in RUNS:
        # Entering CDM changes the records, which other tests share.
        scored = json.loads(json.dumps(records[run]))
        add_cdm(scored, scores)
        summary, official = summarize(scored, "official"), golden[run]["summary"]
        assert summary["cdm"] == pytest.approx(official["metrics"]["display_formula_CDM"]["raw"], abs=0.005), run
        assert summary["overall"] == pytest.approx(official["overall_notebook"], abs=0.05), run
