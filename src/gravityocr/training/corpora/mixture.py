"""Which regions a pool takes, and in which order: duplicates, split by document, mixture, shuffle.

All of it works on an index of 50 bytes a region, without pictures. Every draw is a hash of the seed and of what the
region holds, never of where it lay: the same regions and seed give the same pool whatever files they came in, and a
document stays on its side of the split when others are added.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from gravityocr.config import check_numbers
from gravityocr.document import Task
from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.region_shards import TASKS, LabelledRegion, TargetOrigin

Keys: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]
ORIGINS: tuple[TargetOrigin, ...] = get_args(TargetOrigin)
Fate = Literal["train", "validation", "duplicate", "repeated_id", "not_sampled"]
FATES: tuple[Fate, ...] = get_args(Fate)
_SPLIT, _SAMPLE, _ORDER = 1, 2, 3  # what a draw is for
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


@dataclass(frozen=True)
class MixtureConfig:
    """The shares of the tasks in training; a task of share 0 is left out.

    The task that is scarcest for its share is kept whole, and the others are subsampled to theirs, so that the shares
    hold. `shortfall = "keep"`: the task of the largest share is kept whole instead, and one that is too scarce for its
    share has what there is.
    *Source*: section 6: table and formula each subsampled once to a third of text.
    """

    text: float = 0.6
    table: float = 0.2
    formula: float = 0.2
    shortfall: Literal["shrink", "keep"] = "shrink"

    def __post_init__(self) -> None:
        check_numbers(self, "mixture.", text=(0.0, 1e6), table=(0.0, 1e6), formula=(0.0, 1e6))
        if not any(self.weights().values()):
            raise ConfigError("mixture: all shares are 0; give one task a share at least")

    def weights(self) -> dict[Task, float]:
        """Return the share of each task, not normalised."""
        return {"text": self.text, "table": self.table, "formula": self.formula}


@dataclass(frozen=True)
class SplitConfig:
    """The internal validation set: whole documents, `share` of them, but no more than `n_pages` pages.

    At least one document is taken where there are two, unless `n_pages` or `share` is 0.
    *Source*: section 6: 1,000 pages.
    """

    n_pages: int = 1000
    share: float = 0.05

    def __post_init__(self) -> None:
        check_numbers(self, "validation.", n_pages=(0, 10**9), share=(0.0, 1.0))


@dataclass(frozen=True)
class RegionIndex:
    """What a pool must know of its candidates, one entry a region.

    `digest` stands for picture, task and target, `identity` for the region's id, `document` and `page` for source and
    document (and page); `unit` and `row` say where it lies, `source`, `task` and `origin` are numbers of names.
    """

    unit: NDArray[np.int32]
    row: NDArray[np.int32]
    n_bytes: NDArray[np.int32]
    source: NDArray[np.int32]
    task: NDArray[np.uint8]
    origin: NDArray[np.uint8]
    digest: Keys
    identity: Keys
    document: Keys
    page: Keys

    def __len__(self) -> int:
        return len(self.digest)

    @classmethod
    def joined(cls, parts: Sequence[RegionIndex]) -> RegionIndex:
        """Return several indices as one."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


@dataclass(frozen=True)
class PoolPlan:
    """The pool's regions in their final order, as numbers of index entries, and the fate of every entry.

    *Shapes*: fate [n] of numbers of `FATES`. `available` counts the training candidates of each task.
    """

    train: Numbers
    validation: Numbers
    fate: NDArray[np.uint8]
    available: Mapping[Task, int]


