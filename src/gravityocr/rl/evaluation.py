"""Read held-out regions beside training: the quality of greedy readings, and how well drafting does."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gravityocr.config import check_numbers
from gravityocr.document import Crop, Task
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.engine.uncut import UncutCrop, read_uncut, text_of
from gravityocr.errors import ConfigError, GravityOCRError, InputError
from gravityocr.metrics.cdm import CdmConfig, CdmScorer, check_toolchain
from gravityocr.metrics.edit import fold_whitespace, ned, text_edit
from gravityocr.metrics.teds import score_teds
from gravityocr.rl.evaluation_records import WHOLE, RegionRecord, Summary, summarize, tpf_fall
from gravityocr.rl.prompt_candidates import has_target
from gravityocr.rl.reward_settings import PAPER, RewardSettings
from gravityocr.rl.rewards import NO_REWARD, reward_of
from gravityocr.rl.seeds import banned_tokens, seed_of
from gravityocr.training.corpora.mixture import key_of
from gravityocr.training.corpora.region_shards import TASKS, LabelledRegion, RegionFile, region_files
from gravityocr.training.pool_tokens import pool_files

BATCH = 64
_NO_READING = (GravityOCRError, OSError, ValueError)
_NO_SAMPLES = (*_NO_READING, *NO_REWARD)
_NO_REFERENCE = ("empty_ref", "ref_unrenderable")
Regions = Mapping[str, Sequence[LabelledRegion]]


@dataclass(frozen=True)
class EvaluationConfig:
    """What is read every `every` steps, at step 0 and at the end, and how.

    `n_crops` of each task are drawn by `seed` from the validation split of `pool` (None: the pool of the prompts), more
    of them holding those of fewer, and read as they are, as in training; `n_samples` completions of each are sampled
    beside, for the mean reward of the policy. `whole_crops` is a region file, or a folder of them, with crops that the
    engine cuts and joins: `n_whole_crops` of each task make the kinds `whole_table` and so on. Readings are greedy,
    drafts fixed windows of `block_size` (None: the checkpoint's own), so that TPF is that of equation (5); `draft_head`
    lets the checkpoint's head draft. `cdm` scores formulas by what TeX renders of them. `identity` also reads all of it
    by the plain AR path, and compares. Where TPF over all kinds falls by more than the share `max_tpf_fall` since step
    0 the run is flagged, or stops. *Units*: `max_tokens` a sequence.
    """

    every: int = 50
    n_crops: int = 64
    pool: str | None = None
    n_samples: int = 0
    whole_crops: str | None = None
    n_whole_crops: int = 64
    cdm: bool = False
    identity: bool = False
    block_size: int | None = None
    draft_head: bool = False
    max_tokens: int = 2048
    max_tpf_fall: float = 0.02
    on_tpf_fall: Literal["flag", "stop"] = "flag"
    seed: int = 0

    def __post_init__(self) -> None:
        check_numbers(
            self, "evaluation.", optional=("block_size",), every=(1, 10**9), n_crops=(1, 10**6), n_samples=(0, 1000),
            n_whole_crops=(1, 10**6), block_size=(1, 256), max_tokens=(1, 65536), max_tpf_fall=(0.0, 1.0),
            seed=(0, 2**63 - 1),
        )  # fmt: skip
        for name in ("pool", "whole_crops"):
            if getattr(self, name) == "":
                raise ConfigError(f"evaluation.{name} is empty; name it, or leave it out")
        if self.on_tpf_fall not in ("flag", "stop"):
            raise ConfigError(f"evaluation.on_tpf_fall is {self.on_tpf_fall!r}; choose flag or stop")


@dataclass(frozen=True)
class Evaluation:
    """The records of all regions, their figures (see `summarize`), and the seconds that it took."""

    records: tuple[RegionRecord, ...]
    summary: Summary
    seconds: float


def check_tools(config: EvaluationConfig) -> None:
    """Prove, before anything is trained, that what an evaluation needs is there.

    *Raises*: ConfigError where CDM is asked for and TeX is missing or draws otherwise than it must.
    """
    if config.cdm:
        try:
            check_toolchain(CdmConfig())
        except ConfigError as error:
            raise ConfigError(f"evaluation.cdm: {error}; or leave CDM out with evaluation.cdm = false") from error


def held_out(config: EvaluationConfig, pool: str) -> dict[str, list[LabelledRegion]]:
    """Return the regions that are evaluated, by kind; `pool` is the one of the prompts.

    *Raises*: InputError where a split or file is missing or broken, holds no region with a target, or an id twice.
    """
    name = config.pool or pool
    try:
        files = pool_files(name, "validation", "evaluation.pool" if config.pool else "prompts.pool")
    except InputError as error:
        raise InputError(f"no held-out regions: {error}; or name another pool with evaluation.pool") from error
    kinds: dict[str, list[LabelledRegion]] = dict(_drawn(files, config.n_crops, config.seed))
    if not kinds:
        raise InputError(f"evaluation: pool {name!r}: its validation split holds no target; make the pool again")
    if config.whole_crops is not None:
        whole = dict(_drawn(region_files(Path(config.whole_crops)), config.n_whole_crops, config.seed))
        if not whole:
            raise InputError(f"evaluation.whole_crops: {config.whole_crops} holds no region with a target")
        kinds |= {WHOLE + task: regions for task, regions in whole.items()}
    for kind, regions in kinds.items():
        ids = Counter(region.region_id for region in regions)
        name, n = ids.most_common(1)[0]
        if n > 1:
            raise InputError(f"evaluation: {n} held-out regions of kind {kind} are called {name}; give each its own id")
    return kinds


def _drawn(files: Sequence[Path], n: int, seed: int) -> Iterator[tuple[str, list[LabelledRegion]]]:
    """Draw regions of each task by seed and name: more hold those of fewer; they come in the order of the files."""
    opened = [RegionFile(file) for file in files]
    places: dict[str, list[tuple[int, int, int]]] = {}
    for number, file in enumerate(opened):
        columns = file.columns("task", "region_id", "target", "target_origin")
        for row, (task, name, target, origin) in enumerate(zip(*columns.values(), strict=True)):
            if has_target(target, origin):
                places.setdefault(task, []).append((key_of(seed, name), number, row))
    for task in TASKS:
        mine = sorted(places.get(task, []))[:n]
        if mine:
            yield task, [opened[number][row] for number, row in sorted(place[1:] for place in mine)]


def reading_engine(engine: Engine, config: EvaluationConfig) -> Engine:
    """Return an engine of the same weights that reads greedily, with drafts of fixed windows.

    *Raises*: ConfigError where the draft head is asked for and the checkpoint has none.
    """
    plain = EngineConfig()
    return engine.with_config(
        decode="self-spec", draft="diffusion", windows="fixed", block_size=config.block_size, n_candidates=0,
        draft_steps=1, draft_head=config.draft_head, max_tokens=config.max_tokens, sampling=plain.sampling,
        log_probs=False, trace=False, stop_strings=(), acceptance_profile=None, exact_tokens=None,
    )  # fmt: skip


def evaluate(
    engine: Engine, regions: Regions, config: EvaluationConfig, rewards: RewardSettings = PAPER
) -> Evaluation:
    """Read regions greedily and score what was read; one that cannot be read or scored is recorded as failed.

    *Raises*: ConfigError where the draft head or TeX is asked for and missing.
    """
    start = time.perf_counter()
    reader = reading_engine(engine, config)
    plain = reader.with_config(decode="ar", draft_head=False, draft="auto") if config.identity else None
    records: list[RegionRecord] = []
    for kind, members in regions.items():
        read = _read_whole if kind.startswith(WHOLE) else _read_uncut
        for first in range(0, len(members), BATCH):
            batch = members[first : first + BATCH]
            readings = _singly_if_need_be(read, reader, batch)
            same = _singly_if_need_be(read, plain, batch) if plain is not None else None
            for place, (region, reading) in enumerate(zip(batch, readings, strict=True)):
                identical = same[place].ids == reading.ids if same is not None and not reading.failed else None
                records.append(_scored(region, kind, reading, identical, rewards))
    if config.n_samples:
        records = _with_samples(records, reader, regions, config, rewards)
    if config.cdm:
        records = _with_cdm(records)
    return Evaluation(tuple(records), summarize(records), time.perf_counter() - start)


def tpf_alarm(config: EvaluationConfig, before: Summary, now: Summary) -> str | None:
    """Say by how much TPF fell since `before`, where that is more than the configuration allows; else None."""
    fall = tpf_fall(before, now)
    if fall <= config.max_tpf_fall:
        return None
    kinds = {kind: (before["kinds"].get(kind, {}).get("tpf"), one.get("tpf")) for kind, one in now["kinds"].items()}
    shown = ", ".join(f"{kind} {a:.2f} to {b:.2f}" for kind, (a, b) in kinds.items() if a and b)
    values = f"{before['all']['tpf']:.3f} to {now['all']['tpf']:.3f}"
    return f"TPF fell by {fall:.1%} ({values}; {shown}), more than evaluation.max_tpf_fall {config.max_tpf_fall:.1%}"


@dataclass(frozen=True)
class _Reading:
    """What was read of a region; `counts` are fields of its record."""

    text: str = ""
    ids: tuple[tuple[int, ...], ...] = ()
    fields: Mapping[str, Any] | None = None
    error: str | None = None

    @property
    def failed(self) -> bool:
        return self.fields is None


_Read = Callable[[Engine, Sequence[LabelledRegion]], list[_Reading]]


def _singly_if_need_be(read: _Read, engine: Engine, regions: Sequence[LabelledRegion]) -> list[_Reading]:
    """Read regions together, and each by itself where that fails: one alone may be at fault."""
    try:
        return read(engine, regions)
    except _NO_READING as error:
        if len(regions) == 1:
            return [_Reading(error=f"{error}")]
    return [one for region in regions for one in _singly_if_need_be(read, engine, [region])]


def _read_uncut(engine: Engine, regions: Sequence[LabelledRegion]) -> list[_Reading]:
    most = engine.config.max_tokens
    crops = [UncutCrop(Crop(region.picture(), region.task), most) for region in regions]
    readings = []
    for (one,) in read_uncut(engine, crops):
        fields = {
            "status": "ok" if one.finish == "stop" else "truncated",
            "n_tokens": len(one.ids),
            "n_decoded": len(one.ids) - 1,
            **{name: getattr(one, name) for name in ("n_forwards", "n_rounds", "n_accepted")},
        }
        readings.append(_Reading(text_of(engine, one), (tuple(one.ids),), fields))
    return readings


def _read_whole(engine: Engine, regions: Sequence[LabelledRegion]) -> list[_Reading]:
    readings = []
    for one in engine.recognize([Crop(region.picture(), region.task) for region in regions]):
        if one.status in ("failed", "skipped"):
            readings.append(_Reading(error=one.error))
            continue
        names = ("status", "error", "n_tokens", "n_decoded", "n_forwards", "n_rounds", "n_accepted")
        readings.append(_Reading(one.text, one.ids, {name: getattr(one, name) for name in names}))
    return readings


def _scored(
    region: LabelledRegion, kind: str, reading: _Reading, identical: bool | None, rewards: RewardSettings
) -> RegionRecord:
    ref, pred, task = region.target, reading.text, region.task
    record = RegionRecord(region.region_id, kind, task, ref, pred, "failed", reading.error)
    if reading.fields is None:
        return record
    try:
        scores = _scores(task, pred, ref, rewards)
    except NO_REWARD as error:
        return replace(record, error=f"its scores cannot be computed: {error!r}")
    return replace(record, **reading.fields, **scores, identical=identical)


def _scores(task: Task, pred: str, ref: str, rewards: RewardSettings) -> dict[str, Any]:
    whole_pred, whole_ref = as_tables(pred, ref) if task == "table" else (pred, ref)
    scores = {
        "reward": reward_of(task, pred, ref, rewards),
        "ned": text_edit(whole_pred, whole_ref, task).ned,
        "ned_plain": ned(fold_whitespace(pred), fold_whitespace(ref)),
    }
    if task == "table":
        teds = score_teds(whole_pred, whole_ref)
        scores |= {"teds": teds.teds, "teds_struct": teds.teds_struct}
    return scores


def as_tables(pred: str, ref: str) -> tuple[str, str]:
    """Put bare rows, which a small network reads of a piece, into a table each; only where the reference is such.

    >>> as_tables("<tr></tr>", "<tr><td>a</td></tr>")
    ('<table><tr></tr></table>', '<table><tr><td>a</td></tr></table>')
    >>> as_tables("<tr></tr>", "<table><tr><td>a</td></tr></table>")[0]
    '<tr></tr>'
    """
    if "<table" in ref:
        return pred, ref
    wrapped = pred if "<table" in pred else f"<table>{pred}</table>"
    return wrapped, f"<table>{ref}</table>"


def _with_samples(
    records: Sequence[RegionRecord], reader: Engine, regions: Regions, config: EvaluationConfig, rewards: RewardSettings
) -> list[RegionRecord]:
    """Add the mean reward of samples, where there are any; the noise of a region is the same in every evaluation."""
    sampler = reader.with_config(decode="ar", draft_head=False, draft="auto")
    by_id = {(kind, region.region_id): region for kind, members in regions.items() for region in members}
    scored = list(records)
    places = [place for place, one in enumerate(records) if one.is_read and not one.kind.startswith(WHOLE)]
    for first in range(0, len(places), BATCH):
        batch = places[first : first + BATCH]
        members = [by_id[records[place].kind, records[place].region_id] for place in batch]
        for place, reward in zip(batch, _mean_rewards(sampler, members, config, rewards), strict=True):
            scored[place] = replace(scored[place], sampled_reward=reward)
    return scored


def _mean_rewards(
    sampler: Engine, regions: Sequence[LabelledRegion], config: EvaluationConfig, rewards: RewardSettings
) -> list[float | None]:
    """Sample regions together, and each by itself where that fails; None for one that is at fault."""
    banned = banned_tokens(sampler)
    try:
        asked = [
            UncutCrop(
                Crop(region.picture(), region.task), config.max_tokens,
                tuple(seed_of(config.seed, region.region_id, number) for number in range(config.n_samples)),
                banned=banned,
            )
            for region in regions
        ]  # fmt: skip
        means: list[float | None] = []
        for region, row in zip(regions, read_uncut(sampler, asked), strict=True):
            earned = [reward_of(region.task, text_of(sampler, one), region.target, rewards) for one in row]
            means.append(math.fsum(earned) / len(earned))
    except _NO_SAMPLES:
        return [None] if len(regions) == 1 else [
            mean for region in regions for mean in _mean_rewards(sampler, [region], config, rewards)
        ]  # fmt: skip
    return means


def _with_cdm(records: Sequence[RegionRecord]) -> list[RegionRecord]:
    """Score the formulas that were read; a reference that cannot be rendered has no score."""
    places = [place for place, one in enumerate(records) if one.task == "formula" and one.is_read]
    scored = list(records)
    with CdmScorer(CdmConfig()) as scorer:
        scores = scorer.score([(records[place].pred, records[place].ref) for place in places])
    for place, score in zip(places, scores, strict=True):
        scored[place] = replace(scored[place], cdm=None if score.status in _NO_REFERENCE else score.f1)
    return scored
