"""The report of a run's folder: what it says, what it refuses, and that nothing read can break its Markdown."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gravityocr.errors import ConfigError, InputError
from gravityocr.metrics.runs.confidence import BootstrapConfig
from gravityocr.rl.evaluation_records import RegionRecord, record_file, write_records
from gravityocr.rl.report import compare_files, write_report
from gravityocr.rl.report_plots import draw_curves, smoothed

DRAWS = BootstrapConfig(n_draws=50)
NASTY = "a|b `code` ```\n# no heading\n<script>alert(1)</script> [x](y) \ud800 \x1b[0m"


def records(shift: float, pred: str = "pred", n_forwards: int = 10) -> list[RegionRecord]:
    """Give two kinds of three regions, whose rewards are shifted."""
    made = []
    for number in range(3):
        kinds = {"table": {"teds": 0.6 + shift}, "text": {"ned_plain": 0.4 - shift}}
        for kind, scores in kinds.items():
            made.append(
                RegionRecord(
                    f"{kind}-{number}",
                    kind,
                    kind,
                    "ref",
                    pred,
                    reward=0.5 + shift * (number - 0.5),
                    n_tokens=41,  # type: ignore[arg-type]
                    n_decoded=40,
                    n_forwards=n_forwards,
                    n_rounds=5,
                    n_accepted=30,
                    **scores,  # type: ignore[arg-type]
                )  # fmt: skip
            )
    return made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Give the folder of a run of 20 steps whose best one is the tenth."""
    for step, shift in ((0, 0.0), (10, 0.2), (20, 0.1)):
        write_records(record_file(tmp_path, step), records(shift, f"pred of {step}", 10 + step // 10))
    lines = [{"step": step, "reward": 0.5 + step / 100, "reward_std": 0.1, "kl": 0.001 * step, "seconds": 6.0}
             for step in range(1, 21)]  # fmt: skip
    log = "".join(json.dumps(one) + "\n" for one in lines) + json.dumps({"step": 20, "eval": {"reward": 9}}) + "\n{"
    (tmp_path / "log.jsonl").write_text(log, encoding="utf-8")
    (tmp_path / "config.toml").write_text("[grpo]\nprompts_per_step = 4\nn_rollouts = 8\n", encoding="utf-8")
    return tmp_path


def test_the_first_evaluation_is_set_against_the_best_and_the_last(run: Path) -> None:
    report = write_report(run, bootstrap=DRAWS)
    assert report["steps"] == {"first": 0, "best": 10, "last": 20, "shown": 10}
    best, last = (report["changes"][name]["kinds"]["table"]["figures"]["teds"] for name in ("best", "last"))
    assert (best["before"], best["after"], last["after"]) == pytest.approx((0.6, 0.8, 0.7))
    assert best["excludes_0"]
    assert [row["step"] for row in report["evaluations"]] == [0, 10, 20]
    assert report["evaluations"][2]["tpf_fall"] == pytest.approx(1 - 10 / 12)
    assert report["samples"]["table"]["n_better"] == 2
    assert report["samples"]["table"]["better"][0]["after"] == "pred of 10"


def test_the_facts_are_those_of_log_and_settings(run: Path) -> None:
    facts = write_report(run, bootstrap=DRAWS)["run"]
    assert (facts["n_steps"], facts["rollouts_per_step"], facts["n_rollouts"]) == (20, 32, 640)
    assert facts["seconds"] == pytest.approx(120.0)
    assert facts["reward"] == pytest.approx({"first": 0.515, "last": 0.695, "n": 2})  # the first and last two of twenty
    assert "entropy" not in facts


def test_both_files_are_written_and_say_the_same(run: Path) -> None:
    report = write_report(run, bootstrap=DRAWS)
    assert json.loads((run / "report.json").read_text(encoding="utf-8")) == json.loads(json.dumps(report))
    text = (run / "report.md").read_text(encoding="utf-8")
    assert "## Step 0 against step 10, the best by held-out quality" in text
    assert "## Step 0 against step 20, the last" in text
    assert "| table | TEDS | 3 (few) | 0.6000 | 0.8000 | +0.2000 | +0.2000 to +0.2000 | yes |" in text
    assert "TPF over all regions, sums over sums: 4.000 to 3.636 (-9.09%" in text
    assert "640 rollouts, 32 a step" in text
    assert "prompts_per_step = 4" in text
    assert "curves.png" not in text
    assert not list(run.glob("*.part"))
    columns = {line.count("|") for line in text.split("\n") if line.startswith(("| table", "| text", "| kind"))}
    assert columns == {9}


def test_the_step_that_was_kept_can_be_named(run: Path) -> None:
    assert write_report(run, 20, bootstrap=DRAWS)["steps"]["best"] == 20
    text = (run / "report.md").read_text(encoding="utf-8")
    assert "## Step 0 against step 20, the one that was kept" in text
    assert text.count("## Step 0 against") == 1  # the last is the same, and not shown again
    with pytest.raises(InputError, match="step 15 was not evaluated; choose one of 0, 10, 20"):
        write_report(run, 15, bootstrap=DRAWS)


def test_a_run_that_only_fell_says_so(run: Path) -> None:
    for step in (10, 20):
        write_records(record_file(run, step), records(-0.1))
    report = write_report(run, bootstrap=DRAWS)
    assert (report["steps"]["best"], report["steps"]["shown"]) == (0, 20)
    assert [*report["changes"]] == ["last"]
    assert report["changes"]["last"]["kinds"]["table"]["figures"]["teds"]["difference"] == pytest.approx(-0.1)


def test_one_evaluation_alone_gives_a_report_without_changes(run: Path) -> None:
    for step in (10, 20):
        record_file(run, step).unlink()
    assert write_report(run, bootstrap=DRAWS)["changes"] == {}
    assert "nothing to compare" in (run / "report.md").read_text(encoding="utf-8")


def test_missing_and_torn_evaluations_are_named(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(InputError, match=r"evaluations holds no step-\*\.jsonl"):
        write_report(tmp_path_factory.mktemp("empty"))
    file = record_file(run, 10)
    file.write_text(file.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    with pytest.raises(InputError, match=r"step-00010\.jsonl: line 6"):
        write_report(run)


@pytest.mark.parametrize(("name", "text"), [
    ("config.toml", "[grpo"), ("prompts/prompts.json", '{"n_prompts": 1}'), ("prompts/prompts.json", "[" * 9999),
    ("prompts/prompts.json", '{"n_prompts": 1, "stages": {}, "fates": {}}'),
    ("prompts/prompts.json", '{"n_prompts": 1, "stages": [], "fates": {}}'),
    ("prompts/prompts.json", '{"n_prompts": 1, "stages": {"chosen": [], "tried": {}, "varied": {}}, "fates": {}}'),
    ("prompts/prompts.json", '{"n_prompts": "1", "stages": {"chosen": {}, "tried": {"all": 1}, "varied": {"all": 1}}, '
     '"fates": {}}'),
])  # fmt: skip
def test_broken_files_beside_them_are_named(run: Path, name: str, text: str) -> None:
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=rf"{Path(name).name} is broken"):
        write_report(run)


def test_settings_prompts_and_log_may_be_missing(run: Path) -> None:
    for name in ("config.toml", "log.jsonl"):
        (run / name).unlink()
    report = write_report(run, bootstrap=DRAWS)
    assert (report["run"], report["prompts"], report["config"]) == ({"n_steps": 0}, None, {})


def test_lines_of_a_log_that_tell_no_step_are_passed_over(run: Path) -> None:
    odd = '{"reward": 0.5}\n{"reward": true, "step": 3}\n{"reward": NaN, "step": 4}\n{"reward": 1, "step": null}\n'
    log = run / "log.jsonl"
    log.write_text(odd + log.read_text(encoding="utf-8"), encoding="utf-8")
    (run / "config.toml").write_text("grpo = 3\nprompts = 4\n", encoding="utf-8")
    facts = write_report(run, bootstrap=DRAWS)["run"]
    assert (facts["n_steps"], facts["reward"]["n"]) == (20, 2)


def test_nothing_is_compared_with_another_step_where_the_start_is_missing(run: Path) -> None:
    record_file(run, 0).unlink()
    with pytest.raises(InputError, match=r"step-00000\.jsonl is missing.*put it back"):
        write_report(run, bootstrap=DRAWS)


def test_what_did_not_change_is_one_line_a_kind(run: Path) -> None:
    write_report(run, bootstrap=DRAWS)
    assert "- Unchanged, table: accepted drafts a round 6.00." in (run / "report.md").read_text(encoding="utf-8")
    for step in (10, 20):
        write_records(record_file(run, step), records(0.0))
    write_report(run, bootstrap=DRAWS)
    text = (run / "report.md").read_text(encoding="utf-8")
    assert "No figure changed." in text
    assert "- Unchanged, table: reward 0.5000, TEDS 0.6000, TPF 4.000" in text
    assert "| table |" not in text


def test_the_text_says_of_how_many_steps_and_that_a_draft_head_stays_behind(run: Path) -> None:
    write_report(run, bootstrap=DRAWS)
    text = (run / "report.md").read_text(encoding="utf-8")
    assert "reward in training, mean of the first and of the last tenth (2 steps in the log each): 0.515 and" in text
    assert "draft head" not in text
    assert write_report(run, bootstrap=DRAWS, draft_head_left=True)["draft_head_left"] is True
    assert "gravityocr train CONFIG --draft-head DIR" in (run / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_the_prompts_are_counted(run: Path, tmp_path_factory: pytest.TempPathFactory, is_elsewhere: bool) -> None:
    folder = tmp_path_factory.mktemp("pool") if is_elsewhere else run / "prompts"
    folder.mkdir(exist_ok=True)
    if is_elsewhere:
        (run / "config.toml").write_text(f"[prompts]\nfolder = {json.dumps(str(folder))}\n", encoding="utf-8")
    counts = {"all": 9, "text": 4, "table": 5, "formula": 0}
    found = {"n_prompts": 9, "stages": {name: counts for name in ("candidates", "tried", "varied", "chosen")},
             "fates": {}}  # fmt: skip
    (folder / "prompts.json").write_text(json.dumps(found), encoding="utf-8")
    assert write_report(run, bootstrap=DRAWS)["prompts"]["n_prompts"] == 9
    assert "9 prompts (4 text, 5 table, 0 formula) out of 9 tried" in (run / "report.md").read_text(encoding="utf-8")


def test_what_was_read_cannot_break_the_markdown(run: Path) -> None:
    before = [replace(one, region_id=f"`{one.region_id}`\n", ref=NASTY) for one in records(0.0)]
    after = [replace(one, pred=NASTY * 40) for one in before]
    after = [replace(one, reward=0.9) for one in after]
    write_records(record_file(run, 0), before)
    for step in (10, 20):
        write_records(record_file(run, step), after)
    (run / "config.toml").write_text('x = """\n```\n# no heading\n"""\n', encoding="utf-8")
    write_report(run, bootstrap=DRAWS)
    text = (run / "report.md").read_text(encoding="utf-8")
    outside = re.sub(r"^(`{3,})(text|toml)\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "script" in text
    assert "script" not in outside
    assert "# no heading" not in outside
    assert "\x1b" not in text
    assert max(map(len, text.split("\n"))) < 400


def test_no_report_needs_matplotlib_and_plots_name_the_extra(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_report(run, bootstrap=DRAWS)
    with pytest.raises(ConfigError, match=r"gravityocr\[report\]"):
        write_report(run, plots=True, bootstrap=DRAWS)


def test_any_two_files_of_records_can_be_compared(tmp_path: Path) -> None:
    for name, shift in (("a", 0.0), ("b", 0.1)):
        write_records(tmp_path / name, records(shift))
    changes, text = compare_files(tmp_path / "a", tmp_path / "b", DRAWS)
    assert changes["kinds"]["table"]["figures"]["teds"]["difference"] == pytest.approx(0.1)
    assert "| table | TEDS | 3 (few) | 0.6000 | 0.7000 |" in text
    with pytest.raises(InputError, match="c: cannot be read"):
        compare_files(tmp_path / "a", tmp_path / "c")


def test_the_curves_are_a_small_picture(run: Path) -> None:
    pytest.importorskip("matplotlib")
    write_report(run, plots=True, bootstrap=DRAWS)
    file = run / "curves.png"
    with Image.open(file) as picture:
        assert picture.format == "PNG"
        assert (1000 <= picture.width <= 1400, 700 <= picture.height <= 900) == (True, True)
    assert file.stat().st_size < 150_000
    assert "(curves.png)" in (run / "report.md").read_text(encoding="utf-8")


def test_curves_come_of_what_there_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    odd = [{"step": 1, "reward": float("nan")}, {"step": "x"}, {"step": 2, "kl": None}]
    draw_curves(odd, {}, tmp_path / "empty.png")
    draw_curves([{"step": 1, "reward": 0.5}], {0: {"kinds": {"text": {}}, "all": {}}}, tmp_path / "one.png")
    assert (tmp_path / "empty.png").is_file()
    with pytest.raises(ConfigError, match="cannot be written"):
        draw_curves([], {}, tmp_path / "nowhere" / "curves.png")


def test_running_means_reach_a_twentieth_to_either_side() -> None:
    assert smoothed(np.array([1.0, 2.0, 6.0, 3.0])).tolist() == [1.5, 3.0, 11 / 3, 4.5]
    assert smoothed(np.arange(100.0))[50] == 50.0
    assert smoothed(np.arange(100.0))[0] == 2.5  # itself and five to its right


def test_curves_tell_steps_as_whole_numbers_and_what_each_line_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure
    drawn, real = [], figure.savefig
    monkeypatch.setattr(figure, "savefig", lambda self, buffer, **_: (drawn.append(self), real(self, buffer, **_)))
    log = [{"step": step, "reward": 0.95, "reward_std": 0.3} for step in (1, 2, 3)]
    draw_curves(log, {0: {"kinds": {"text": {"reward": 0.5}}, "all": {}}}, tmp_path / "a.png")
    reward = drawn[0].axes[0]
    assert all(float(tick).is_integer() for tick in reward.get_xticks())
    band = reward.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (pytest.approx(0.65), 1.0)
    labels = {text.get_text() for text in reward.get_legend().get_texts()}
    assert labels == {"± std of the rollouts", "moving mean"}
    for axes in drawn[0].axes:
        if axes.get_legend() is not None:
            assert axes.get_legend().get_window_extent().y1 < axes.get_window_extent().y0  # under the panel
