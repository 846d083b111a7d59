"""The journal of trials: what was appended comes back, wherever a run was killed, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.prompt_pools import ScriptedSampler, as_reward, region

from gravityocr.errors import ConfigError
from gravityocr.rl.trials import TRIALS_FILE, Trial, TrialJournal, Trials

HEADER = {"checkpoint": "nano", "n_trials": 2}
GOOD = Trial("r/0", "table", (0.1, 1 / 3), (4, 5), (2, 3), 1, 0.25)
FAILED = Trial("r/1", "text", reason="its picture is broken", seconds=0.5)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / TRIALS_FILE


def test_trials_come_back_as_they_were(file: Path) -> None:
    with TrialJournal(file, HEADER) as journal:
        journal.append([GOOD, FAILED])
        assert file.read_bytes().count(b"\n") == 3  # written before anything else is tried
    with TrialJournal(file, HEADER) as journal:
        assert journal.trials == {"r/0": GOOD, "r/1": FAILED}
    assert GOOD.mean == pytest.approx((0.1 + 1 / 3) / 2) and GOOD.std == pytest.approx((1 / 3 - 0.1) / 2)


def test_a_journal_cut_anywhere_holds_its_whole_lines_and_goes_on(file: Path) -> None:
    with TrialJournal(file, HEADER) as journal:
        journal.append([GOOD, FAILED])
    whole = file.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        with TrialJournal(file, HEADER) as journal:
            n_whole = sum(end <= cut for end in ends[1:])
            assert list(journal.trials.values()) == [GOOD, FAILED][:n_whole]
            journal.append([replace(GOOD, region_id="later")])
        with TrialJournal(file, HEADER) as journal:
            assert len(journal.trials) == n_whole + 1 and journal.trials["later"].rewards == GOOD.rewards


def test_lines_that_mean_nothing_are_passed_over(file: Path) -> None:
    row = json.loads(json.dumps(asdict(GOOD)))
    odd = [
        "nonsense", "[]", "{}", "[" * 5000, "\x00", "", json.dumps(row | {"task": "figure"}),
        json.dumps(row | {"region_id": 3}), json.dumps(row | {"rewards": [0.1, None]}),
        json.dumps(row | {"rewards": [0.1, float("nan")]}), json.dumps(row | {"rewards": []}),
        json.dumps(row | {"reason": "both"}), json.dumps(row | {"n_chars": 3}),
        json.dumps({key: value for key, value in row.items() if key != "seconds"}),
    ]  # fmt: skip
    with TrialJournal(file, HEADER):
        pass
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n".join(odd) + "\n" + json.dumps(row) + "\n")
    with TrialJournal(file, HEADER) as journal:
        assert journal.trials == {"r/0": GOOD}


def test_a_journal_of_something_else_is_refused_or_begun_anew(file: Path) -> None:
    with TrialJournal(file, HEADER) as journal:
        journal.append([GOOD])
    other = HEADER | {"checkpoint": "another"}
    with pytest.raises(ConfigError, match=r"another checkpoint \('nano', now 'another'\).*prompts\.overwrite"):
        TrialJournal(file, other)
    with TrialJournal(file, HEADER) as journal:
        assert journal.trials == {"r/0": GOOD}
    with TrialJournal(file, other, overwrite=True) as journal:
        assert journal.trials == {}
    with TrialJournal(file, other, overwrite=True) as journal:
        journal.append([FAILED])
    with TrialJournal(file, other, overwrite=True) as journal:
        assert journal.trials == {"r/1": FAILED}  # what fits is kept
    file.write_text('{"journal": "transcription"}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="no journal of trials"):
        TrialJournal(file, HEADER)


def test_one_that_cannot_be_sampled_costs_its_batch_nothing(file: Path) -> None:
    regions = {f"r/{number}": region(f"r/{number}") for number in range(6)}
    sampler = ScriptedSampler({name: [0.25, 0.75] for name in regions}, n_cut={"r/2": 1}, broken={"r/1", "r/4"})
    todo = [(name, one.task) for name, one in regions.items()]
    with TrialJournal(file, HEADER) as journal:
        trials = {one.region_id: one for one in Trials(sampler, as_reward, 2, 4, 0).run(todo, regions.get, journal)}
        assert journal.trials == trials
    assert [name for name, one in trials.items() if one.reason] == ["r/1", "r/4"]
    assert sampler.seen == ["r/0", "r/2", "r/3", "r/5"]
    assert trials["r/2"].rewards == (0.25, 0.75) and trials["r/2"].n_truncated == 1
    assert trials["r/2"].n_tokens == (1, 2) and trials["r/2"].n_chars == (4, 4)


def test_equal_rollouts_are_rewarded_once(file: Path) -> None:
    asked = []

    def reward(task, pred: str, ref: str) -> float:
        asked.append((task, pred, ref))
        return float(pred)

    sampler = ScriptedSampler({"r/0": [0.5, 1.0, 0.5, 0.5]})
    with TrialJournal(file, HEADER) as journal:
        run = Trials(sampler, reward, 4, 1, 0).run([("r/0", "table")], lambda name: region(name, target="ref"), journal)
        assert [one.rewards for one in run] == [(0.5, 1.0, 0.5, 0.5)]
    assert asked == [("table", "0.5", "ref"), ("table", "1.0", "ref")]


def test_a_reward_that_fails_costs_its_own_region_alone(file: Path) -> None:
    def reward(task: str, pred: str, ref: str) -> float:
        if ref == "bad":
            raise ValueError("Exceeds the limit (4300 digits)")
        return float(pred)

    regions = {"r/0": region("r/0"), "r/1": region("r/1", target="bad"), "r/2": region("r/2")}
    with TrialJournal(file, HEADER) as journal:
        rounds = Trials(ScriptedSampler(), reward, 2, 3, 0)
        tried = {one.region_id: one for one in rounds.run([(name, "table") for name in regions], regions.get, journal)}
    assert "4300 digits" in tried["r/1"].reason and not tried["r/1"].rewards
    assert len(tried["r/0"].rewards) == len(tried["r/2"].rewards) == 2
