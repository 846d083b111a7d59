"""TRL's trainer as we set it up: prompts, rollouts of two kinds, the loss by hand, what moves and what does not."""

from __future__ import annotations

import importlib.util
import io
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.grpo_runs import sampler_of, small_run, with_likely
from torch import Tensor

from gravityocr.document import Crop
from gravityocr.errors import ConfigError
from gravityocr.rl.evaluation import EvaluationConfig, held_out
from gravityocr.rl.grpo import (
    EngineRollouts,
    PromptOrder,
    apply_settings,
    build_trainer,
    check_libraries,
    log_prob_gap,
    prompt_dataset,
    stock_network,
)
from gravityocr.rl.seeds import banned_tokens
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, encode_picture, write_regions

pytest.importorskip("trl", reason="GRPO; install the extra 'rl'")


@pytest.fixture(scope="module")
def regions() -> list[LabelledRegion]:
    """Give two regions of each task; the validation split is as good as any here."""
    return [one for members in held_out(EvaluationConfig(n_crops=2), "sample").values() for one in members]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, regions: list[LabelledRegion]) -> Path:
    path = tmp_path_factory.mktemp("prompts") / f"prompts{SUFFIX}"
    write_regions(path, regions)
    return path


def trainer_of(folder: Path, file: Path, *overrides: str) -> Any:
    config = small_run(folder, *overrides)
    return build_trainer(config, sampler_of(config), [file])


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory, file: Path) -> Any:
    """Give a trainer whose steps are two prompts of two rollouts in one forward, without divergence in the loss."""
    return trainer_of(tmp_path_factory.mktemp("run"), file, "rl.micro_batch=4", "grpo.kl=0.0")


def weights_of(model: Any) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def moved(model: Any, before: dict[str, Tensor]) -> set[str]:
    return {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}


@pytest.mark.parametrize(
    ("library", "settings", "remedy"),
    [
        ("trl", [], r"pip install 'gravityocr\[rl\]'"),
        ("datasets", [], r"pip install 'gravityocr\[rl\]'"),
        ("bitsandbytes", ["optimizer.kind=adamw_8bit"], r"bitsandbytes, or set optimizer\.kind to adamw"),
        ("vllm", ["rollouts.engine=vllm", "rl.device=cuda"], r"vllm, or set rollouts\.engine to engine"),
        ("tensorboard", ["rl.tensorboard=true"], r"or set rl\.tensorboard to false"),
    ],
)
def test_a_missing_library_is_named_with_the_remedy(
    library: str, settings: list[str], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {library}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ConfigError, match=rf"needs {library} \(.*{remedy}"):
        check_libraries(small_run("unused", *settings))
    missing.clear()
    check_libraries(small_run("unused", *settings))
    missing |= {"bitsandbytes", "vllm", "tensorboard"}
    with pytest.raises(ConfigError, match=r"bitsandbytes \(.* and vllm \("):
        check_libraries(small_run("unused", "optimizer.kind=adamw_8bit", "rollouts.engine=vllm", "rl.device=cuda"))
    check_libraries(small_run("unused"))  # what is not asked for may be missing


def test_a_missing_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"rl\.device is cuda.*set it to cpu"):
        check_libraries(small_run("unused", "rl.device=cuda"))


def test_prompts_keep_picture_task_and_target(trainer: Any, file: Path, regions: list[LabelledRegion]) -> None:
    engine = trainer.rollout_func.sampler.engine
    rows = list(prompt_dataset([file], engine))
    assert [row["region_id"] for row in rows] == [region.region_id for region in regions]
    for row, region in zip(rows, regions, strict=True):
        assert (row["task"], row["target"]) == (region.task, region.target)
        assert row["prompt"] == [{"role": "user", "content": engine.checkpoint.prompts.instruction(region.task)}]
        assert row["image"].tobytes() == region.picture().convert(row["image"].mode).tobytes()


@pytest.mark.parametrize("part", ["vision", "embeddings", "decoder", "lm_head"])
def test_a_frozen_part_is_that_part_alone(trainer: Any, part: str) -> None:
    engine = trainer.rollout_func.sampler.engine
    network = stock_network(engine, small_run("unused", f'rl.freeze=["{part}"]'))
    told = {"vision": "visual", "embeddings": "embed_tokens", "decoder": "language_model", "lm_head": "lm_head"}[part]
    for name, parameter in network.named_parameters():
        mine = told in name and not (part == "decoder" and "embed_tokens" in name)
        assert parameter.requires_grad != mine, name
    assert any(not parameter.requires_grad for parameter in network.parameters())


