"""The prompt pool of GRPO: candidates, trials, and the draw of the prompts out of them.

`train/prompts-*.regions.parquet` of the pool's folder hold the prompts in their order, `prompts.json` the report, and
`trials.jsonl` the rewards of every candidate that was tried.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gravityocr.errors import ConfigError, InputError
from gravityocr.rl.prompt_candidates import Candidates, RegionReader, Source, read_candidates
from gravityocr.rl.prompt_choice import Candidate, Fate, PromptConfig, choose_prompts, signal_fate
from gravityocr.rl.prompt_report import prompt_report
from gravityocr.rl.rewards import reward_of
from gravityocr.rl.trials import TRIALS_FILE, Reward, Trial, TrialJournal, TrialProgress, Trials
from gravityocr.training.corpora.mixture import MissingTasksError, key_of
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, region_files, write_regions
from gravityocr.training.corpora.shard_outputs import read_side_json, write_json
from gravityocr.training.state import lock_folder
from gravityocr.training.writable import check_writable

if TYPE_CHECKING:
    from gravityocr.rl.rollouts import Sampler

REPORT = "prompts.json"
SPLIT = "train"
SHARD_REGIONS = 1024
_NO_MATTER = ("folder", "overwrite", "batch_regions")  # settings that change nothing in the prompts
_MARKED = ("pool", "benchmark")  # settings for which the mark of the contents stands, wherever they lie


def mine_prompts(
    config: PromptConfig,
    folder: Path,
    sampler: Sampler,
    checkpoint_mark: str,
    on_progress: Callable[[TrialProgress], None] = lambda progress: None,
    reward: Reward = reward_of,
) -> dict[str, Any]:
    """Write the prompt pool and return its report, which is `prompts.json` in it; a run that was killed goes on.

    `sampler` cuts its rollouts at `config.max_tokens`; `checkpoint_mark` stands for the weights that it samples from.
    `on_progress` is called before the first trial and after each. The same call once more returns the report of the
    pool that is there.

    *Raises*: InputError where the pool or the benchmark cannot be read or no prompt is left, ConfigError where the
    folder holds prompts or trials of other settings and `config.overwrite` is off, or another run is in it.
    """
    check_writable(folder, f"prompts.folder {folder}")
    with _locked(folder):
        source = Source.of(config)
        basis = _basis(config, source, checkpoint_mark)
        finished = _finished(folder, basis, overwrite=config.overwrite)
        if finished is not None:
            return finished
        found = read_candidates(source, config)
        header = {name: basis["settings"][name] for name in ("n_trials", "max_tokens", "seed")}
        header |= {"checkpoint": checkpoint_mark, "pool_mark": source.mark}
        seed = key_of(config.seed, "trials") >> 1  # below 2**63
        rounds = Trials(sampler, reward, config.n_trials, config.batch_regions, seed)
        start = time.perf_counter()
        with TrialJournal(folder / TRIALS_FILE, header, overwrite=config.overwrite) as journal:
            _try(found.todo, source, rounds, journal, on_progress)
            trials = journal.trials
        return _write_pool(folder, config, source, found, trials, basis, time.perf_counter() - start)


def prompt_files(folder: Path) -> list[Path]:
    """Return the region files of a finished prompt pool, in the order of the prompts.

    *Raises*: InputError where there is none.
    """
    if read_side_json(folder / REPORT) is None:
        raise InputError(f"{folder} holds no finished prompt pool; start the run again, it mines one")
    return region_files(folder / SPLIT)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        lock = lock_folder(folder)
    except ConfigError as error:
        raise ConfigError(f"another run mines prompts in {folder}; wait, or choose another prompts.folder") from error
    with lock:
        yield


def _basis(config: PromptConfig, source: Source, checkpoint_mark: str) -> dict[str, Any]:
    """Return what a prompt pool is made of, with a mark that stands for all of it."""
    settings = {name: value for name, value in asdict(config).items() if name not in _NO_MATTER}
    marks = {
        "checkpoint": checkpoint_mark, "pool_mark": source.mark,
        "benchmark_mark": source.index.fingerprint if source.index is not None else None,
    }  # fmt: skip
    telling = {name: value for name, value in settings.items() if name not in _MARKED}
    text = json.dumps([telling, marks], sort_keys=True)
    made_of = hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()
    return {"settings": settings, **marks, "made_of": made_of}


def _finished(folder: Path, basis: Mapping[str, Any], *, overwrite: bool) -> dict[str, Any] | None:
    report = read_side_json(folder / REPORT)
    if report is None:
        return None
    shards = [*(folder / SPLIT).glob(f"*{SUFFIX}")]
    if report.get("made_of") == basis["made_of"] and len(shards) == report.get("n_shards"):
        return report
    if not overwrite:
        remedy = "set prompts.overwrite = true to make them anew (trials that fit are kept), or another prompts.folder"
        raise ConfigError(f"{folder} holds prompts {_difference(report, basis)}; {remedy}")
    return None


def _difference(report: Mapping[str, Any], basis: Mapping[str, Any]) -> str:
    """Say in what a pool that is there differs from the one that is wanted."""
    names = {
        "checkpoint": "checkpoint or other rewards", "pool_mark": "content of prompts.pool",
        "benchmark_mark": "prompts.benchmark",
    }  # fmt: skip
    for name, what in names.items():
        if report.get(name) != basis[name]:
            return f"of another {what}"
    theirs = report.get("settings")
    for name, value in basis["settings"].items():
        if name not in _MARKED and isinstance(theirs, dict) and theirs.get(name) != value:
            return f"of another prompts.{name} ({theirs.get(name)!r}, now {value!r})"
    return "of which shards are missing"


def _try(
    todo: Sequence[Candidate],
    source: Source,
    rounds: Trials,
    journal: TrialJournal,
    on_progress: Callable[[TrialProgress], None],
) -> None:
    """Try the candidates that the journal has no trial of."""
    read = RegionReader(source)
    by_id = {candidate.region_id: candidate for candidate in todo}
    rest = [(one.region_id, one.task) for one in todo if one.region_id not in journal.trials]
    progress = TrialProgress(len(todo), len(todo) - len(rest))
    on_progress(progress)
    for trial in rounds.run(rest, lambda name: read(by_id[name]), journal):
        progress.count(trial)
        on_progress(progress)


def _write_pool(
    folder: Path,
    config: PromptConfig,
    source: Source,
    found: Candidates,
    trials: Mapping[str, Trial],
    basis: Mapping[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """Draw the prompts, write them and the report."""
    fates = _fates(found, trials, config)
    varied = [candidate for candidate in found.todo if fates[candidate.region_id] == "not_chosen"]
    if not varied:
        raise InputError(_nothing_left(config, found, fates, trials))
    try:
        chosen, wanted = choose_prompts(varied, trials, config)
    except MissingTasksError as error:
        names = " and ".join(error.tasks)
        settings = ", ".join(f"prompts.{task}_share = 0" for task in error.tasks)
        keep = 'set prompts.shortfall = "keep", ' if config.shortfall == "shrink" else ""
        remedy = f"add candidates, {keep}or leave them out: {settings}"
        raise InputError(f"no {names} prompt is left ({_told(fates.values())}); {remedy}") from error
    fates |= dict.fromkeys((one.region_id for one in chosen), "chosen")
    n_shards = _write_shards(folder, source, chosen)
    tried = [trials[one.region_id] for one in found.todo]
    report = prompt_report(config, source, found, fates, trials, wanted) | dict(basis)
    report |= {
        "inputs": [str(file.file) for file in source.files], "n_shards": n_shards,
        "seconds": {"trials": round(sum(trial.seconds for trial in tried), 3), "this_run": round(seconds, 3)},
    }  # fmt: skip
    write_json(folder / REPORT, report)
    return report


def _fates(found: Candidates, trials: Mapping[str, Trial], config: PromptConfig) -> dict[str, Fate]:
    """Return what becomes of the candidates that were tried; `not_chosen` are those of which prompts can be drawn."""
    fates: dict[str, Fate] = {}
    for candidate in found.todo:
        trial = trials[candidate.region_id]
        without_signal = "skipped" if trial.reason else signal_fate(trial, config.min_std)
        fates[candidate.region_id] = without_signal or "not_chosen"
    return fates


def _nothing_left(
    config: PromptConfig, found: Candidates, fates: Mapping[str, Fate], trials: Mapping[str, Trial]
) -> str:
    reasons = [trials[name].reason for name, fate in fates.items() if fate == "skipped"]
    reasons += [row["reason"] for row in found.skipped]
    what = _told([*fates.values(), *(fate for (fate, _), n in found.counts.items() for _ in range(n))])
    first = f"; the first that was skipped: {reasons[0]}" if reasons else ""
    if not found.n_by_task:
        return f"prompts.pool {config.pool!r}: the train split is empty; make the pool again, or name another one"
    remedy = "add candidates"
    if set(fates.values()) - {"skipped"}:  # that have rewards, which more trials may tell apart
        remedy += ", or raise prompts.n_trials"
    return f"prompts.pool {config.pool!r}: no prompt is left whose rewards differ ({what}{first}); {remedy}"


def _told(fates: Iterable[Fate]) -> str:
    return ", ".join(f"{n} {fate}" for fate, n in Counter(fates).most_common()) or "no candidate"


def _write_shards(folder: Path, source: Source, chosen: Sequence[Candidate]) -> int:
    """Write the prompts in their order, and put them in the place of what is there; return the number of shards."""
    part = folder / f"{SPLIT}.part"
    shutil.rmtree(part, ignore_errors=True)
    starts = range(0, len(chosen), SHARD_REGIONS)
    read = RegionReader(source)
    for number, start in enumerate(starts):
        write_regions(part / f"prompts-{number:05d}{SUFFIX}", _in_order(read, chosen[start : start + SHARD_REGIONS]))
    (folder / REPORT).unlink(missing_ok=True)  # it would speak of other prompts
    shutil.rmtree(folder / SPLIT, ignore_errors=True)
    part.replace(folder / SPLIT)
    return len(starts)


def _in_order(read: RegionReader, chosen: Sequence[Candidate]) -> list[LabelledRegion]:
    """Read regions as they lie in the files, and return them in the order of the prompts."""
    order = sorted(range(len(chosen)), key=lambda place: (chosen[place].file, chosen[place].row))
    regions = {place: read(chosen[place]) for place in order}
    return [regions[place] for place in range(len(chosen))]
