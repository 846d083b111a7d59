"""Starting a run: what is refused before anything is sampled, how prompts are mined, and how an end is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.grpo_runs import small_run, whole_state

from gravityocr.errors import ConfigError, InputError
from gravityocr.rl import launch, mining
from gravityocr.rl.launch import figures_of, run_grpo
from gravityocr.rl.mining import mine, prompt_folder, weights_mark
from gravityocr.rl.reward_settings import RewardSettings
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.run_folder import LAST_FOLDER, mark
from gravityocr.training.state import lock_folder

pytest.importorskip("trl", reason="GRPO; install the extra 'rl'")


class SampledError(Exception):
    """What must not be reached."""


@pytest.fixture
def nothing_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise SampledError

    monkeypatch.setattr(launch, "mine", fail)
    monkeypatch.setattr(launch, "_train", fail)


@pytest.mark.parametrize(
    ("setting", "error", "named"),
    [
        ("optimizer.kind=adamw_8bit", ConfigError, "bitsandbytes"),
        ("evaluation.pool=no-such-pool", InputError, r"no-such-pool.*evaluation\.pool"),
        ("rl.folder=/proc/runs", ConfigError, r"rl\.folder /proc/runs"),
    ],
)
@pytest.mark.usefixtures("nothing_is_sampled")
def test_what_is_wrong_is_told_before_anything_is_sampled(
    setting: str, error: type[Exception], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_bitsandbytes(config: RlConfig) -> None:
        if config.optimizer.kind == "adamw_8bit":
            raise ConfigError("this run needs bitsandbytes")

    monkeypatch.setattr(launch, "check_libraries", without_bitsandbytes)
    with pytest.raises(error, match=named):
        run_grpo(small_run(tmp_path, setting))
    with pytest.raises(SampledError):
        run_grpo(small_run(tmp_path))


@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_second_run_in_the_same_folder_is_refused(
    n_processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "mine", lambda *_: {})
    with lock_folder(tmp_path), pytest.raises(ConfigError, match="another run trains in"):
        run_grpo(small_run(tmp_path, f"rl.n_processes={n_processes}"))


def test_processes_that_were_stopped_are_no_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the last step was reached; and a run that a fall of TPF ended before that has finished."""
    config = small_run(tmp_path, "rl.n_processes=2")
    monkeypatch.setattr(launch, "mine", lambda *_: {})
    monkeypatch.setattr(launch, "figures_of", lambda config: {"told": config.rl.folder})
    monkeypatch.setattr(launch.multiprocessing, "spawn", lambda *_, **__: whole_state(tmp_path, 2))
    with pytest.raises(KeyboardInterrupt):
        run_grpo(config)

    def end(*_: Any, **__: Any) -> None:
        (tmp_path / LAST_FOLDER).mkdir()
        mark(tmp_path, LAST_FOLDER, 2)

    monkeypatch.setattr(launch.multiprocessing, "spawn", end)
    try:
        assert run_grpo(config) == {"told": str(tmp_path)}
    except KeyboardInterrupt:
        pytest.fail("a run that has ended looks like one that was interrupted")


def test_what_a_process_finds_wrong_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class decides the exit status; the other processes only tell that a connection was closed."""
    monkeypatch.setattr(launch, "mine", lambda *_: {})

    def fail(_: Any, given: tuple[Any, ...], **__: Any) -> None:
        told = given[2]
        told.put(("ConfigError", "rl.something is wrong; correct it"))
        raise launch.multiprocessing.ProcessRaisedException("Connection closed by peer", 0, 0)

    monkeypatch.setattr(launch.multiprocessing, "spawn", fail)
    with pytest.raises(ConfigError, match=r"rl\.something is wrong"):
        run_grpo(small_run(tmp_path, "rl.n_processes=2"))


def test_prompts_are_mined_as_completions_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At temperature 1 and of the same length, with the rewards of the run."""
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(mining, "mine_prompts", lambda *given: seen.append(given) or {})
    monkeypatch.setattr(mining, "prompt_files", lambda folder: [])
    monkeypatch.setattr(mining, "mining_lines", lambda *given: [])
    mine(small_run(tmp_path, "grpo.temperature=0.5", "grpo.top_p=0.9", "grpo.max_tokens=77"))
    mine(small_run(tmp_path, "prompts.max_tokens=33", f"prompts.folder={tmp_path / 'elsewhere'}", "grpo.max_tokens=77"))
    for (prompts, folder, sampler, *_), limit, place in zip(seen, (77, 33), ("prompts", "elsewhere"), strict=True):
        grpo = sampler._grpo
        assert (grpo.temperature, grpo.top_p, grpo.max_tokens, prompts.max_tokens) == (1.0, 1.0, limit, limit)
        assert folder == tmp_path / place
    assert prompt_folder(small_run(tmp_path)) == tmp_path / "prompts"


def test_other_rewards_make_other_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(mining, "mine_prompts", lambda *given: seen.append(given) or {})
    monkeypatch.setattr(mining, "prompt_files", lambda folder: [])
    monkeypatch.setattr(mining, "mining_lines", lambda *given: [])
    field = next(iter(RewardSettings.__dataclass_fields__))
    value = getattr(RewardSettings(), field)
    other = small_run(tmp_path, f"rewards.{field}={not value if isinstance(value, bool) else value / 2}")
    for config in (small_run(tmp_path), small_run(tmp_path), other):
        mine(config)
    marks = [given[3] for given in seen]
    assert marks[0] == marks[1] != marks[2]
    assert seen[2][5].keywords == {"settings": other.rewards}


def test_a_mark_stands_for_the_weights(tmp_path: Path) -> None:
    marks = []
    for content in (b"one", b"two", b"one"):
        (tmp_path / "model.safetensors").write_bytes(content)
        (tmp_path / "config.json").write_bytes(content * len(marks))
        marks.append(weights_mark(tmp_path))
    assert marks[0] == marks[2] != marks[1]


def test_a_report_of_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=tmp_path.name):
        figures_of(small_run(tmp_path))
