"""Two evaluations of the same regions against each other: paired differences with intervals, and what changed most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravityocr.errors import InputError
from gravityocr.metrics.runs.confidence import BootstrapConfig, Interval, axis_intervals, mean_interval
from gravityocr.rl.evaluation_records import ALL, RegionRecord, kinds_of

MEANS = ("reward", "sampled_reward", "teds", "teds_struct", "cdm", "ned", "ned_plain")
RATIOS = {"tpf": ("n_decoded", "n_forwards"), "accepted": ("n_accepted", "n_rounds")}
Pair = tuple[RegionRecord, RegionRecord]


@dataclass(frozen=True)
class Change:
    """A figure before and after, over the `n` regions that have it both times.

    `low` and `high` bound the difference with 95 % confidence, None where one region leaves nothing to draw from.
    `relative`, with `relative_low` and `relative_high`, is the difference as a share of the value before; only of
    ratios.
    """

    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    n: int
    excludes_0: bool
    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None


@dataclass(frozen=True)
class KindChange:
    """How one kind changed: `figures` by name, and how many regions were cut or not read, before and after."""

    n_pairs: int
    figures: dict[str, Change]
    n_truncated: tuple[int, int]
    n_failed: tuple[int, int]


@dataclass(frozen=True)
class Comparison:
    """The change of each kind, and of `all` of them; `n_unpaired` regions were in one of the evaluations alone."""

    kinds: dict[str, KindChange]
    n_unpaired: int


def compare(
    before: Sequence[RegionRecord], after: Sequence[RegionRecord], bootstrap: BootstrapConfig | None = None
) -> Comparison:
    """Compare two evaluations region by region.

    Means are over the regions that were read both times; their intervals come from drawing regions again. TPF and
    accepted drafts are ratios of sums, before and after from the same draws. Pieces that were cut from one table are
    drawn as if they had nothing in common; whole crops are what they seem.

    *Raises*: InputError where the evaluations have no region in common, or not the same reference for one.
    """
    pairs = paired(before, after)
    n_unpaired = len(before) + len(after) - 2 * len(pairs)
    groups = {kind: [pair for pair in pairs if pair[0].kind == kind] for kind in kinds_of([one for one, _ in pairs])}
    if len(groups) > 1:
        groups[ALL] = pairs
    return Comparison({kind: _kind_change(group, bootstrap) for kind, group in groups.items()}, n_unpaired)


def paired(before: Sequence[RegionRecord], after: Sequence[RegionRecord]) -> list[Pair]:
    """Return the records of regions that both evaluations have, in the order of the first.

    *Raises*: InputError where there is none, one comes twice, or the references differ.
    """
    later = _by_region(after)
    pairs = [(one, later[key]) for key, one in _by_region(before).items() if key in later]
    if not pairs:
        raise InputError("the two evaluations have no region in common; compare those of one run")
    for one, other in pairs:
        if one.ref != other.ref:
            what = f"region {one.region_id} ({one.kind}) has another reference in each of the evaluations"
            raise InputError(f"{what}; evaluate both on the same regions")
    return pairs


def _by_region(records: Sequence[RegionRecord]) -> dict[tuple[str, str], RegionRecord]:
    found: dict[tuple[str, str], RegionRecord] = {}
    for one in records:
        key = (one.kind, one.region_id)
        if key in found:
            raise InputError(f"region {one.region_id} ({one.kind}) occurs twice in an evaluation; evaluate again")
        found[key] = one
    return found


def _kind_change(pairs: Sequence[Pair], bootstrap: BootstrapConfig | None) -> KindChange:
    read = [pair for pair in pairs if pair[0].is_read and pair[1].is_read]
    figures: dict[str, Change] = {}
    for name in MEANS:
        change = _mean_change(name, read, bootstrap)
        if change is not None:
            figures[name] = change
    for name, parts in RATIOS.items():
        change = _ratio_change(parts, read, bootstrap)
        if change is not None:
            figures[name] = change
    cut, failed = (
        (sum(is_so(one) for one, _ in pairs), sum(is_so(one) for _, one in pairs))
        for is_so in (lambda one: one.is_cut, lambda one: not one.is_read)
    )
    return KindChange(len(pairs), figures, cut, failed)


def _mean_change(name: str, pairs: Sequence[Pair], bootstrap: BootstrapConfig | None) -> Change | None:
    values = [(getattr(one, name), getattr(other, name)) for one, other in pairs]
    values = [(first, last) for first, last in values if first is not None and last is not None]
    interval = mean_interval([last - first for first, last in values], config=bootstrap)
    if interval is None:
        return None
    first, last = (math.fsum(column) / len(values) for column in zip(*values, strict=True))
    return Change(first, last, interval.value, interval.low, interval.high, interval.n, _excludes_0(interval))


def _ratio_change(parts: tuple[str, str], pairs: Sequence[Pair], bootstrap: BootstrapConfig | None) -> Change | None:
    above, below = parts
    pairs = [pair for pair in pairs if getattr(pair[0], below) or getattr(pair[1], below)]
    axes = {f"{side} {part}": [float(getattr(pair[side], part)) for pair in pairs] for side in (0, 1) for part in parts}
    if not all(sum(axes[f"{side} {below}"]) for side in (0, 1)):
        return None

    def ratios(means: Mapping[str, NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        first, last = (_divide(means[f"{side} {above}"], means[f"{side} {below}"]) for side in (0, 1))
        return first, last

    def difference(means: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        first, last = ratios(means)
        return last - first

    def share(means: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        first, last = ratios(means)
        return _divide(last - first, first)

    found = axis_intervals(axes, difference, bootstrap)["overall"]
    relative = axis_intervals(axes, share, bootstrap).get("overall")
    before, after = (sum(axes[f"{side} {above}"]) / sum(axes[f"{side} {below}"]) for side in (0, 1))
    change = Change(before, after, found.value, found.low, found.high, len(pairs), _excludes_0(found))
    if relative is None:
        return change
    return Change(
        change.before, change.after, change.difference, change.low, change.high, change.n, change.excludes_0,
        relative.value, relative.low, relative.high,
    )  # fmt: skip


def _divide(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=np.asarray(below) > 0)


def _excludes_0(interval: Interval) -> bool:
    bounds = interval.bounds
    return bounds is not None and (bounds[0] > 0 or bounds[1] < 0)


def changed_most(before: Sequence[RegionRecord], after: Sequence[RegionRecord], n: int) -> dict[str, Any]:
    """Return by kind the `n` regions whose reward rose most (`better`) and fell most (`worse`), the largest first."""
    pairs = [pair for pair in paired(before, after) if pair[0].reward is not None and pair[1].reward is not None]
    found: dict[str, Any] = {}
    for kind in kinds_of([one for one, _ in pairs]):
        rises = [(_rise(pair), pair) for pair in pairs if pair[0].kind == kind]
        better = sorted((one for one in rises if one[0] > 0), key=lambda one: -one[0])[:n]
        worse = sorted((one for one in rises if one[0] < 0), key=lambda one: one[0])[:n]
        found[kind] = {
            "n_better": sum(rise > 0 for rise, _ in rises),
            "n_worse": sum(rise < 0 for rise, _ in rises),
            "n_equal": sum(rise == 0 for rise, _ in rises),
            "better": [_sample(*pair) for _, pair in better],
            "worse": [_sample(*pair) for _, pair in worse],
        }
    return found


def _rise(pair: Pair) -> float:
    first, last = pair[0].reward, pair[1].reward
    return last - first if first is not None and last is not None else 0.0


def _sample(one: RegionRecord, other: RegionRecord) -> dict[str, Any]:
    sample: dict[str, Any] = {"region_id": one.region_id, "ref": one.ref, "before": one.pred, "after": other.pred}
    for name in MEANS:
        first, last = getattr(one, name), getattr(other, name)
        if first is not None and last is not None:
            sample[name] = [first, last]
    return sample
