"""Users' case 23: speculation gives the token ids of plain autoregressive decoding, and a wrong mask id never loads.

Whole crops through the engine. Deeper, with models that always, never and sometimes agree: property/test_decoding.py.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from tests.factories import edit_json, mask_id, random_image, tiny_network, write_checkpoint
from tests.user_case_inputs import CROPS, cli, nano

from gravityocr.benchmark.cases import load_cases
from gravityocr.decoding.request import SequenceOptions
from gravityocr.decoding.sampling import Sampling
from gravityocr.document import Box, Crop, PlacedText, Recognition
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.engine.scheduler import Scheduler
from gravityocr.errors import CheckpointError
from gravityocr.model.prompt import Prompt

Ids = list[tuple[tuple[int, ...], ...]]
BLOCK = 6
PENALTY = Sampling(repetition_penalty=1.1)


@lru_cache(maxsize=1)
def crops() -> tuple[Crop, ...]:
    """A line, a formula and a table: other lengths, tasks and ends in one batch."""
    return tuple(load_cases(CROPS, (kind,), limit=1)[0].crop() for kind in ("text", "formula", "table"))


def ids_of(answers: list[Recognition]) -> Ids:
    assert all(answer.status in ("ok", "truncated") and answer.ids for answer in answers)
    return [answer.ids for answer in answers]


@lru_cache(maxsize=4)
def autoregressive(penalty: float) -> Ids:
    return ids_of(nano().with_config(decode="ar", sampling=Sampling(repetition_penalty=penalty)).recognize(crops()))


@pytest.mark.parametrize("penalty", [1.0, 1.1])
@pytest.mark.parametrize("block_size", [1, 7, 12, 33])
def test_case_23_any_block_size_and_penalty(block_size: int, penalty: float) -> None:
    """A batch of three kinds, and each crop by itself."""
    engine = nano().with_config(block_size=block_size, sampling=Sampling(repetition_penalty=penalty))
    answers = engine.recognize(crops())
    assert ids_of(answers) == autoregressive(penalty)
    assert sum(answer.n_accepted for answer in answers) > 0, "nothing was drafted: the test would hold emptily"
    assert engine.recognize(crops()[:1])[0].ids == answers[0].ids


def test_case_23_limits_inside_a_block() -> None:
    """A limit at each of the first 15 tokens, one more than a block and its boundary."""
    line = crops()[:1]
    whole = autoregressive(1.0)[0]
    for limit in range(1, 16):
        answer = nano().with_config(max_tokens=limit, block_size=12).recognize(line)[0]
        assert answer.ids == tuple(piece[:limit] for piece in whole)
        assert answer.status == ("truncated" if any(len(piece) > limit for piece in whole) else "ok")


@pytest.mark.parametrize("draft", ["auto", "text-layer"])
def test_case_23_a_random_draft_is_still_exact(draft: str) -> None:
    """A text layer of other words altogether drafts, and nothing of it gets into what is read."""
    draw = np.random.default_rng(0)
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789.,$")
    for crop, expected in zip(crops(), autoregressive(1.0), strict=True):
        places = draw.uniform(0, 1, (40, 2)) * crop.image.size
        words = [PlacedText("".join(draw.choice(letters, 6)), Box(x, y, x + 30, y + 20)) for x, y in places]
        answer = nano().with_config(draft=draft).recognize([Crop(crop.image, crop.task, tuple(words))])[0]
        assert answer.ids == expected


@pytest.fixture(scope="module")
def random_engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """An engine over random weights: its drafts are random, too."""
    folder = write_checkpoint(tmp_path_factory.mktemp("random"), tiny_network("gqa", 4, tuple(range(20, 60))))
    return Engine.from_pretrained(
        str(folder), EngineConfig(block_size=BLOCK, windows="fixed", max_tokens=40), "float32"
    )


def prompts(engine: Engine) -> list[Prompt]:
    builder = engine.checkpoint.prompts
    return [builder.build(random_image(28 * (1 + k % 4), 28 * (1 + k // 4), seed=k)) for k in range(8)]


def decoded(scheduler: Scheduler, asked: list[tuple[Prompt, SequenceOptions]], mode: str) -> list[list[int]]:
    tickets = [scheduler.submit(prompt, options, mode) for prompt, options in asked]  # type: ignore[arg-type]
    scheduler.run()
    assert scheduler.is_idle
    return [ticket.result().ids for ticket in tickets]


def test_case_23_an_end_at_every_offset_in_any_mix(random_engine: Engine) -> None:
    """Each token that an answer holds for the first time is the stop token once, all of these in one mixed batch."""
    some, fresh = prompts(random_engine), Sampling(repetition_penalty=2.0)  # which few networks repeat tokens under
    plain = [(prompt, SequenceOptions(40, frozenset(), BLOCK, fresh)) for prompt in some]
    whole = decoded(random_engine.scheduler(), plain, "ar")
    ends = [(k, at) for k, ids in enumerate(whole) for at, token in enumerate(ids) if token not in ids[:at]]
    assert {at for _, at in ends} >= set(range(BLOCK + 3)), "no end at some offset: draw other weights"
    asked = [
        (some[k], SequenceOptions(40, frozenset({whole[k][at]}), 1 + (k + at) % BLOCK, fresh)) for k, at in ends
    ]  # fmt: skip
    fast = decoded(random_engine.scheduler(), asked, "self-spec")
    assert fast == [whole[k][: at + 1] for k, at in ends]


def test_case_23_penalties_and_limits_in_any_mix(random_engine: Engine) -> None:
    asked = [
        (prompt, SequenceOptions(5 + 7 * k % 31, frozenset(), 1 + k % BLOCK, PENALTY if k % 2 else Sampling()))
        for k, prompt in enumerate(prompts(random_engine))
    ]
    fast, slow = (decoded(random_engine.scheduler(), asked, mode) for mode in ("self-spec", "ar"))
    assert fast == slow and [len(ids) for ids in fast] == [options.max_tokens for _, options in asked]
    plain = [(prompt, SequenceOptions(options.max_tokens, frozenset(), BLOCK)) for prompt, options in asked]
    changed = [one != other for one, other in zip(decoded(random_engine.scheduler(), plain, "ar"), fast, strict=True)]
    assert any(changed[1::2]) and not any(changed[::2]), "the penalty acts on those that it is asked for"
    alone = [decoded(random_engine.scheduler(), [one], "self-spec")[0] for one in asked]
    assert alone == fast


@pytest.mark.parametrize("wrong", [mask_id() - 1, 10**6, -1])
def test_case_23_a_wrong_mask_id_is_refused_at_load(tmp_path: Path, wrong: int) -> None:
    """It would keep the output right and silently destroy the speed; the command line exits with 2."""
    folder = write_checkpoint(tmp_path / "checkpoint", tiny_network())
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(mask_id=wrong))
    with pytest.raises(CheckpointError, match=f"mask_id {wrong}"):
        Engine.from_pretrained(str(folder))
    outcome = cli("parse", CROPS / "line_00.png", "-o", tmp_path / "out", "--checkpoint", folder)
    assert outcome.code == 2 and f"mask_id {wrong}" in outcome.stderr
    assert not (tmp_path / "out" / "line_00").exists()
