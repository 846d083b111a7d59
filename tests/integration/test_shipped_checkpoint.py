"""The embedded checkpoint keeps what its card says: on our own crops always, on the handed ones where they are."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from gravityocr.benchmark.cases import load_cases
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.metrics.edit import fold_whitespace, ned
from gravityocr.model.checkpoint import resolve_checkpoint

CROPS = Path(__file__).parents[1] / "data" / "crops"


@pytest.fixture(scope="module")
def engine():
    return Engine.from_pretrained("nano", EngineConfig(max_tokens=256))


@pytest.fixture(scope="module")
def own(engine):
    cases = load_cases(CROPS)
    crops = [case.crop() for case in cases]
    return cases, engine.recognize(crops), engine.with_decode("ar").recognize(crops)


def test_size():
    assert sum(file.stat().st_size for file in resolve_checkpoint("nano").iterdir()) <= 40e6


def test_own_crops_drafting_changes_nothing(own):
    _, drafted, reference = own
    assert [answer.ids for answer in drafted] == [answer.ids for answer in reference]
    assert all(answer.tpf == 1.0 for answer in reference)


def test_own_crops_are_read(own):
    cases, drafted, _ = own
    errors = [
        ned(fold_whitespace(answer.text), fold_whitespace(case.truth))
        for case, answer in zip(cases, drafted, strict=True)
    ]
    assert sum(errors) / len(errors) <= 0.02


def test_own_crops_are_drafted(own):
    _, drafted, _ = own
    assert sum(a.n_decoded for a in drafted) / sum(a.n_forwards for a in drafted) >= 3.0


def test_own_crops_direct_diffusion_ends(engine):
    cases = load_cases(CROPS, limit=4)
    answers = engine.with_decode("diffusion").recognize([case.crop() for case in cases])
    assert all(answer.status == "ok" and answer.text for answer in answers)
    assert all(math.isfinite(answer.tpf) for answer in answers)


def test_handed_text_crops(engine, cases_dir):
    cases = load_cases(cases_dir, ("text",))
    crops = [case.crop() for case in cases]
    drafted, reference = engine.recognize(crops), engine.with_decode("ar").recognize(crops)
    assert [answer.ids for answer in drafted] == [answer.ids for answer in reference]
    # The checkpoint claims English; on other scripts it writes noise, which no drafter foresees.
    english = [pair for pair in zip(cases, drafted, strict=True) if pair[0].language == "english"]
    assert len(english) == 55
    assert sum(a.n_decoded for _, a in english) / sum(a.n_forwards for _, a in english) >= 3.4
    plain = [(case.truth, answer.text) for case, answer in english if case.kind == "text"]
    errors = [ned(fold_whitespace(text), fold_whitespace(truth)) for truth, text in plain]
    assert len(errors) == 47
    assert sum(errors) / len(errors) <= 0.06


def test_stock_transformers_reads_the_same_text(engine, own):
    transformers = pytest.importorskip("transformers", reason="transformers is the oracle; install the extra 'dev'")
    path = resolve_checkpoint("nano")
    model = transformers.GlmOcrForConditionalGeneration.from_pretrained(path, dtype=torch.float32).eval()
    prompts = engine.checkpoint.prompts
    case = own[0][0]
    from gravityocr.model.pieces import split_crop

    piece = split_crop(case.crop().image, engine.checkpoint.diffusion.pieces)[0]
    prompt = prompts.build(piece.image, "text")
    with torch.inference_mode():
        output = model.generate(
            input_ids=prompt.ids[None],
            attention_mask=torch.ones_like(prompt.ids[None]),
            mm_token_type_ids=prompt.is_image[None].int(),
            pixel_values=prompt.pixels,
            image_grid_thw=torch.tensor([[1, *prompt.grid]]),
            max_new_tokens=64,
            do_sample=False,
        )
    ids = output[0, prompt.ids.numel() :].tolist()
    assert ids == list(own[1][0].ids[0])
