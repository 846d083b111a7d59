"""Bootstrap intervals: what they cover, what they leave alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gravityocr.errors import ConfigError
from gravityocr.metrics.runs.confidence import BootstrapConfig, Interval, axis_intervals, mean_interval, ratio_interval


def test_the_mean_of_equal_values_is_certain():
    assert mean_interval([0.25] * 9) == Interval(0.25, 0.25, 0.25, 9)


def test_one_value_and_none():
    assert mean_interval([0.5]) == Interval(0.5, None, None, 1)
    assert mean_interval([0.5]).bounds is None
    assert mean_interval([]) is None
    assert ratio_interval([1.0], [0.0]) is None


def test_the_interval_is_that_of_the_normal_law_for_many_values():
    values = np.random.default_rng(1).normal(0.6, 0.2, 400)
    found = mean_interval(list(values))
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_it_covers_the_truth_as_often_as_it_says():
    random = np.random.default_rng(7)
    config = BootstrapConfig(n_draws=400)
    hits = 0
    for _ in range(200):
        found = mean_interval(list(random.uniform(0, 1, 60)), config=config)
        hits += found.low <= 0.5 <= found.high
    assert 180 <= hits <= 199


def test_the_seed_decides():
    values = list(np.random.default_rng(0).uniform(size=30))
    one = mean_interval(values, config=BootstrapConfig(seed=3))
    assert one == mean_interval(values, config=BootstrapConfig(seed=3))
    assert one != mean_interval(values, config=BootstrapConfig(seed=4))


def test_values_of_one_page_are_drawn_together():
    values = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0] * 10
    pages = [index // 3 for index in range(60)]
    alone, together = mean_interval(values), mean_interval(values, pages)
    assert together.value == alone.value == 0.5
    assert (alone.n, together.n) == (60, 20)
    assert together.high - together.low > 1.4 * (alone.high - alone.low)


def test_a_ratio_weighs_pages_by_their_length():
    found = ratio_interval([9.0, 0.0], [90.0, 10.0])
    assert found.value == pytest.approx(0.09)
    assert found.low == 0.0 and found.high == pytest.approx(0.1)


def test_pages_without_length_count_for_nothing():
    found = ratio_interval([1.0, 0.0, 0.0], [4.0, 0.0, 0.0])
    assert found == Interval(0.25, None, None, 1)


def test_numerators_and_denominators_belong_together():
    with pytest.raises(ValueError, match="one of each a page"):
        ratio_interval([1.0], [1.0, 2.0])


def test_axes_leave_pages_out_and_share_their_draws():
    axes = {"text": [0.1, 0.3, 0.2, 0.4], "table": [math.nan, 0.8, math.nan, 0.6], "formula": [math.nan] * 4}

    def overall(means):
        return 100 * ((1 - means["text"]) + means["table"]) / 2

    found = axis_intervals(axes, overall)
    assert set(found) == {"text", "table", "overall"}
    assert found["text"].value == pytest.approx(0.25) and found["text"].n == 4
    assert found["table"].value == pytest.approx(0.7) and found["table"].n == 2
    assert found["overall"].value == pytest.approx(72.5)
    # text and table rise and fall on the same pages, so their difference varies less than either alone would have it
    assert found["overall"].high - found["overall"].low < 50 * (0.2 + 0.3)


def test_overall_has_no_interval_where_an_axis_rests_on_one_page():
    found = axis_intervals(
        {"a": [0.1, 0.2, 0.3], "b": [math.nan, 0.5, math.nan]}, lambda means: means["a"] + means["b"]
    )
    assert found["b"].bounds is None and found["a"].bounds is not None
    assert found["overall"].bounds is None and found["overall"].n == 3
    assert found["overall"].value == pytest.approx(0.7)


@pytest.mark.parametrize(("n", "told"), [(1, "no interval"), (2, "rough guide"), (29, "rough guide"), (30, None)])
def test_few_pages_are_told(n, told):
    caution = mean_interval([0.1 * (k % 3) for k in range(n)]).caution
    assert (caution is None) == (told is None) and (told or "") in (caution or "")


def test_overall_is_absent_where_an_axis_is():
    found = axis_intervals({"a": [1.0], "b": [math.nan]}, lambda means: means["a"] + means["b"])
    assert set(found) == {"a"}


def test_axes_have_one_number_a_page():
    with pytest.raises(ValueError, match="one number a page"):
        axis_intervals({"a": [1.0], "b": [1.0, 2.0]})


def test_many_pages_are_drawn_in_parts(monkeypatch):
    values = list(np.random.default_rng(0).uniform(size=50))
    whole = mean_interval(values)
    monkeypatch.setattr("gravityocr.metrics.runs.confidence._CHUNK", 777)
    parts = mean_interval(values)
    assert parts.low == pytest.approx(whole.low, abs=0.02) and parts.high == pytest.approx(whole.high, abs=0.02)


@pytest.mark.parametrize("options", [{"n_draws": 0}, {"level": 0.0}, {"level": 1.0}])
def test_the_configuration_is_checked(options):
    with pytest.raises(ConfigError):
        BootstrapConfig(**options)
