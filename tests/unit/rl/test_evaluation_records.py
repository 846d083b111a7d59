"""The figures of an evaluation by hand, and its records on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gravityocr.errors import InputError
from gravityocr.rl.evaluation_records import (
    RegionRecord,
    best_step,
    quality,
    read_records,
    record_file,
    record_steps,
    summarize,
    tpf_fall,
    write_records,
)

TEXT = RegionRecord("t", "text", "text", "ab", "ab", reward=0.9, ned=0.1, ned_plain=0.2, n_tokens=11, n_decoded=10,
                    n_forwards=5, n_rounds=2, n_accepted=6)  # fmt: skip
TABLE = RegionRecord("w", "whole_table", "table", "x", "y", "truncated", reward=0.5, teds=0.6, teds_struct=0.8, ned=0.3,
                     ned_plain=0.4, n_tokens=104, n_decoded=100, n_forwards=20, n_rounds=8, n_accepted=90)  # fmt: skip
FAILED = RegionRecord("f", "text", "text", "ab", status="failed", error="broken")
FORMULA = RegionRecord("m", "formula", "formula", "x", "x", reward=1.0, ned=0.25, ned_plain=0.5)


def test_ratios_are_sums_over_sums_and_what_failed_is_left_out_of_the_means() -> None:
    summary = summarize([TABLE, TEXT, FAILED])
    assert [*summary["kinds"]] == ["text", "whole_table"]
    text, everything = summary["kinds"]["text"], summary["all"]
    assert (text["n"], text["n_failed"], text["reward"], text["tpf"], text["accepted"]) == (2, 1, 0.9, 2.0, 3.0)
    assert "teds" not in text
    assert everything["tpf"] == 110 / 25  # and not the mean of 2 and 5
    assert everything["accepted"] == 9.6
    assert everything["reward"] == pytest.approx(0.7)
    assert everything["n_truncated"] == 1


def test_quality_is_the_mean_over_kinds_each_by_its_own_score() -> None:
    assert quality(summarize([TEXT, TEXT, TABLE])) == pytest.approx((0.8 + 0.6) / 2)
    assert quality(summarize([TEXT, TABLE, FORMULA])) == pytest.approx((0.8 + 0.6 + 0.75) / 3)
    assert quality(summarize([TEXT, TABLE, replace(FORMULA, cdm=0.9)])) == pytest.approx((0.8 + 0.6 + 0.9) / 3)
    assert quality(summarize([FAILED])) == 0.0
    assert summarize([TEXT])["quality"] == pytest.approx(0.8)


def test_a_fall_of_tpf_is_positive_and_a_rise_negative() -> None:
    before, now = summarize([TEXT]), summarize([replace(TEXT, n_forwards=8)])
    assert tpf_fall(before, now) == pytest.approx(1 - 5 / 8)
    assert tpf_fall(now, before) == pytest.approx(1 - 8 / 5)
    assert tpf_fall(before, before) == 0.0
    assert tpf_fall(before, summarize([FAILED])) == 0.0


def test_the_best_step_is_the_earliest_of_the_highest_quality() -> None:
    assert best_step({100: 0.5, 0: 0.4, 50: 0.5}) == 50
    assert best_step({0: 0.4, 50: 0.3}) == 0


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    file = record_file(tmp_path, 50)
    odd = replace(TEXT, region_id="odd", pred="half \ud800 pair\nand\u2028lines", identical=True)
    write_records(file, [TEXT, TABLE, FAILED, odd])
    assert file.name == "step-00050.jsonl"
    assert read_records(file) == [TEXT, TABLE, FAILED, odd]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_steps_come_in_order_and_strangers_are_named(tmp_path: Path) -> None:
    for step in (100, 0, 123456):
        write_records(record_file(tmp_path, step), [TEXT])
    assert record_steps(tmp_path) == [0, 100, 123456]
    write_records(tmp_path / "evaluations" / "step-best.jsonl", [TEXT])
    with pytest.raises(InputError, match=r"step-best\.jsonl"):
        record_steps(tmp_path)
    with pytest.raises(InputError, match=r"no step-\*\.jsonl"):
        record_steps(tmp_path / "nowhere")


def line(**changes: Any) -> str:
    row = {"region_id": "a", "kind": "text", "task": "text", "ref": "x", **changes}
    return json.dumps(row)


@pytest.mark.parametrize(
    "text",
    [
        line()[:-4],
        "[]",
        line(reward="high"),
        line(reward=float("nan")),
        line(n_tokens=-1),
        line(pred=None),
        line(teds=True),
        json.dumps({"region_id": "a"}),
    ],
)
def test_a_torn_or_strange_line_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "step-00000.jsonl"
    file.write_text(f"{line()}\n{text}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"step-00000\.jsonl: line 2 is no record"):
        read_records(file)


def test_a_missing_or_empty_file_is_named_and_fields_of_later_versions_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "step-00000.jsonl"
    with pytest.raises(InputError, match=r"step-00000\.jsonl: cannot be read"):
        read_records(file)
    file.write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="holds no record"):
        read_records(file)
    file.write_text(line(later=1) + "\n", encoding="utf-8")
    assert read_records(file) == [RegionRecord("a", "text", "text", "x")]
