"""The rules that turn raw detections into regions, by hand and against definitions written out in loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gravityocr.config import dump_config, load_config
from gravityocr.errors import ConfigError
from gravityocr.pipeline.layout_v3_config import V3_LABELS, V3Config, class_names
from gravityocr.pipeline.layout_v3_rules import Detections, contained, settle, stretched

NAMES = tuple(V3_LABELS)
SIZE = (1000, 1000)
Row = tuple[str, float, tuple[float, float, float, float]]


def detections(*rows: Row) -> Detections:
    """Build detections whose order is that of the rows and whose query is their place."""
    places = np.arange(len(rows))
    return Detections(
        np.array([NAMES.index(name) for name, _, _ in rows], dtype=np.int64),
        np.array([score for _, score, _ in rows], dtype=np.float64),
        np.array([box for _, _, box in rows], dtype=np.float64).reshape(-1, 4),
        places, places,
    )  # fmt: skip


def kept(rows: list[Row], size_px: tuple[int, int] = SIZE, **config: Any) -> list[int]:
    return settle(detections(*rows), NAMES, size_px, V3Config(**config)).queries.tolist()


def test_nothing_found_is_nothing() -> None:
    assert kept([]) == [] and kept([("text", 0.1, (0, 0, 10, 10))]) == []


def test_thresholds_by_class() -> None:
    rows: list[Row] = [
        ("text", 0.35, (0, 0, 100, 100)), ("text", 0.29, (0, 200, 100, 300)), ("table", 0.35, (0, 400, 100, 500)),
    ]  # fmt: skip
    assert kept(rows) == [0, 2]
    assert kept(rows, threshold_by_class={"table": 0.4, "text": 0.25}) == [0, 1]


def test_boxes_that_are_no_numbers_go() -> None:
    assert kept([("text", 0.9, (0, 0, float("nan"), 10)), ("text", 0.9, (0, 20, 10, 30))]) == [1]


def test_suppression_knows_the_class() -> None:
    # IoU of 100 x 100 px boxes that are 20 px apart, the last pixel counted: 81 * 101 / (2 * 101**2 - 81 * 101) = 0.67
    low, high = (0, 0, 100, 100), (20, 0, 120, 100)
    apart = {"merge": "union", "merge_by_class": {}}
    assert kept([("text", 0.8, low), ("text", 0.9, high)], **apart) == [1]
    assert kept([("text", 0.8, low), ("table", 0.9, high)], **apart) == [0, 1]
    assert kept([("text", 0.8, low), ("text", 0.9, high)], nms_iou_same=0.68, **apart) == [0, 1]
    assert kept([("text", 0.8, low), ("table", 0.9, high)], nms_iou_different=0.66, **apart) == [1]
    assert kept([("text", 0.8, low), ("text", 0.9, high)], nms=False, **apart) == [0, 1]


def loop_suppression(found: Detections, same: float, different: float) -> list[int]:
    """Suppress as the definition says: of each pair that is too alike, the less sure goes if the other stays."""
    order = sorted(range(len(found)), key=lambda k: -found.scores[k])
    stays: list[int] = []
    for k in order:
        clear = True
        for other in stays:
            a, b = found.boxes[k], found.boxes[other]
            width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]) + 1)
            height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]) + 1)
            areas = [(c[2] - c[0] + 1) * (c[3] - c[1] + 1) for c in (a, b)]
            iou = width * height / (sum(areas) - width * height)
            clear &= iou < (same if found.class_ids[k] == found.class_ids[other] else different)
        if clear:
            stays.append(k)
    return sorted(stays)


def crowd(seed: int, n: int = 40) -> Detections:
    rng = np.random.default_rng(seed)
    corner, sides = rng.uniform(0, 300, (n, 2)), rng.uniform(20, 260, (n, 2))
    class_ids = rng.choice([NAMES.index(name) for name in ("text", "table", "image", "figure_title")], n)
    return Detections(
        class_ids, rng.permutation(np.linspace(0.31, 0.99, n)), np.concatenate([corner, corner + sides], axis=1),
        rng.permutation(n), np.arange(n),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_suppression_against_loops(seed: int) -> None:
    found = crowd(seed)
    config = V3Config(merge="union", merge_by_class={}, nms_iou_same=0.3, nms_iou_different=0.5)
    settled = settle(found, NAMES, SIZE, config)
    assert sorted(settled.queries.tolist()) == loop_suppression(found, 0.3, 0.5)
    assert settled.orders.tolist() == sorted(settled.orders.tolist())


def test_an_image_of_the_whole_page_goes_if_others_stay() -> None:
    whole: Row = ("image", 0.9, (-10, 0, 1000, 935))
    text: Row = ("text", 0.8, (100, 100, 300, 200))
    assert kept([whole]) == [0]
    assert kept([whole, text]) == [1]
    assert kept([("image", 0.9, (0, 0, 1000, 929)), text]) == [0]  # below the limit, and around the text
    wide: Row = ("image", 0.9, (0, 0, 1000, 415))
    assert kept([wide, text], (1000, 500)) == [1]  # 83 % of a page wider than high, but not of an upright one
    assert kept([("image", 0.9, (0, 0, 500, 830)), text], (500, 1000)) == [0]
    assert kept([("image", 0.9, (0, 0, 1000, 405)), text], (1000, 500)) == [0]
    assert kept([("table", 0.9, (0, 0, 1000, 1000)), text]) == [0]


def test_the_outer_box_stays_or_the_inner_one() -> None:
    rows: list[Row] = [("text", 0.7, (0, 0, 500, 500)), ("display_formula", 0.9, (100, 100, 300, 200))]
    assert kept(rows) == [0]
    assert kept(rows, merge="small", merge_by_class={}) == [1]
    assert kept(rows, merge="union", merge_by_class={}) == [0, 1]
    assert kept(rows, merge_by_class={"display_formula": "small", "text": "union"}) == [1]
    sticking_out: Row = ("display_formula", 0.9, (440, 100, 540, 200))  # 60 % inside
    assert kept([rows[0], sticking_out]) == [0, 1]
    assert kept([rows[0], sticking_out], contained_share=0.6) == [0]


def test_pictures_in_text_stay_and_text_in_pictures_goes() -> None:
    for native in ("image", "seal", "chart"):
        assert kept([("text", 0.7, (0, 0, 500, 500)), (native, 0.9, (100, 100, 300, 200))]) == [0, 1]
        assert kept([(native, 0.7, (0, 0, 500, 500)), ("text", 0.9, (100, 100, 300, 200))]) == [0]


def test_of_two_boxes_in_each_other_the_surer_stays() -> None:
    twins: list[Row] = [("text", 0.7, (0, 0, 100, 100)), ("table", 0.9, (0, 0, 102, 104))]
    assert kept(twins) == [1]  # the GLM-OCR SDK keeps neither
    assert kept(twins[::-1]) == [0]


def test_a_box_comes_back_where_the_one_around_it_goes() -> None:
    rows: list[Row] = [
        ("text", 0.5, (0, 0, 100, 20)),  # in the text below, which goes for the surer table
        ("text", 0.7, (0, 0, 100, 100)),
        ("table", 0.9, (0, 18, 102, 102)),
    ]
    assert kept(rows) == [0, 2]


@pytest.mark.parametrize("seed", range(12))
def test_what_goes_lies_by_half_in_what_stays(seed: int) -> None:
    found = crowd(100 + seed)
    config = V3Config(nms=False, merge_by_class={})
    stays = set(settle(found, NAMES, SIZE, config).queries.tolist())
    inside, half = contained(found.boxes, config.contained_share), contained(found.boxes, 0.5)
    for place in set(range(len(found))) - stays:
        assert any(half[place][other] for other in stays), place
        assert NAMES[found.class_ids[place]] != "image"
    for place in stays:  # and no box that stays lies in another, but pictures and those taken back
        around = [other for other in stays if inside[place][other] and not inside[other][place]]
        assert not around or NAMES[found.class_ids[place]] == "image"


@pytest.mark.parametrize("seed", range(60))
def test_merging_against_loops(seed: int) -> None:
    found = crowd(200 + seed, 25)
    modes = {"text": "large", "table": "small", "image": "union", "figure_title": "large"}
    config = V3Config(nms=False, merge_by_class=modes)
    names = [NAMES[class_id] for class_id in found.class_ids]
    inside = contained(found.boxes, 0.8)
    pairs = [(i, j) for i in range(25) for j in range(25) if inside[i][j] and names[i] != "image"]
    pairs = [(i, j) for i, j in pairs if (j, i) not in pairs or found.scores[i] < found.scores[j]]
    gone: dict[int, set[int]] = {}
    for i, j in pairs:
        if modes[names[j]] == "large":
            gone.setdefault(i, set()).add(j)
        lies_itself = names[j] == "table" and any(first == j for first, _ in pairs)
        if modes[names[i]] == "small" and not lies_itself:
            gone.setdefault(j, set()).add(i)
    stays = set(settle(found, NAMES, SIZE, config).queries.tolist())
    assert gone and set(range(25)) - set(gone) <= stays
    half = contained(found.boxes, 0.5)
    for place in set(gone) & stays:  # taken back: all that it would have gone for went too
        assert not gone[place] & stays and not half[place][sorted(stays)].any()


def test_containment_by_hand() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 8, 10], [5, 0, 15, 10], [3, 3, 3, 9]], dtype=np.float64)
    assert np.argwhere(contained(boxes, 0.8)).tolist() == [[0, 1], [1, 0]]
    assert np.argwhere(contained(boxes, 0.5)).tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]


def test_inline_formulas_are_part_of_their_text() -> None:
    text: Row = ("text", 0.7, (0, 0, 500, 100))
    for mode in ("large", "union"):
        assert kept([text, ("inline_formula", 0.9, (100, 40, 200, 60))], merge=mode, merge_by_class={}) == [0]
    assert kept([text, ("inline_formula", 0.9, (600, 40, 700, 60))]) == [0, 1]


def test_references_are_read_once() -> None:
    rows: list[Row] = [
        ("reference", 0.9, (0, 0, 500, 500)),
        ("reference_content", 0.8, (10, 10, 490, 100)),
        ("reference_content", 0.8, (10, 110, 490, 200)),
    ]
    assert kept(rows) == [1, 2]
    assert kept(rows[:1]) == [0]
    assert kept([rows[0], ("text", 0.8, (10, 10, 490, 100))]) == [0, 1]  # the SDK's reference removes nothing


def test_the_order_is_the_networks() -> None:
    found = detections(*[("text", 0.9, (0, 100 * k, 100, 100 * k + 50)) for k in range(4)])
    shuffled = Detections(found.class_ids, found.scores, found.boxes, np.array([7, 2, 9, 0]), found.queries)
    assert settle(shuffled, NAMES, SIZE, V3Config()).queries.tolist() == [3, 1, 0, 2]


def test_a_box_is_stretched_around_its_centre() -> None:
    assert stretched(np.array([100.0, 100, 200, 140]), (1.1, 2.0)).tolist() == pytest.approx([95, 80, 205, 160])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 0.0), ("mask_threshold", 1.0), ("threshold_by_class", {"text": 1.5}), ("nms_iou_same", 0.0),
        ("nms_iou_different", 1.2), ("whole_page_image", 2.0), ("contained_share", -1.0), ("merge", "biggest"),
        ("merge_by_class", {"text": "biggest"}), ("unclip", (1.0, 9.0)), ("unclip_by_class", {"text": (0.0, 1.0)}),
    ],
)  # fmt: skip
def test_config_is_checked(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"v3.{field}"):
        V3Config(**{field: value})


def test_config_knows_the_classes() -> None:
    with pytest.raises(ConfigError, match=r"layout_v3.threshold_by_class: .*'tables'; did you mean table\?"):
        V3Config(threshold_by_class={"tables": 0.5})


def test_config_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "v3.toml"
    file.write_text(
        "threshold = 0.4\n[threshold_by_class]\ntable = 0.5\n[merge_by_class]\ntext = 'union'\n"
        "[unclip_by_class]\nseal = [1.1, 1.2]\n"
    )
    config = load_config(V3Config, file)
    assert config.threshold_of("table") == 0.5 and config.threshold_of("text") == 0.4
    assert config.merge_of("reference") == "small" and config.merge_of("text") == "union"
    assert config.unclip_of("seal") == (1.1, 1.2) and config.unclip_of("text") == (1.0, 1.0)
    file.write_text(dump_config(config))
    assert load_config(V3Config, file) == config


def test_classes_of_a_checkpoint() -> None:
    assert class_names(["text", "table"], "here") == ("text", "table")
    with pytest.raises(ConfigError, match=r"here: classes \['LABEL_0'\]"):
        class_names(["LABEL_0", "text"], "here")
    with pytest.raises(ConfigError, match="here"):
        class_names([], "here")
