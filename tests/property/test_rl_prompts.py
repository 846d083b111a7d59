"""Prompt pools of any regions and any rewards: nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.prompt_pools import ScriptedSampler, as_reward, region, write_pool

from gravityocr.document import Task
from gravityocr.errors import InputError
from gravityocr.rl.prompt_choice import FATES, PromptConfig, wanted_counts
from gravityocr.rl.prompts import mine_prompts, prompt_files
from gravityocr.training.corpora.region_shards import TASKS, RegionFile

KINDS = st.sampled_from(["good", "solved", "hopeless", "flat", "cut", "broken", "refused", "no target", "held"])
REWARDS = {"solved": (1.0,), "hopeless": (0.0,), "flat": (0.3,), "cut": (0.0, 0.5), "good": (0.2, 0.8)}
EXPECTED = {
    "broken": "skipped", "refused": "skipped", "no target": "skipped", "held": "decontaminated", "solved": "solved",
    "hopeless": "hopeless", "flat": "flat", "cut": "cut",
}  # fmt: skip
HELD = "a sentence that stands in the benchmark from its first word to the very last one"
REGIONS = st.lists(st.tuples(st.sampled_from(TASKS), KINDS, st.integers(1, 60)), min_size=1, max_size=25)
SHARES = st.floats(0.0, 1.0)
CONFIGS = st.builds(
    PromptConfig, n_trials=st.just(2), n_prompts=st.integers(1, 30), table_share=st.floats(0.01, 1.0),
    text_share=SHARES, formula_share=SHARES, max_candidates=st.none() | st.integers(1, 10),
    seed=st.integers(0, 2**63 - 1), batch_regions=st.integers(1, 7), hardness=st.floats(0.0, 5.0),
    length_weight=st.floats(0.0, 5.0),
)  # fmt: skip


def due_tasks(config: PromptConfig) -> set[Task]:
    """Name the tasks to which a whole prompt is due, rounding apart."""
    shares = config.shares()
    return {task for task in TASKS if config.n_prompts * shares[task] >= sum(shares.values())}


@settings(max_examples=40, deadline=None)
@given(rows=REGIONS, config=CONFIGS)
def test_every_candidate_has_exactly_one_fate(rows, config: PromptConfig) -> None:
    kinds = {f"r/{number}": kind for number, (_, kind, _) in enumerate(rows)}
    regions = []
    for (name, kind), (task, _, n_chars) in zip(kinds.items(), rows, strict=True):
        target = {"no target": "", "held": HELD}.get(kind, "x" * n_chars)
        odd = {"image": b"broken"} if kind == "broken" else {"doc_id": "held_document_77"} if kind == "held" else {}
        regions.append(region(name, task, target, **odd))
    sampler = ScriptedSampler(
        {name: REWARDS[kind] for name, kind in kinds.items() if kind in REWARDS},
        {name: 2 for name, kind in kinds.items() if kind == "cut"},
        broken={name for name, kind in kinds.items() if kind == "refused"},
    )
    with tempfile.TemporaryDirectory() as folder:
        benchmark = Path(folder) / "benchmark.jsonl"
        item = {"id": "a", "task": "text", "text": HELD, "doc_id": "held_document_77"}
        benchmark.write_text(json.dumps(item) + "\n", encoding="utf-8")
        settled = {**vars(config), "pool": write_pool(Path(folder) / "pool", regions), "benchmark": str(benchmark)}
        out = Path(folder) / "out"
        try:
            report = mine_prompts(PromptConfig(**settled), out, sampler, "nano", reward=as_reward)
        except InputError:  # only where there is nothing to draw
            good = {row[0] for row, (name, kind) in zip(rows, kinds.items(), strict=True)
                    if kind == "good" and name in sampler.seen}  # fmt: skip
            assert not good & due_tasks(config)
            return
        prompts = [one for file in prompt_files(out) for one in RegionFile(file)]
    by_id = {one.region_id: one for one in regions}
    assert len({one.region_id for one in prompts}) == len(prompts) == report["n_prompts"] <= config.n_prompts
    assert all(one == by_id[one.region_id] and kinds[one.region_id] == "good" for one in prompts)
    counts = {fate: report["fates"][fate]["all"] for fate in FATES}
    assert sum(counts.values()) == len(rows)
    for task in TASKS:
        assert sum(report["fates"][fate][task] for fate in FATES) == report["stages"]["candidates"][task]
        assert sum(report["fates"][fate][task] for fate in FATES) == sum(row[0] == task for row in rows)
    most = Counter(EXPECTED.get(kind, "good") for kind in kinds.values())
    for fate in FATES:
        limit = most["good"] if fate in ("chosen", "not_chosen") else most[fate]
        assert counts[fate] <= limit or fate == "not_tried"
    if config.max_candidates is None and all(config.shares().values()):
        assert {fate: n for fate, n in counts.items() if n and fate not in ("chosen", "not_chosen")} == {
            fate: n for fate, n in most.items() if fate != "good"
        }
        assert counts["chosen"] + counts["not_chosen"] == most["good"]
    assert len(sampler.seen) == len({*sampler.seen})


@settings(max_examples=400, deadline=None)
@given(config=CONFIGS, n=st.tuples(*[st.integers(0, 40)] * 3))
def test_the_wanted_counts_are_there_and_no_more_than_asked_for(config: PromptConfig, n) -> None:
    available = dict(zip(TASKS, n, strict=True))
    try:
        wanted = wanted_counts(available, config)
    except InputError:
        assert not {task for task in TASKS if available[task]} & due_tasks(config)
        return
    assert all(wanted[task] <= available[task] for task in TASKS)
    assert 0 < sum(wanted.values()) <= config.n_prompts
    assert all(not wanted[task] for task, share in config.shares().items() if not share)
    if all(one >= config.n_prompts for one in n):
        assert sum(wanted.values()) == config.n_prompts
