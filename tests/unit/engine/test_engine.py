"""The engine over hostile text layers, crops that fail on the way, and settings that are none."""

from __future__ import annotations

import math

import pytest
from tests.integration.test_shipped_checkpoint import CROPS

from gravityocr.benchmark.cases import load_cases
from gravityocr.document import Box, Crop, PlacedText
from gravityocr.engine import piece_prompts
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import ConfigError, InputError

WHOLE = Box(0, 0, 4000, 4000)
HOSTILE = {
    "infinite box": (PlacedText("hello", Box(-math.inf, 0, 900, 60)),),
    "no number": (PlacedText("hello", Box(math.nan, 0, 900, 60)),),
    "empty text": (PlacedText("", WHOLE),),
    "surrogate": (PlacedText("a\x00\u202e\ud800x", WHOLE),),
    "one long word": (PlacedText("x" * 10**6, WHOLE),),
    "too many words": (PlacedText("word", WHOLE),) * 30000,
    "inverted box": (PlacedText("hello", Box(900, 60, 0, 0)),),
}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.from_pretrained("nano", EngineConfig(max_tokens=64, windows="fixed"), "float32")


@pytest.mark.parametrize("name", list(HOSTILE))
def test_no_text_layer_changes_what_is_read(engine: Engine, name: str) -> None:
    for case in (load_cases(CROPS, ("text",))[0], load_cases(CROPS, ("table",))[0]):
        crop = case.crop()
        layered = Crop(crop.image, crop.task, HOSTILE[name])
        expected = engine.recognize([crop])[0]
        for draft in ("auto", "text-layer"):
            answer = engine.with_config(draft=draft).recognize([layered])[0]
            assert (answer.ids, answer.status) == (expected.ids, expected.status)


def test_a_crop_that_fails_on_the_way_leaves_the_others_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    crops = [case.crop() for case in load_cases(CROPS, ("text",))]
    long = max(crops, key=lambda crop: crop.image.height)
    n_before = 0
    original = piece_prompts.token_limit

    def fail_late(part: object, cell_px: int) -> int:
        nonlocal n_before
        n_before += 1
        if n_before == 4:
            raise InputError("broken on the way")
        return original(part, cell_px)  # type: ignore[arg-type]

    expected = engine.recognize([crops[0]])[0]
    monkeypatch.setattr(piece_prompts, "token_limit", fail_late)
    failed, good = engine.recognize([long, crops[0]])
    assert failed.status == "failed" and "broken on the way" in str(failed.error)
    assert good.ids == expected.ids


@pytest.mark.parametrize(
    "bad",
    [{"draft_head": "off"}, {"trace": 1}, {"static_steps": "yes"}, {"log_probs": "a"}, {"sampling": 0.5},
     {"stop_strings": ("",)}, {"stop_strings": "the"}, {"stop_strings": (5,)}, {"acceptance_profile": "paper"},
     {"windows": "x"}, {"draft": "x"}, {"decode": "x"}, {"decode": "diffusion", "draft": "none"},
     {"n_candidates": 17}, {"cache_mib": 0}, {"draft_steps": 0}],
)  # fmt: skip
def test_settings_that_are_none_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        EngineConfig(**bad)  # type: ignore[arg-type]


def test_unknown_overrides_are_refused_by_name(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="window_size"):
        engine.with_config(window_size=3)
