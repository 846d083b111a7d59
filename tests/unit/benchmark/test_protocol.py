"""What all measurements share: turns, sums over whole passes, counts by hand, shares that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.benchmark.readers import Reader, answer, make_case

from gravityocr.benchmark.protocol import (
    PAPER_LENGTHS,
    SHORT_LENGTHS,
    Measured,
    Reading,
    crop_tables,
    length_name,
    machine,
    measure_crops,
    mode_table,
    summarize,
    take_turns,
)
from gravityocr.benchmark.speed import bench_decode, bench_region, bench_settings, decode_seconds, region_seconds


def test_modes_take_turns_after_a_warm_up_and_another_begins_each_turn() -> None:
    order: list[str] = []

    def read(mode: str) -> Reading:
        order.append(mode)
        return Reading((answer([1, 2]),), float(len(order)), {})

    measured = take_turns({"a": "a", "b": "b"}, 3, read, read)
    assert order == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert measured["a"].seconds == (3.0, 6.0, 7.0) and measured["b"].seconds == (4.0, 5.0, 8.0)
    order.clear()
    assert take_turns({"a": "a"}, 2, read)["a"].seconds == (1.0, 2.0)  # without a warm-up


def test_a_summary_by_hand() -> None:
    ar = [Measured((answer([1, 2, 3]),), (4.0, 2.0, 8.0)), Measured((answer([1, 2, 3, 4], [5]),), (2.0, 6.0, 4.0))]
    fast = replace(answer([1, 2, 3], forwards=1, rounds=1, accepted=1), n_guarded=1)
    other = answer([1, 2, 3, 5], [5], forwards=4, rounds=2, accepted=1, text="b")
    ours = [Measured((fast,), (1.0, 1.0, 2.0)), Measured((other,), (1.0, 3.0, 2.0))]
    row = summarize(ours, ar, counts_first=False)
    # Five tokens behind the first of each piece; passes of 2, 4 and 4 s against 6, 8 and 12 s.
    assert row["n_tokens"] == 5 and row["n_sequences"] == 3 and row["n_crops"] == 2
    assert row["seconds"] == [2.0, 4.0, 4.0] and row["s_per_token"] == 4.0 / 5 and row["tok_per_s"] == 5 / 4.0
    assert row["spread"] == 0.5 and row["x_ar"] == 3.0 and row["x_ar_range"] == [2.0, 3.0]
    assert row["best_s_per_token"] == 2.0 / 5 and row["best_x_ar"] == 4.0 / 2.0
    assert row["tpf"] == 1.0 and row["n_forwards"] == 5 and row["n_accepted"] == 2 / 3
    assert row["identical_to_ar"] == row["identical_strings"] == 0.5 and row["guarded"] == 1 / 8
    assert summarize(ours, ar, counts_first=True)["n_tokens"] == 8
    alone = summarize(ours, None, counts_first=False)
    assert alone["x_ar"] is None and alone["identical_to_ar"] is None and alone["identical_strings"] is None


def test_nothing_to_decode_is_no_division_by_zero() -> None:
    empty = [Measured((answer([1], decode_s=0.0),), (0.0,))]
    row = summarize(empty, empty, counts_first=False)
    assert row["n_tokens"] == 0 and row["tok_per_s"] == row["tpf"] == row["n_accepted"] == 0.0
    assert row["x_ar"] is None and row["best_x_ar"] is None and row["identical_to_ar"] == 1.0


def test_simulated_rows_say_so() -> None:
    one = {"ar": [Measured((answer([1, 2]),), (1.0,))]}
    assert mode_table(one, False, simulated=True)["ar"]["simulated"] is True
    assert "simulated" not in mode_table(one, False)["ar"]


def answers(lengths: Sequence[int]) -> dict[int, object]:
    return {10 + i: answer(range(n)) for i, n in enumerate(lengths)}


def test_kinds_and_lengths_share_out_all_crops(tmp_path: Path) -> None:
    lengths = [2, 31, 32, 64, 127, 128, 511, 512, 1023, 1024, 3000]
    tasks = ["text", "table", "formula"]
    cases = [
        make_case(tmp_path, 10 + i, tasks[i % 3], "$x$" if i == 3 else "a")  # type: ignore[arg-type]
        for i in range(len(lengths))
    ]
    reader = Reader(answers(lengths))  # type: ignore[arg-type]
    run = measure_crops({"ar": reader, "self-spec": reader}, cases, 1, decode_seconds)
    tables = crop_tables(run, counts_first=False)
    n_crops = {key: {g: t["ar"]["n_crops"] for g, t in tables[key].items()} for key in tables if key.startswith("by")}
    assert n_crops["by_kind"] == {"text": 3, "text_with_formula": 1, "table": 4, "formula": 3}
    assert n_crops["by_length"] == {"<128": 5, "128-511": 2, "512-1023": 2, ">=1024": 2}
    assert n_crops["by_length_below_128"] == {"<32": 2, "32-63": 1, "64-127": 2}
    for groups in (tables["by_kind"], tables["by_length"]):
        assert sum(one["self-spec"]["n_tokens"] for one in groups.values()) == tables["modes"]["ar"]["n_tokens"]


def test_lengths_are_the_papers_and_ours_split_its_first() -> None:
    assert [length_name(*one) for one in PAPER_LENGTHS] == ["<128", "128-511", "512-1023", ">=1024"]
    assert SHORT_LENGTHS[0][0] == PAPER_LENGTHS[0][0] and SHORT_LENGTHS[-1][1] == PAPER_LENGTHS[0][1]
    for lengths in (PAPER_LENGTHS, SHORT_LENGTHS):
        assert all(one[1] == other[0] for one, other in zip(lengths, lengths[1:], strict=False))


def test_decode_leaves_out_what_region_holds(tmp_path: Path) -> None:
    crop = make_case(tmp_path, 10).crop()
    reader = Reader({10: answer([1, 2, 3], [4], decode_s=2.0)})
    assert decode_seconds(reader, crop).seconds == 2.0
    region = region_seconds(reader, crop)
    assert set(region.stages) == {"vision", "prefill", "decode", "other"}
    assert sum(region.stages.values()) == pytest.approx(region.seconds)


@pytest.mark.parametrize("bench", [bench_decode, bench_region])
def test_reports_name_their_boundary(tmp_path: Path, bench: object) -> None:
    reader = Reader({10: answer([1, 2, 3])})
    report = bench({"ar": reader, "x": reader}, [make_case(tmp_path, 10)], 2)  # type: ignore[operator]
    assert report["boundary"].startswith(report["bench"]) and report["simulated"] is False
    assert report["repeats"] == 2 and report["n_crops"] == 1 and report["failed"] == []
    assert list(report["modes"]) == ["ar", "x"] and report["modes"]["x"]["identical_to_ar"] == 1.0
    assert len(reader.log) == 2 * 3  # a warm-up and two passes, of either mode


def test_values_of_a_setting_stand_beside_one_ar(tmp_path: Path) -> None:
    ar, four = Reader({10: answer([1, 2, 3])}), Reader({10: answer([1, 2, 3], forwards=2, rounds=1, accepted=1)})
    report = bench_settings("block_size", ar, {4: four}, [make_case(tmp_path, 10)], 1)
    assert report["bench"] == "blocks" and report["setting"] == "block_size"
    assert list(report["values"]) == ["4"] and report["ar"]["tpf"] == 1.0 and report["values"]["4"]["n_accepted"] == 1.0
    assert list(report["by_kind"]["text"]) == ["4"]


def test_the_machine() -> None:
    found = machine("float32", "cpu")
    wanted = {"processor", "accelerator", "n_cores", "threads", "torch", "dtype", "device", "python", "load"}
    assert wanted <= found.keys() and found["processor"] and found["dtype"] == "float32"