def key_of(*parts: str | bytes | int) -> int:
    """Return 64 bits that stand for some values in their order."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", errors="surrogatepass")
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return int.from_bytes(state.digest(), "little")


def region_keys(region: LabelledRegion) -> tuple[int, int, int, int]:
    """Return digest, identity, document and page of a region, as `RegionIndex` has them."""
    return (
        key_of(region.image, region.task, region.target),
        key_of(region.region_id),
        key_of(region.source, region.doc_id),
        key_of(region.source, region.doc_id, region.page),
    )


def drawn(keys: Keys, seed: int, purpose: int) -> Keys:
    """Return a pseudo-random number for each key, the same for the same seed and purpose.

    *Source*: the finaliser of SplitMix64 (Steele et al. 2014).
    """
    salt = key_of(seed, purpose)
    x = keys ^ np.uint64(salt)
    x = x + np.uint64(_GOLDEN)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def plan_pool(index: RegionIndex, seed: int, mixture: MixtureConfig, split: SplitConfig) -> PoolPlan:
    """Decide the fate of every candidate and the order of those that are taken.

    *Raises*: MissingTasksError where no region is left for a task of the mixture.
    """
    fate = np.full(len(index), FATES.index("train"), dtype=np.uint8)
    # The first of equals stays; np.unique returns the first of each.
    is_first = np.zeros(len(index), dtype=np.bool_)
    is_first[np.unique(index.digest, return_index=True)[1]] = True
    fate[~is_first] = FATES.index("duplicate")
    candidates = np.flatnonzero(is_first)
    named_first = candidates[np.unique(index.identity[candidates], return_index=True)[1]]
    fate[np.setdiff1d(candidates, named_first)] = FATES.index("repeated_id")
    candidates = np.sort(named_first)
    held = held_documents(index.document[candidates], index.page[candidates], seed, split)
    is_held = np.isin(index.document[candidates], held)
    fate[candidates[is_held]] = FATES.index("validation")
    rest = candidates[~is_held]
    n_available = _by_task(index, rest)
    try:
        n_wanted = mixture_counts(n_available, mixture)
    except MissingTasksError as error:
        n_held = _by_task(index, candidates[is_held])
        lost = [f"{n_held[task]} {task}" for task in error.tasks if n_held[task]]
        what = f"the validation split holds all there are: {', '.join(lost)}; --set validation.share=0 frees them"
        raise error.because(what if lost else "") from error
    ranks = drawn(index.digest, seed, _SAMPLE)
    for task, n in n_wanted.items():
        members = rest[index.task[rest] == TASKS.index(task)]
        order = np.argsort(ranks[members], kind="stable")
        fate[members[order[n:]]] = FATES.index("not_sampled")
    places = drawn(index.digest, seed, _ORDER)
    taken: list[Numbers] = []
    for name in ("train", "validation"):
        chosen = np.flatnonzero(fate == FATES.index(name))
        taken.append(chosen[np.argsort(places[chosen], kind="stable")])
    return PoolPlan(taken[0], taken[1], fate, n_available)


def _by_task(index: RegionIndex, entries: Numbers) -> dict[Task, int]:
    return {task: int((index.task[entries] == TASKS.index(task)).sum()) for task in TASKS}


def held_documents(documents: Keys, pages: Keys, seed: int, split: SplitConfig) -> Keys:
    """Return the documents of the validation set: those of the lowest draws, up to the limits.

    Adding data never moves a document into training that `share` alone had held; `n_pages` may push the ones of the
    highest draws out when others of lower draws come in.
    """
    names = np.unique(documents)
    if len(names) < 2 or not split.n_pages or not split.share:
        return names[:0]
    pairs = np.unique(np.stack([documents, pages], axis=1), axis=0)
    n_pages = np.unique(pairs[:, 0], return_counts=True)[1]
    draws = drawn(names, seed, _SPLIT)
    order = np.argsort(draws, kind="stable")
    within_share = draws[order] <= np.uint64(min(_MASK, int(split.share * 2.0**64)))
    fits = within_share & (np.cumsum(n_pages[order]) <= split.n_pages)
    # Never all of them: something must be left to train on.
    n_held = min(max(1, int(fits.sum())), len(names) - 1)
    return names[order[:n_held]]


class MissingTasksError(InputError):
    """Nothing is left of some tasks of the mixture; `settings` are the ones with which the rest makes a pool."""

    def __init__(
        self, tasks: Sequence[Task], settings: tuple[str, ...], shares: Sequence[float], why: str = ""
    ) -> None:
        self.tasks, self.settings, self._shares, self.why = tuple(tasks), settings, tuple(shares), why
        names = " and ".join(f"no {task}" for task in tasks)
        of = ("their shares" if len(tasks) > 1 else "its share") + " of " + " and ".join(f"{one:g}" for one in shares)
        options = " ".join(f"--set {setting}" for setting in settings)
        remedy = f"add data, or leave them out: {options}" if settings else "nothing else is left either; add data"
        super().__init__(f"{names} region is left for {of}{f' ({why})' if why else ''}; {remedy}")

    def because(self, why: str) -> MissingTasksError:
        """Return the error with what became of the regions."""
        return MissingTasksError(self.tasks, self.settings, self._shares, why)


def check_tasks(available: Mapping[Task, int], mixture: MixtureConfig) -> None:
    """Check that there are regions for every task of the mixture, or for one of them where that is enough.

    *Raises*: MissingTasksError naming all that have none.
    """
    weights = {task: weight for task, weight in mixture.weights().items() if weight}
    missing = [task for task in weights if not available.get(task)]
    if not missing or (mixture.shortfall == "keep" and len(missing) < len(weights)):
        return
    present = [task for task in TASKS if available.get(task)]
    settings = [f"mixture.{task}=0" for task in missing] if present else []
    if not any(task in weights for task in present):
        settings += [f"mixture.{task}=1" for task in present]
    raise MissingTasksError(missing, tuple(settings), [weights[task] for task in missing])


def mixture_counts(available: Mapping[Task, int], mixture: MixtureConfig) -> dict[Task, int]:
    """Return how many regions of each task are taken.

    *Raises*: MissingTasksError where a task of the mixture has none (and others may not make up for it).

    >>> mixture_counts({"text": 649, "table": 290, "formula": 289}, MixtureConfig())
    {'text': 649, 'table': 216, 'formula': 216}
    """
    weights = {task: weight for task, weight in mixture.weights().items() if weight}
    check_tasks(available, mixture)
    present = [task for task in weights if available.get(task)]
    anchor = (
        min(present, key=lambda task: available[task] / weights[task])
        if mixture.shortfall == "shrink"
        else max(present, key=lambda task: weights[task])
    )
    scale = available[anchor] / weights[anchor]
    counts: dict[Task, int] = {}
    for task in TASKS:
        wanted = math.floor(weights.get(task, 0.0) * scale + 0.5)
        counts[task] = min(available.get(task, 0), available[anchor] if task == anchor else wanted)
    return counts
