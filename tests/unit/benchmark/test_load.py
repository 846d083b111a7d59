"""Queues and regions at once: filled as promised, compared with AR, failures listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from tests.unit.benchmark.readers import Reader, answer, make_case

from gravityocr.benchmark.cases import Case
from gravityocr.benchmark.load import FILL, OneRegionAtATime, bench_batch, bench_concurrency
from gravityocr.benchmark.pages import Parts
from gravityocr.document import Box, Recognition
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.layout import LayoutBox


def readers(n_pieces: int = 2) -> dict[str, Reader]:
    pieces = [[1, 2, 3]] * n_pieces
    return {
        "ar": Reader({10: answer(*pieces, decode_s=4.0)}),
        "self-spec": Reader({10: answer(*pieces, forwards=n_pieces, rounds=n_pieces, accepted=n_pieces)}),
    }


def test_the_queue_is_filled_for_the_largest_size(tmp_path: Path) -> None:
    sizes = {1: readers(), 4: readers()}
    ticks: list[int] = []
    report = bench_batch(sizes, [make_case(tmp_path, 10)], 3, ticks.append)
    # 16 sequences for 4 running ones, the crop has two: 8 crops a call, at every size; as many as run to warm up.
    assert report["n_sequences"] == FILL * 4 and report["n_crops"] == 8 and ticks == [0, 1]
    assert sizes[1]["self-spec"].log == [1] + [8] * 3 and sizes[4]["ar"].log == [1] + [4] + [8] * 3
    assert list(report["sizes"]) == ["1", "4"]
    for row in report["sizes"].values():
        assert {"ar_tok_per_s", "self_spec_tok_per_s", "ratio"} <= row.keys()
        assert row["ar_tok_per_s"] == 32 / 32.0 and row["self_spec_tok_per_s"] == 32 / 8.0 and row["ratio"] == 4.0
        assert row["mode"] == "self-spec" and row["modes"]["self-spec"]["tpf"] == 2.0


def test_a_long_list_of_cases_is_sampled_all_over(tmp_path: Path) -> None:
    cases = [make_case(tmp_path, width) for width in range(10, 50)]
    reader = Reader({width: answer([width, 1]) for width in range(10, 50)})
    report = bench_batch({2: {"ar": reader, "x": reader}}, cases, 1)
    assert report["n_crops"] == report["n_sequences"] == FILL * 2
    widths = sorted(reader.seen)
    assert widths[0] < 16 and widths[-1] > 44 and max(b - a for a, b in zip(widths, widths[1:], strict=False)) < 10


def test_unreadable_crops_are_left_out_of_the_queue(tmp_path: Path) -> None:
    good, gone = make_case(tmp_path, 10), Case(tmp_path / "gone.png", "text", "english", "a")
    bad = {11: Recognition("", "failed", "why")}
    modes = {name: Reader({**reader.answers, **bad}) for name, reader in readers().items()}
    report = bench_batch({2: modes}, [gone, make_case(tmp_path, 11), good], 1)
    assert [Path(one["file"]).name for one in report["failed"]] == ["gone.png", "11.png"]
    assert report["n_crops"] == 4
    with pytest.raises(InputError, match=r"none of 1 crops.*gone\.png"):
        bench_batch({2: modes}, [gone], 1)


@pytest.mark.parametrize("names", [["ar"], ["self-spec"], ["self-spec", "fused"]])
def test_a_batch_wants_ar_and_another(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(ConfigError, match="--modes"):
        bench_batch({1: dict.fromkeys(names, readers()["ar"])}, [make_case(tmp_path, 10)], 1)


class TwoColumns:
    """A detector of two regions side by side."""

    def detect(self, image: Image.Image) -> list[LayoutBox]:
        boxes = [Box(10, 10, 90, 190), Box(110, 10, 190, 190)]
        return [LayoutBox(box, "text", "text", 0.9) for box in boxes]


def page_file(folder: Path) -> Path:
    image = Image.new("RGB", (200, 200), "white")
    for x in (20, 120):
        image.paste("black", (x, 20, x + 60, 180))
    image.save(folder / "page.png")
    return folder / "page.png"


class AnyWidth(Reader):
    """A reader that answers every crop alike."""

    def recognize(self, crops: list) -> list[Recognition]:  # type: ignore[type-arg]
        self.log.append(len(crops))
        return [self.answers[0] for _ in crops]


def test_regions_one_by_one_and_together(tmp_path: Path) -> None:
    fast = answer([1, 2, 3], forwards=1, rounds=1)
    modes = {"ar": AnyWidth({0: answer([1, 2, 3])}), "self-spec": AnyWidth({0: fast})}
    gone = tmp_path / "gone.png"
    report = bench_concurrency(modes, [page_file(tmp_path), gone], 2, Parts(TwoColumns()))
    assert modes["ar"].log.count(2) == 3 and modes["ar"].log.count(1) == 6  # a warm-up and two passes each way
    assert report["n_pages"] == 1 and [one["file"] for one in report["failed"]] == [str(gone)]
    assert set(report["regions"]) == {"one by one", "together"}
    for rows in report["regions"].values():
        assert list(rows) == ["ar", "self-spec"] and all(row["pages_per_s"] > 0 for row in rows.values())
        assert all(row["identical_to_ar"] == 1.0 and row["n_sequences"] == 2 for row in rows.values())
    assert report["ratios"]["one by one"]["ar"] == report["ratios"]["together"]["ar"] == 1.0
    assert set(report["ratios"]["together / one by one"]) == {"ar", "self-spec"}


def test_nothing_read_is_a_report_too(tmp_path: Path) -> None:
    report = bench_concurrency(readers(), [tmp_path / "gone.png"], 1, Parts(TwoColumns()))
    assert report["n_pages"] == 0 and report["regions"] == {} and len(report["failed"]) == 1


def test_one_region_at_a_time_keeps_the_order(tmp_path: Path) -> None:
    reader = Reader({10: answer([1, 2]), 11: answer([3, 4])})
    crops = [make_case(tmp_path, width).crop() for width in (11, 10, 11)]
    alone = OneRegionAtATime(reader)
    assert [one.ids for one in alone.recognize(crops)] == [((3, 4),), ((1, 2),), ((3, 4),)]
    assert reader.log == [1, 1, 1] and alone.tasks == reader.tasks
