"""Settings without effect: they are left out of what is printed, named, and what is left can be loaded."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from gravityocr.config import dump_config
from gravityocr.training.effective_settings import effective_toml, without_effect
from gravityocr.training.run_config import TrainConfig


def left_out(**settings: Any) -> set[str]:
    return {name for names in without_effect(settings).values() for name in names}


@pytest.mark.parametrize(
    ("settings", "gone", "stays"),
    [
        ({"train": {"base": "nano"}}, {"network", "train.tasks"}, {"data.folder"}),
        ({"train": {"base": "none"}}, {"packing"}, {"network", "train.tasks"}),
        (
            {"data": {"pool": "sample"}},
            {"data.folder", "data.crops", "validation.shards", "train.n_samples"},
            {"packing"},
        ),
        ({}, {"glyphs", "noise.all_share"}, {"train.steps"}),
        ({"glyphs": {"index_weight": 0.5}}, set(), {"glyphs"}),
        ({"noise": {"mask_schedule": "mixed"}}, set(), {"noise.all_share"}),
        ({"train": {"budget_s": 5.0}}, {"train.steps"}, set()),
    ],
)
def test_what_has_no_effect(settings: dict[str, Any], gone: set[str], stays: set[str]) -> None:
    found = left_out(**settings)
    assert gone <= found and not stays & found


def test_what_is_left_keeps_its_values() -> None:
    text = dump_config(TrainConfig())
    before, after = tomllib.loads(text), tomllib.loads(effective_toml(text))
    assert after.keys() == before.keys() - {"packing", "glyphs"}
    for name, section in after.items():
        expected = {key: value for key, value in before[name].items() if (name, key) != ("noise", "all_share")}
        assert section == expected
    assert after["network"]["vision"] == before["network"]["vision"]


def test_one_line_names_what_is_left_out() -> None:
    text = effective_toml(
        '[train]\nbase = "nano"\n\n[network.text]\nvocab_size = 3\n\n[network]\nx = 1\n[data]\npool = "p"\n'
    )
    kept, _, told = text.partition("\n# ")
    assert kept == '[train]\nbase = "nano"\n\n[data]\npool = "p"'
    assert told.count("\n") == 1 and "network, train.tasks (train.base has its own)" in told and "data.folder" in told
