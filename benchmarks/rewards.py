"""How fast the rewards of GRPO are, and whether predictions that only look good can earn them.

    python -m benchmarks.rewards --json

A step has 24 prompts with 28 rollouts each, 672 completions. The benchmark makes its own references (tables of about
1,900 characters, the median of the paper's prompt pool) and completions with the errors that a network makes: misread
characters, rows and cells missing or twice, tables cut off or looping; three of ten are perfect. Beside the speed it
runs the hack suite (`benchmarks/reward_hacks.py`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.reward_hacks import Outcome, blind_spots, hacks, make_formula, make_table, make_text, misread, outcomes
from gravityocr.benchmark.protocol import machine
from gravityocr.document import Task
from gravityocr.rl.rewards import REWARDS, reward_of

N_PROMPTS, N_ROLLOUTS = 24, 28
TASKS: tuple[Task, ...] = ("table", "text", "formula")
BOUNDARY = (
    "from the strings of a step's completions to its list of rewards: normalisation, parsing, all terms and the guard,"
    " pair by pair in one process, references kept from the first pass on; processor time, median of the passes;"
    " imports and the first call, which loads the compiled tree distance (`first_s`), are outside. `two_processes`:"
    " prompts shared out to two processes that have warmed up, the slower one's processor time, and the wall time with"
    " the strings sent to them"
)

Pair = tuple[Task, str, str]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=N_PROMPTS)
    parser.add_argument("--rollouts", type=int, default=N_ROLLOUTS)
    parser.add_argument("--repeats", type=int, default=3, help="passes over a step; the median counts")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    report = measure(args.prompts, args.rollouts, args.repeats)
    print(json.dumps(report) if args.json else as_text(report))


def measure(n_prompts: int, n_rollouts: int, repeats: int) -> dict[str, Any]:
    """Time a step of every task, the tables also in two processes, and run both suites."""
    start = time.perf_counter()
    reward_of("table", "<table><tr><td>a</td><td>b</td></tr></table>", "<table><tr><td>a</td></tr></table>")
    first_s = time.perf_counter() - start
    tasks = {}
    for task in TASKS:
        pairs = make_step(task, n_prompts, n_rollouts)
        passes = [timed(pairs) for _ in range(repeats)]
        seconds = statistics.median(seconds for seconds, _ in passes)
        rewards = passes[0][1]
        tasks[task] = {
            "rewards_per_s": len(pairs) / seconds,
            "s_per_step": seconds,
            "n_completions": len(pairs),
            "mean_ref_chars": statistics.fmean(len(ref) for _, _, ref in pairs),
            "mean_reward": statistics.fmean(rewards),
            "n_perfect": sum(reward == 1.0 for reward in rewards),
        }
    suite, blind = outcomes(hacks()), outcomes(blind_spots())
    return {
        "tasks": tasks,
        "two_processes": two_processes(make_step("table", n_prompts, n_rollouts)),
        "first_s": first_s,
        "hacks": [asdict(outcome) for outcome in suite],
        "n_hacks": len(suite),
        "n_passed": sum(outcome.passed for outcome in suite),
        "cannot_see": [{"name": outcome.name, "task": outcome.task, "reward": outcome.hacked} for outcome in blind],
        "boundary": BOUNDARY,
        "settings": {"prompts": n_prompts, "rollouts": n_rollouts, "repeats": repeats},
        "machine": machine(),
    }


def make_step(task: Task, n_prompts: int, n_rollouts: int) -> list[Pair]:
    """Make the completions of a step, the rollouts of a prompt side by side."""
    pairs = []
    for prompt in range(n_prompts):
        ref = {"table": make_table, "text": make_text, "formula": make_formula}[task](prompt)
        pairs += [(task, complete(task, ref, prompt * n_rollouts + number), ref) for number in range(n_rollouts)]
    return pairs


def complete(task: Task, ref: str, seed: int) -> str:
    """Return a completion as a network might write it."""
    rng = random.Random(seed)
    luck = rng.random()
    if luck < 0.3:
        return ref
    pred = misread(ref, seed, rng.randrange(1, max(2, len(ref) // 50)))
    if luck < 0.65:
        return pred
    if task != "table":
        cut = rng.randrange(len(pred))
        return pred[:cut] if luck < 0.8 else pred[:cut] + pred[max(0, cut - 12) : cut] * rng.randrange(2, 30)
    rows = re.findall(r"<tr>.*?</tr>", pred)
    place = rng.randrange(len(rows))
    if luck < 0.75:
        return pred.replace(rows[place], "", 1)
    if luck < 0.85:
        return re.sub(r"<td>[^<]*</td>", "", pred, count=rng.randrange(1, 4))
    if luck < 0.9:
        return pred.replace(rows[place], rows[place] * 2, 1)
    if luck < 0.95:
        return pred[: rng.randrange(len(pred))]
    return pred.replace("</table>", rows[place] * rng.randrange(5, 80) + "</table>")


def timed(pairs: Sequence[Pair]) -> tuple[float, list[float]]:
    """Reward a step as the trainer does, batch by prompt; return the processor time and the rewards."""
    start = time.process_time()
    tasks, preds, refs = (list(column) for column in zip(*pairs, strict=True))
    columns = [reward([""] * len(preds), preds, target=refs, task=tasks) for reward in REWARDS]
    seconds = time.process_time() - start
    return seconds, [value for row in zip(*columns, strict=True) for value in row if value is not None]


def two_processes(pairs: Sequence[Pair]) -> dict[str, float]:
    """Time a step whose prompts are shared out to two processes."""
    refs = list(dict.fromkeys(ref for _, _, ref in pairs))
    halves = [[pair for pair in pairs if refs.index(pair[2]) % 2 == number] for number in range(2)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(timed, [half[:1] for half in halves], chunksize=1)
        pool.map(timed, halves, chunksize=1)
        start = time.perf_counter()
        results = pool.map(timed, halves, chunksize=1)
        wall_s = time.perf_counter() - start
    return {
        "s_per_step": max(seconds for seconds, _ in results),
        "wall_s_per_step": wall_s,
        "n_completions": len(pairs),
    }


def as_text(report: dict[str, Any]) -> str:
    """Print the report for a reader."""
    lines = [f"{'task':9}{'rewards/s':>10}{'s a step':>10}{'completions':>13}{'characters':>12}{'mean reward':>13}"]
    for task, row in report["tasks"].items():
        lines.append(
            f"{task:9}{row['rewards_per_s']:10.0f}{row['s_per_step']:10.2f}{row['n_completions']:13}"
            f"{row['mean_ref_chars']:12.0f}{row['mean_reward']:13.3f}"
        )
    two = report["two_processes"]
    lines.append(
        f"tables in two processes: {two['s_per_step']:.2f} s a step ({two['wall_s_per_step']:.2f} s by the clock)"
    )
    lines += [f"({report['boundary']})", "", f"hack suite: {report['n_passed']} of {report['n_hacks']} pass"]
    for row in report["hacks"]:
        verdict = "pass" if Outcome(**row).passed else "FAIL"
        lines.append(
            f"{verdict}  {row['task']:8} {row['name']:44} honest {row['honest']:.3f}  hacked {row['hacked']:.3f}"
        )
    lines += ["", "what the rewards cannot see, or see too little (the reference itself earns 1):"]
    lines += [f"      {row['task']:8} {row['name']:44} {row['reward']:.3f}" for row in report["cannot_see"]]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
