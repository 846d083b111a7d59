"""How far a score may be trusted: bootstrap confidence intervals over pages.

Pages, not the elements on them, are drawn: elements of one page fail together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gravityocr.errors import ConfigError

Array = NDArray[np.float64]
FEW = 30  # below, percentile intervals are known to be too short
_CHUNK = 2_000_000  # drawn indices held at a time: 16 MB


@dataclass(frozen=True)
class BootstrapConfig:
    """How often pages are drawn again, from which seed, and how much of the draws an interval holds.

    *Raises*: ConfigError for values out of range.
    """

    n_draws: int = 2000
    seed: int = 0
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.n_draws < 1:
            raise ConfigError(f"bootstrap.n_draws is {self.n_draws}; choose at least 1")
        if not 0 < self.level < 1:
            raise ConfigError(f"bootstrap.level is {self.level}; choose a share between 0 and 1, such as 0.95")


@dataclass(frozen=True)
class Interval:
    """A statistic and its confidence interval; `n` counts the pages (or samples) that it rests on.

    `low` and `high` are None where fewer than two pages leave nothing to draw from.
    """

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return (low, high), None where there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def caution(self) -> str | None:
        """Say what is wrong with an interval of few pages, None where nothing is."""
        if self.bounds is None:
            return f"n = {self.n}: no interval" + (", for a part rests on one page alone" if self.n > 1 else "")
        return f"n = {self.n}: few, the interval is a rough guide" if self.n < FEW else None


def mean_interval(
    values: Sequence[float], groups: Sequence[Hashable] | None = None, config: BootstrapConfig | None = None
) -> Interval | None:
    """Return the mean of `values` with its interval, None where there are none.

    Values of one group (a page) are drawn together, so the mean is one over values, its spread one over groups.
    Without groups every value is its own.
    """
    if groups is None:
        return ratio_interval(values, [1.0] * len(values), config)
    sums: dict[Hashable, float] = {}
    counts: dict[Hashable, float] = {}
    for value, group in zip(values, groups, strict=True):
        sums[group] = sums.get(group, 0.0) + value
        counts[group] = counts.get(group, 0.0) + 1
    return ratio_interval(list(sums.values()), list(counts.values()), config)


def ratio_interval(
    numerators: Sequence[float], denominators: Sequence[float], config: BootstrapConfig | None = None
) -> Interval | None:
    """Return sum(numerators) / sum(denominators) with its interval; one entry a page.

    None where the denominators sum to nothing, which a draw may do too: such draws are left out. Of fewer than two
    pages there is a value, but no interval.
    """
    above, below = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    if above.shape != below.shape or above.ndim != 1:
        raise ValueError(f"{above.shape} numerators for {below.shape} denominators; hand one of each a page")
    if not below.sum() > 0:
        return None

    def ratio(drawn: NDArray[np.intp]) -> Array:
        return _divide(above[drawn].sum(axis=-1), below[drawn].sum(axis=-1))

    return _interval(ratio, len(above), math.fsum(above) / math.fsum(below), int((below > 0).sum()), config)


def axis_intervals(
    axes: Mapping[str, Sequence[float]],
    overall: Callable[[Mapping[str, Array]], Array] | None = None,
    config: BootstrapConfig | None = None,
) -> dict[str, Interval]:
    """Return each axis's mean over pages, and `overall` of those means, with intervals from the same draws.

    *Shapes*: every axis holds one number a page, NaN where the page has nothing of its kind and stays outside the
    mean. `overall` maps axis -> means `[n]` to `[n]` and is called once more with n = 1; its key is `overall`. An axis
    that is NaN on every page has no interval, and `overall` none where it is NaN.
    """
    table = {name: np.asarray(values, np.float64) for name, values in axes.items()}
    sizes = {len(values) for values in table.values()}
    if len(sizes) != 1:
        raise ValueError(f"axes of {sorted(sizes)} pages; hand one number a page and axis")
    n_pages = sizes.pop()

    def mean(name: str, drawn: NDArray[np.intp]) -> Array:
        values = table[name][drawn]
        known = ~np.isnan(values)
        return _divide(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1).astype(np.float64))

    def whole(drawn: NDArray[np.intp]) -> Array:
        assert overall is not None
        return np.asarray(overall({name: mean(name, drawn) for name in table}), np.float64)

    found: dict[str, Interval] = {}
    everything = np.arange(n_pages)[None]
    for name, values in table.items():
        n_known = int((~np.isnan(values)).sum())
        if n_known:
            value = float(mean(name, everything)[0])
            one = _interval(lambda drawn, name=name: mean(name, drawn), n_pages, value, n_known, config)  # type: ignore[misc]
            if one is not None:
                found[name] = one
    if overall is not None and n_pages:
        # A draw without the one page of an axis has no overall: its interval would know nothing of that axis.
        n_least = min((one.n for one in found.values()), default=0)
        one = _interval(whole, n_pages, float(whole(everything)[0]), n_pages if n_least > 1 else n_least, config)
        one = replace(one, n=n_pages) if one is not None else None
        if one is not None:
            found["overall"] = one
    return found


def _divide(above: Array, below: Array) -> Array:
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)


def _interval(
    statistic: Callable[[NDArray[np.intp]], Array], n_pages: int, value: float, n: int, config: BootstrapConfig | None
) -> Interval | None:
    """Draw pages with replacement, percentile method; the seed makes the same pages come for every statistic."""
    config = config or BootstrapConfig()
    if math.isnan(value):
        return None
    if n < 2:
        return Interval(value, None, None, n)
    random = np.random.default_rng(config.seed)
    n_rows = max(1, _CHUNK // n_pages)
    parts = []
    for start in range(0, config.n_draws, n_rows):
        size = (min(n_rows, config.n_draws - start), n_pages)
        parts.append(statistic(random.integers(0, n_pages, size=size)))
    draws = np.concatenate(parts)
    draws = draws[~np.isnan(draws)]
    if not len(draws):
        return Interval(value, value, value, n)
    low, high = np.quantile(draws, [(1 - config.level) / 2, (1 + config.level) / 2])
    return Interval(value, float(low), float(high), n)
