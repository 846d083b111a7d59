"""The plan of a pool: duplicates, split by document, exact mixtures, an order that only the seed decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.mixture import (
    FATES,
    MissingTasksError,
    MixtureConfig,
    RegionIndex,
    SplitConfig,
    drawn,
    held_documents,
    key_of,
    mixture_counts,
    plan_pool,
)
from gravityocr.training.corpora.region_shards import TASKS

KEEP = MixtureConfig(shortfall="keep")


def index_of(documents: list[int], tasks: list[int], digests: list[int] | None = None, n_pages: int = 3) -> RegionIndex:
    n = len(documents)
    digests = [key_of("digest", number) for number in range(n)] if digests is None else digests
    keys = np.array([key_of(document) for document in documents], dtype=np.uint64)
    pages = [key_of(document, number % n_pages) for number, document in enumerate(documents)]
    zeros = np.zeros(n, dtype=np.int32)
    return RegionIndex(
        unit=zeros,
        row=np.arange(n, dtype=np.int32),
        n_bytes=zeros + 100,
        source=zeros,
        task=np.array(tasks, dtype=np.uint8),
        origin=np.zeros(n, dtype=np.uint8),
        digest=np.array(digests, dtype=np.uint64),
        identity=np.array([key_of("id", number) for number in range(n)], dtype=np.uint64),
        document=keys,
        page=np.array(pages, dtype=np.uint64),
    )


REGIONS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=120)


@settings(max_examples=60, deadline=None)
@given(regions=REGIONS, seed=st.integers(0, 2**63 - 1), share=st.floats(0.0, 1.0), n_pages=st.integers(0, 40))
def test_no_document_is_on_both_sides(regions, seed: int, share: float, n_pages: int) -> None:
    index = index_of(*map(list, zip(*regions, strict=True)))
    plan = plan_pool(index, seed, KEEP, SplitConfig(n_pages, share))
    assert not {*index.document[plan.train]} & {*index.document[plan.validation]}
    assert len({*plan.train} | {*plan.validation}) == len(plan.train) + len(plan.validation)
    # Every region has one fate, and the fates of the taken ones are their splits.
    assert sorted(plan.train) == [*np.flatnonzero(plan.fate == FATES.index("train"))]
    assert sorted(plan.validation) == [*np.flatnonzero(plan.fate == FATES.index("validation"))]
    held = len({*index.document[plan.validation]})
    assert held <= 1 or len({*index.page[plan.validation]}) <= n_pages
    assert not held or (n_pages and share)


@settings(max_examples=40, deadline=None)
@given(regions=REGIONS, seed=st.integers(0, 2**32), shuffling=st.integers(0, 2**32))
def test_the_order_does_not_depend_on_where_regions_lay(regions, seed: int, shuffling: int) -> None:
    index = index_of(*map(list, zip(*regions, strict=True)))
    moved = np.random.default_rng(shuffling).permutation(len(index))
    other = RegionIndex(*(getattr(index, name)[moved] for name in RegionIndex.__dataclass_fields__))
    one, two = (plan_pool(each, seed, KEEP, SplitConfig()) for each in (index, other))
    assert [*index.digest[one.train]] == [*other.digest[two.train]]
    assert [*index.digest[one.validation]] == [*other.digest[two.validation]]


@settings(max_examples=100, deadline=None)
@given(
    available=st.tuples(*[st.integers(1, 10_000)] * 3),
    shares=st.tuples(*[st.integers(1, 100)] * 3),
)
def test_the_scarcest_task_is_whole_and_the_shares_hold(available, shares) -> None:
    given_counts = dict(zip(TASKS, available, strict=True))
    mixture = MixtureConfig(**{task: float(share) for task, share in zip(TASKS, shares, strict=True)})
    counts = mixture_counts(given_counts, mixture)
    assert any(counts[task] == given_counts[task] for task in TASKS)
    scale = min(given_counts[task] / mixture.weights()[task] for task in TASKS)
    for task in TASKS:
        assert 0 <= counts[task] <= given_counts[task]
        assert abs(counts[task] - mixture.weights()[task] * scale) <= 0.5 + 1e-6


def test_the_papers_mixture() -> None:
    found = mixture_counts({"text": 6_490_000, "table": 2_900_000, "formula": 2_890_000}, MixtureConfig())
    assert found == {"text": 6_490_000, "table": 2_163_333, "formula": 2_163_333}
    assert round(sum(found.values()) / 1e6, 1) == 10.8


def test_shortfalls_shrink_the_others_or_are_kept() -> None:
    few = {"text": 600, "table": 20, "formula": 500}
    assert mixture_counts(few, MixtureConfig()) == {"text": 60, "table": 20, "formula": 20}
    assert mixture_counts(few, KEEP) == {"text": 600, "table": 20, "formula": 200}
    assert mixture_counts(few, MixtureConfig(table=0.0)) == {"text": 600, "table": 0, "formula": 200}
    none = {"text": 600, "table": 0, "formula": 500}
    with pytest.raises(InputError, match=r"no table region is left for its share of 0\.2; .* --set mixture\.table=0$"):
        mixture_counts(none, MixtureConfig())
    assert mixture_counts(none, KEEP) == {"text": 600, "table": 0, "formula": 200}
    with pytest.raises(InputError, match="no text and no table and no formula region .* nothing else is left"):
        mixture_counts({"text": 0, "table": 0, "formula": 0}, KEEP)
    with pytest.raises(MissingTasksError, match=r"no table and no formula region .* shares of 0\.2 and 0\.2") as told:
        mixture_counts({"text": 600}, MixtureConfig())
    assert told.value.tasks == ("table", "formula")
    assert told.value.settings == ("mixture.table=0", "mixture.formula=0")
    with pytest.raises(MissingTasksError) as told:  # all that is there has no share yet
        mixture_counts({"table": 9}, MixtureConfig(1.0, 0.0, 0.0))
    assert told.value.settings == ("mixture.text=0", "mixture.table=1")
    with pytest.raises(ConfigError, match="all shares are 0"):
        MixtureConfig(0.0, 0.0, 0.0)


def test_duplicates_and_repeated_names_go_and_the_first_stays() -> None:
    index = index_of([0, 1, 2, 3, 4], [0] * 5, digests=[7, 8, 7, 9, 8])
    identity = index.identity.copy()
    identity[3] = identity[0]
    plan = plan_pool(replace(index, identity=identity), 0, KEEP, SplitConfig(n_pages=0))
    assert [FATES[fate] for fate in plan.fate] == ["train", "train", "duplicate", "repeated_id", "duplicate"]


def test_held_documents_stay_when_others_are_added() -> None:
    documents = np.array([key_of(number) for number in range(4000)], dtype=np.uint64)
    split = SplitConfig(n_pages=10**6, share=0.1)
    few, many = (held_documents(documents[:n], documents[:n], 3, split) for n in (1000, 4000))
    assert {*few} == {*many} & {*documents[:1000]}
    assert 70 < len(few) < 130 and 330 < len(many) < 470
    capped = held_documents(documents, documents, 3, SplitConfig(n_pages=50, share=0.1))
    assert len(capped) == 50 and {*capped} < {*many}
    assert {*held_documents(documents, documents, 4, split)} != {*many}


def test_a_single_document_is_trained_on() -> None:
    one = index_of([5] * 4, [0] * 4)
    assert len(plan_pool(one, 0, KEEP, SplitConfig(share=1.0)).train) == 4
    two = index_of([5, 5, 6], [0] * 3)
    assert len(plan_pool(two, 0, KEEP, SplitConfig(share=1.0)).validation) in (1, 2)


def test_the_shuffle_is_uniform_and_the_seed_decides() -> None:
    n = 3000
    index = index_of([*range(n)], [0] * n)
    plans = [plan_pool(index, seed, KEEP, SplitConfig(n_pages=0)) for seed in (0, 0, 1)]
    assert [*plans[0].train] == [*plans[1].train] != [*plans[2].train]
    assert sorted(plans[0].train) == [*range(n)]
    # Neighbours before are strangers after: the places of the first tenth spread over all of the pool.
    places = np.argsort(plans[0].train)[: n // 10]
    tenths = Counter((places * 10 // n).tolist())
    assert len(tenths) == 10 and max(tenths.values()) < 60
    assert abs(np.corrcoef(np.arange(n), plans[0].train)[0, 1]) < 0.1


def test_draws_for_other_purposes_are_independent() -> None:
    keys = np.arange(2000, dtype=np.uint64)
    one, two = (drawn(keys, 0, purpose).astype(np.float64) for purpose in (1, 2))
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.1
    assert abs(one.mean() / 2**64 - 0.5) < 0.03
