"""Tags as the network writes them: merged, and placed on the rules."""

from __future__ import annotations

import numpy as np

from gravityocr.training.synthetic.shards import RenderedSample
from gravityocr.training.synthetic.table_tags import rule_columns, with_merged_tags


def row(tokens: list[str], rules: list[int]) -> RenderedSample:
    image = np.full((32, 128), 255, dtype=np.uint8)
    image[0], image[-1] = 0, 0
    for x in rules:
        image[:, x : x + 2] = 0
    centers = np.full((len(tokens), 2), np.nan, dtype=np.float32)
    centers[[i for i, token in enumerate(tokens) if len(token) == 1]] = (30.0, 16.0)
    return RenderedSample("table", image, tuple(tokens), centers, "test")


def test_every_rule_is_one_token_in_its_place() -> None:
    sample = row(["<tr>", "<td>", "a", "</td>", "<td>", "</td>", "<td>", "b", "</td>", "</tr>"], [0, 40, 60, 120])
    merged = with_merged_tags(sample)
    assert merged.tokens == ("<tr><td>", "a", "</td><td>", "</td><td>", "b", "</td></tr>")
    assert merged.target == sample.target
    assert merged.centers_px[:, 0].tolist() == [0.5, 30.0, 40.5, 60.5, 30.0, 120.5]


def test_spans_stay_readable_and_unknown_rules_give_no_places() -> None:
    tokens = ["<tr>", "<td", ' colspan="', "2", '"', ">", "a", "</td>"]
    tokens += ["<td", ' rowspan="', "2", '"', ">", "</td>", "</tr>"]
    merged = with_merged_tags(row(tokens, [0, 120]))
    assert merged.target == "".join(tokens)
    assert merged.tokens[0] == "<tr><td" and "</td><td" in merged.tokens and merged.tokens[-1] == "</td></tr>"
    assert np.isnan(merged.centers_px[0]).all()


def test_letters_are_no_rules() -> None:
    image = row([], [50]).image.copy()
    image[4:28, 20:23] = 0
    assert rule_columns(image) == [50.5]