def test_too_few_prompts_are_told(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds 6 prompts, and a step takes 7; mine more .*prompts_per_step"):
        trainer_of(tmp_path, file, "grpo.prompts_per_step=7", "prompts.n_prompts=9")


def test_every_prompt_comes_once_before_one_comes_again() -> None:
    config = small_run("unused", "rl.steps=9", "grpo.prompts_per_step=2", "grpo.n_rollouts=3", "rl.micro_batch=2")
    order = list(PromptOrder(7, config))
    n_step, n_batch = 6 * config.accumulation, 6
    assert len(order) == len(PromptOrder(7, config)) == 9 * n_step
    steps = [order[n_step * step : n_step * (step + 1)] for step in range(9)]
    for step in steps:  # the trainer asks for the same batch at each of its forwards
        assert step == step[:n_batch] * config.accumulation
        assert step[:n_batch] == [step[0]] * 3 + [step[3]] * 3 and step[0] != step[3]
    chosen = [(step[0], step[3]) for step in steps]
    for first in (0, 3, 6):
        assert len({prompt for pair in chosen[first : first + 3] for prompt in pair}) == 6
    assert len({tuple(chosen[first : first + 3]) for first in (0, 3, 6)}) == 3, "each round has an order of its own"


def test_the_order_of_prompts_depends_on_seed_and_step_alone() -> None:
    """More steps, or another share of a process, leave what was dealt as it was."""

    def dealt(*settings: str) -> list[int]:
        config = small_run("unused", *settings)
        size = config.grpo.n_completions
        return list(PromptOrder(5, config))[:: config.accumulation * size][:4]

    short = dealt("rl.steps=4")
    assert dealt("rl.steps=40") == short == dealt("rl.steps=4", "rl.micro_batch=4")
    assert dealt("rl.steps=4", "rl.seed=1") != short
    twice = small_run("unused", "rl.steps=4", "grpo.n_iterations=2", "rl.save_every=2")
    assert sorted(Counter(PromptOrder(5, twice)).values()) == [8] * 4  # two batches, each for two updates


class OneProcess(SimpleNamespace):
    """What a rollout function asks of a trainer, as a process of several would answer."""

    def __init__(self, trainer: Any, step: int, rank: int = 0) -> None:
        accelerator = SimpleNamespace(process_index=rank, unwrap_model=lambda model: model)
        super().__init__(
            state=SimpleNamespace(global_step=step), accelerator=accelerator, model=trainer.model,
            processing_class=trainer.processing_class,
        )  # fmt: skip


def messages_of(trainer: Any, regions: Sequence[LabelledRegion]) -> list[list[dict[str, Any]]]:
    words = trainer.rollout_func.sampler.engine.checkpoint.prompts.instruction
    prompts = []
    for one in regions:
        parts = [{"type": "image", "image": one.picture()}, {"type": "text", "text": words(one.task)}]
        prompts.append([{"role": "user", "content": parts}])
    return prompts


def test_step_and_place_decide_a_rollout_and_not_the_process(trainer: Any, regions: list[LabelledRegion]) -> None:
    """Two processes of two rollouts sample what one of four does."""
    asked = messages_of(trainer, [regions[2], regions[2], regions[4], regions[4]])
    sample: EngineRollouts = trainer.rollout_func
    whole = sample(asked, OneProcess(trainer, 3))
    halves = [sample(asked[2 * rank : 2 * rank + 2], OneProcess(trainer, 3, rank)) for rank in (0, 1)]
    for key in ("prompt_ids", "completion_ids"):
        assert whole[key] == halves[0][key] + halves[1][key]
    assert sample(asked, OneProcess(trainer, 3))["completion_ids"] == whole["completion_ids"]
    assert sample(asked, OneProcess(trainer, 4))["completion_ids"] != whole["completion_ids"]
    other = EngineRollouts(sample.sampler, 1)
    assert other(asked, OneProcess(trainer, 3))["completion_ids"] != whole["completion_ids"]
    prompts = sample.sampler.engine.checkpoint.prompts
    assert whole["prompt_ids"][2] == prompts.build(regions[4].picture(), regions[4].task).ids.tolist()


def test_the_engine_samples_with_the_weights_of_now(trainer: Any, regions: list[LabelledRegion]) -> None:
    asked = messages_of(trainer, [regions[2]] * 2)
    before = trainer.rollout_func(asked, OneProcess(trainer, 3))
    kept = trainer.model.lm_head.weight.detach().clone()
    with torch.no_grad():
        trainer.model.lm_head.weight.mul_(0.5)
    hotter = trainer.rollout_func(asked, OneProcess(trainer, 3))
    with torch.no_grad():
        trainer.model.lm_head.weight.copy_(kept)
    assert hotter["completion_ids"] != before["completion_ids"]
    assert trainer.rollout_func(asked, OneProcess(trainer, 3)) == before


def test_the_gap_is_nothing_for_the_same_weights_and_clear_for_others(
    trainer: Any, regions: list[LabelledRegion], tmp_path: Path, file: Path
) -> None:
    sampler = trainer.rollout_func.sampler
    sampler.take(trainer.model.state_dict())
    crops = [Crop(region.picture(), region.task) for region in regions]
    rollouts = [row[0] for row in sampler.rollouts(crops, [(number,) for number in range(len(crops))])]
    same = log_prob_gap(trainer, crops, rollouts)
    assert same["n_tokens"] == sum(len(one.ids) for one in rollouts) > 60
    assert same["gap_mean"] <= same["gap_max"] < 1e-4 and same["ratio_mean"] == pytest.approx(1.0, abs=1e-4)
    kept = trainer.model.lm_head.weight.detach().clone()
    with torch.no_grad():
        trainer.model.lm_head.weight.mul_(1.4)
    other = log_prob_gap(trainer, crops, rollouts)
    with torch.no_grad():
        trainer.model.lm_head.weight.copy_(kept)
    assert other["gap_mean"] > 0.01 and other["gap_max"] > other["gap_mean"]
    assert 1e-4 < log_prob_gap(trainer_of(tmp_path, file, "rl.bf16=true"), crops, rollouts)["gap_mean"] < 0.05


Rows = list[dict[str, Any]]


def gradient_of(trainer: Any, rows: Rows, completions: list[list[int]], rewards: list[float]) -> tuple[float, Tensor]:
    """Give loss and gradient of a step whose completions and rewards are told."""
    trainer.rollout_func = lambda prompts, _: {
        "prompt_ids": [trainer.processing_class.tensors.of(row["image"], row["task"])["input_ids"] for row in rows],
        "completion_ids": completions,
        "logprobs": [[0.0] * len(ids) for ids in completions],
    }
    trainer.reward_funcs[:] = [lambda **_: rewards, *[lambda **_: [None] * len(rows)] * 2]
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.zero_grad()
    inputs = trainer._generate_and_score_completions(rows)
    loss = trainer._compute_loss(trainer.model, inputs)
    loss.backward()
    gradients = [parameter.grad.flatten() for parameter in trainer.model.parameters() if parameter.grad is not None]
    return loss.item(), torch.cat(gradients).clone()


@pytest.fixture
def told(trainer: Any, file: Path) -> Any:
    """Give the trainer, whose rollouts and rewards are put back behind the test."""
    rollouts, rewards = trainer.rollout_func, list(trainer.reward_funcs)
    yield trainer
    trainer.rollout_func, trainer.reward_funcs[:] = rollouts, rewards
    trainer.model.zero_grad()


@pytest.fixture(scope="module")
def rows(trainer: Any) -> Rows:
    return [trainer.train_dataset[number] for number in (2, 2, 4, 4)]


def test_the_loss_is_that_of_the_paper(told: Any, rows: Rows) -> None:
    """Each token weighs alike, advantages are standardised in a group; at the first update no ratio is clipped."""
    stop = told.processing_class.tokenizer.eos_token_id
    completions = [[40, 41, stop], [42, 43, 44, 45, stop], [50, stop], [51, 52, 53, 54, 55, 56, stop]]
    rewards = [0.2, 0.8, 1.0, 0.5]
    loss, _ = gradient_of(told, rows, completions, rewards)
    total = 0.0
    for first in (0, 2):
        pair = rewards[first : first + 2]
        std = abs(pair[0] - pair[1]) / math.sqrt(2)
        for place in (0, 1):
            total += (pair[place] - sum(pair) / 2) / (std + 1e-4) * len(completions[first + place])
    assert loss == pytest.approx(-total / sum(map(len, completions)), abs=1e-5)


def test_a_truncated_completion_is_left_out_of_the_loss(told: Any, rows: Rows) -> None:
    stop = told.processing_class.tokenizer.eos_token_id
    kept = [[40, 41, stop], [42, 43, 44, stop], [50, 51, 52, stop]]
    rewards = [0.2, 0.8, 1.0, 0.5]
    one, two = ([*kept, [number] * 7] for number in (60, 61))
    loss, gradient = gradient_of(told, rows, one, rewards)
    again, same = gradient_of(told, rows, two, rewards)
    assert gradient.norm() > 0.1 and loss == again
    torch.testing.assert_close(same, gradient, rtol=0, atol=1e-6)
    per_token = sum(len(ids) * sign for ids, sign in zip(kept, (-1, 1, 1), strict=True)) / math.sqrt(2)
    assert loss == pytest.approx(-per_token / sum(map(len, kept)), abs=1e-3)
    told.mask_truncated_completions = False
    other = gradient_of(told, rows, one, rewards)[1]
    told.mask_truncated_completions = True
    assert (other - gradient).norm() > 0.1


def test_where_all_are_cut_nothing_moves(tmp_path: Path, file: Path) -> None:
    for leave_out in (True, False):
        settings = ("grpo.max_tokens=1", "grpo.kl=0.0", f"grpo.leave_out_truncated={str(leave_out).lower()}")
        trainer = trainer_of(tmp_path / str(leave_out), file, *settings, "rl.micro_batch=4", "optimizer.lr=1e-2")
        trainer.reward_funcs[:] = [lambda prompts, **_: [float(n) for n in range(len(prompts))]] * 3
        before = weights_of(trainer.model)
        trainer.train()
        assert trainer.state.global_step == 2
        assert bool(moved(trainer.model, before)) != leave_out


def test_the_trainer_s_own_rollouts_never_hold_the_image_or_the_mask_token(
    tmp_path: Path, file: Path, regions: list[LabelledRegion]
) -> None:
    trainer = trainer_of(tmp_path, file, "rollouts.engine=trainer", "grpo.max_tokens=8")
    assert trainer.rollout_func is None
    sampler = sampler_of(small_run("unused"))
    banned = banned_tokens(sampler.engine)
    trainer.model.load_state_dict({
        name: value.view(trainer.model.state_dict()[name].shape) for name, value in with_likely(sampler, banned).items()
    })  # fmt: skip
    asked = messages_of(SimpleNamespace(rollout_func=SimpleNamespace(sampler=sampler)), regions)

    def n_banned() -> int:
        return sum(token in banned for ids in trainer._generate(asked)[1] for token in ids)

    assert n_banned() == 0
    trainer.generation_config.suppress_tokens = trainer.generation_kwargs["suppress_tokens"] = None
    assert n_banned() > 10, "they were not likely"


def test_a_step_with_the_trainer_s_own_rollouts(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference and the frozen parts stay, the rest moves, and nobody is told."""
    sent: list[Any] = []
    monkeypatch.setattr("trl.trainer.base_trainer.send_telemetry", lambda *a, **k: sent.append(a))
    settings = ("rollouts.engine=trainer", 'rl.freeze=["vision", "lm_head"]', "grpo.max_tokens=30")
    trainer = trainer_of(tmp_path, file, *settings)
    trainer.reward_funcs[:] = [varied, *[lambda prompts, **_: [None] * len(prompts)] * 2]
    before, reference = weights_of(trainer.model), weights_of(trainer.ref_model)
    assert all(torch.equal(reference[name], value) for name, value in before.items())
    trainer.train()
    assert not moved(trainer.ref_model, reference)
    names = moved(trainer.model, before)
    assert names and not [name for name in names if "visual" in name or "lm_head" in name]
    assert any("embed_tokens" in name for name in names) and any("layers" in name for name in names)
    assert trainer.state.global_step == 2 and not sent
    steps = [entry for entry in trainer.state.log_history if "kl" in entry]
    assert steps[0]["kl"] == pytest.approx(0.0, abs=1e-6) and steps[1]["kl"] > 0


def varied(prompts: Sequence[Any], **_: Any) -> list[float]:
    """Reward the completions of a step in a way that makes all groups vary."""
    return [float(number % 2) for number in range(len(prompts))]


def test_a_run_that_goes_on_has_the_settings_of_now() -> None:
    """States hold the rate, the betas and the decay of before; also a rate that had fallen to 0 counts no more."""
    config = small_run("unused", "optimizer.lr=1e-5", "optimizer.betas=[0.8, 0.9]", "optimizer.weight_decay=0.1")
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    groups = [{"params": [weights[0]], "weight_decay": 0.3}, {"params": [weights[1]], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 10))
    for _ in range(4):
        optimizer.step()
        scheduler.step()
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    apply_settings(optimizer, scheduler, config)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([6e-6, 6e-6])
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    assert all(tuple(group["betas"]) == (0.8, 0.9) for group in optimizer.param_groups)
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([5e-6, 5e-6])


def test_a_turn_that_a_camera_notes_is_not_obeyed(tmp_path: Path) -> None:
    """Trials, evaluation and joint training read pictures as they are stored."""
    picture = Image.fromarray(np.arange(64 * 24, dtype=np.uint8).reshape(24, 64))
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", exif=exif)
    regions = [
        LabelledRegion(name, content, 64, 24, "text", "a", "test", name)
        for name, content in (("turned", buffer.getvalue()), ("plain", encode_picture(picture)))
    ]
    write_regions(tmp_path / "a.regions.parquet", regions)
    engine = sampler_of(small_run("unused")).engine
    rows = prompt_dataset([tmp_path / "a.regions.parquet"], engine)
    for row, region in zip(rows, regions, strict=True):
        assert np.array_equal(np.asarray(row["image"]), np.asarray(region.picture()))
