"""Which candidates become prompts: what varies, the harder and longer ones rather, in the wanted mixture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gravityocr.config import check_numbers
from gravityocr.document import Task
from gravityocr.errors import ConfigError
from gravityocr.rl.trials import EQUAL, Trial
from gravityocr.training.corpora.mixture import Keys, MixtureConfig, drawn, key_of, mixture_counts
from gravityocr.training.corpora.region_shards import TASKS

Fate = Literal[
    "chosen", "not_chosen", "solved", "hopeless", "flat", "nearly_flat", "cut", "skipped", "decontaminated", "not_tried"
]
"""What becomes of a candidate. Without variance are: `solved` (all rewards 1), `hopeless` (all 0), `flat` (all equal),
`nearly_flat` (a standard deviation below `min_std`) and `cut` (no rollout ended before the length limit)."""
FATES: tuple[Fate, ...] = get_args(Fate)
NO_SIGNAL: tuple[Fate, ...] = ("solved", "hopeless", "flat", "nearly_flat", "cut")
_LIMIT, _MINE, _ORDER = 11, 12, 13  # what a draw is for


@dataclass(frozen=True)
class PromptConfig:
    """The prompt pool of GRPO.

    `pool` is the pool whose train split gives the candidates (`sample` is the shipped one), at most `max_candidates`
    of each task, drawn by seed. `folder` takes the prompts (None: `prompts` in the run's folder). A candidate gets
    `n_trials` rollouts of at most `max_tokens` tokens (None: as many as in training), `batch_regions` candidates at a
    time; those whose rewards are all equal, or vary by less than `min_std`, are dropped, and those that occur in
    `benchmark` (a file as `gravityocr data decontaminate` takes it) are not tried at all. Of the rest `n_prompts` are
    drawn, `*_share` of them of each task; where one is too scarce for its share, it has what there is (`shortfall =
    "keep"`) or the others shrink with it (`"shrink"`), as in `training.corpora.mixture`. The draw prefers hard and long
    ones: see `mining_weights`. `overwrite` replaces prompts and trials that another configuration left in `folder`;
    what fits this one is kept.

    *Source*: section 5: 8 trials, 7,723 prompts, 92 % tables, 6 % text, 2 % formulas, zero variance dropped, mined
    towards hard and long tables.
    """

    pool: str = "sample"
    folder: str | None = None
    benchmark: str | None = None
    n_trials: int = 8
    max_tokens: int | None = None
    max_candidates: int | None = None
    batch_regions: int = 8
    min_std: float = 0.0
    n_prompts: int = 7723
    table_share: float = 0.92
    text_share: float = 0.06
    formula_share: float = 0.02
    shortfall: Literal["shrink", "keep"] = "keep"
    hardness: float = 1.0
    length_weight: float = 1.0
    other_tasks: float = 0.5
    seed: int = 0
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_numbers(
            self, "prompts.", optional=("max_tokens", "max_candidates"),
            n_trials=(2, 1024), max_tokens=(1, 10**6), max_candidates=(1, 10**9), batch_regions=(1, 10**6),
            min_std=(0.0, 0.5), n_prompts=(1, 10**9), table_share=(0.0, 1.0), text_share=(0.0, 1.0),
            formula_share=(0.0, 1.0), hardness=(0.0, 100.0), length_weight=(0.0, 100.0), other_tasks=(0.0, 10.0),
            seed=(0, 2**63 - 1),
        )  # fmt: skip
        for name in ("pool", "folder", "benchmark"):
            if getattr(self, name) == "":
                raise ConfigError(f"prompts.{name} is empty; name it, or leave it out")
        if not any(self.shares().values()):
            raise ConfigError("prompts: all shares are 0; give one task a share, table_share = 0.92 for one")

    def shares(self) -> dict[Task, float]:
        """Return the share of each task; they need not add up to 1."""
        return {"text": self.text_share, "table": self.table_share, "formula": self.formula_share}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A region that may become a prompt; `row` of the pool's file `file` holds it, `n_chars` its reference."""

    region_id: str
    task: Task
    n_chars: int
    file: int
    row: int


def within_limit(candidates: Sequence[Candidate], config: PromptConfig) -> set[str]:
    """Return the ids of the candidates that are tried: those of the lowest draws of each task, up to the limit."""
    ids: set[str] = set()
    for task, share in config.shares().items():
        names = [candidate.region_id for candidate in candidates if candidate.task == task]
        order = np.argsort(_draws(names, config.seed, _LIMIT), kind="stable")[: config.max_candidates]
        ids |= {names[place] for place in order.tolist()} if share else set()
    return ids


def signal_fate(trial: Trial, min_std: float) -> Fate | None:
    """Say why a trial gives GRPO nothing to learn from; None where it does.

    Rollouts that are cut stay out of the loss, so a prompt with no other ones is of no use either.
    """
    if trial.n_truncated == len(trial.rewards):
        return "cut"
    if not trial.varies:
        if min(trial.rewards) >= 1.0 - EQUAL:
            return "solved"
        return "hopeless" if max(trial.rewards) <= EQUAL else "flat"
    return "nearly_flat" if trial.std < min_std else None


def mining_weights(candidates: Sequence[Candidate], trials: Mapping[str, Trial], config: PromptConfig) -> np.ndarray:
    """Return the logarithms of the weights with which candidates of one task are drawn.

    weight = ((1 - r) ** hardness * (c / m) ** length_weight) ** s; r is the mean trial reward, c the characters of the
    reference, m their median over the candidates; s is 1 for tables and `other_tasks` for texts and formulas.
    """
    means = np.array([trials[candidate.region_id].mean for candidate in candidates])
    chars = np.array([candidate.n_chars for candidate in candidates], dtype=np.float64)
    hard = config.hardness * np.log(np.maximum(1.0 - means, 1e-12))
    long = config.length_weight * np.log(chars / np.median(chars))
    strength = np.array([1.0 if candidate.task == "table" else config.other_tasks for candidate in candidates])
    return np.asarray(strength * (hard + long))


def wanted_counts(available: Mapping[Task, int], config: PromptConfig) -> dict[Task, int]:
    """Return how many prompts of each task the pool takes, `n_prompts` at most.

    *Raises*: MissingTasksError where the mixture cannot be had.
    """
    whole = _rounded(config.n_prompts, config.shares())
    capped = {task: min(available.get(task, 0), whole[task]) for task in TASKS}
    if capped == whole:
        return whole
    shares = {task: share if whole[task] else 0.0 for task, share in config.shares().items()}
    return mixture_counts(capped, MixtureConfig(**shares, shortfall=config.shortfall))


def _rounded(n: int, shares: Mapping[Task, float]) -> dict[Task, int]:
    """Share a number out, so that the parts add up to it (largest remainders)."""
    total = sum(shares.values())
    exact = {task: n * share / total for task, share in shares.items()}
    counts = {task: math.floor(value) for task, value in exact.items()}
    rest = sorted(exact, key=lambda task: counts[task] - exact[task])
    for task in rest[: n - sum(counts.values())]:
        counts[task] += 1
    return counts


def choose_prompts(
    candidates: Sequence[Candidate], trials: Mapping[str, Trial], config: PromptConfig
) -> tuple[list[Candidate], dict[Task, int]]:
    """Draw the prompts out of candidates that give a signal; return them in their order, and the wanted counts.

    The draw is without replacement, by weight: the largest log-weights plus Gumbel noise (which is a hash of the seed
    and the region id) win, so that the same seed draws the same prompts.

    *Source*: Gumbel-top-k, Kool et al. 2019, after Efraimidis and Spirakis 2006.

    *Raises*: MissingTasksError where the mixture cannot be had.
    """
    wanted = wanted_counts(Counter(candidate.task for candidate in candidates), config)
    chosen: list[Candidate] = []
    for task in TASKS:
        members = [candidate for candidate in candidates if candidate.task == task]
        if wanted[task]:
            draws = _draws([candidate.region_id for candidate in members], config.seed, _MINE)
            uniform = ((draws >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
            keys = mining_weights(members, trials, config) - np.log(-np.log(uniform))
            order = np.argsort(-keys, kind="stable")
            chosen += [members[place] for place in order[: wanted[task]].tolist()]
    places = np.argsort(_draws([candidate.region_id for candidate in chosen], config.seed, _ORDER), kind="stable")
    return [chosen[place] for place in places.tolist()], wanted


def _draws(names: Iterable[str], seed: int, purpose: int) -> Keys:
    return drawn(np.array([key_of(name) for name in names], dtype=np.uint64), seed, purpose)
