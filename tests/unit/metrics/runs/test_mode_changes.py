"""The rows from the official figures to ours add up, Overall included."""

from __future__ import annotations

import pytest

from gravityocr.metrics.omnidocbench_summary import overall
from gravityocr.metrics.runs.mode_changes import interaction, mode_rows

OFFICIAL = {"text_edit": 0.2, "cdm": 0.8, "teds": 0.5, "order_edit": 0.1}
OURS = {"text_edit": 0.25, "cdm": 0.75, "teds": 0.7, "order_edit": 0.1}
FOUND = [
    {"fault": "one", "official": "does one", "n_pages": 2, "pages": ["a", "b"], "effect": {"text_edit": 0.08}},
    {"fault": "two", "official": "does two", "n_pages": 31, "pages": list("abcdefgh"), "effect": {"teds": 0.2}},
]


def test_changes_add_up():
    official, ours = ({**axes, "overall": overall(axes)} for axes in (OFFICIAL, OURS))
    rows = mode_rows(official, ours, FOUND)
    assert [row.label for row in rows] == ["official", "does one", "does two", "interaction of faults", "ours"]
    for axis, value in ours.items():
        assert sum(row.values[axis] for row in rows[:-1]) == pytest.approx(value)
    assert rows[1].values["overall"] == pytest.approx(-0.08 * 100 / 3)
    assert rows[3].values["order_edit"] == 0.0 and rows[3].values["teds"] == 0.0
    assert rows[1].detail == "one: a, b" and rows[2].detail == "two: a, b, c, d, e, … 26 more"


def test_axes_that_a_mode_lacks_are_left_out():
    rows = mode_rows({**OFFICIAL, "cdm": None}, {**OURS, "teds": None}, FOUND)
    assert set(rows[0].values) == set(rows[3].values) == {"text_edit", "order_edit"}
    assert set(interaction({"teds": None}, {"teds": 0.5}, [])) == set()


def test_without_faults_there_is_no_interaction():
    assert [row.label for row in mode_rows(OFFICIAL, OFFICIAL, [])] == ["official", "ours"]
