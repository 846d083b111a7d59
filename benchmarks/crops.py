"""How well and how fast a checkpoint reads crops with ground truth, alone or beside other readers.

    python -m benchmarks.crops --cases DIR --baselines --json

Text is scored by NED with whitespace folded: mean, median and micro average (all edits over all characters); tables by
TEDS and TEDS-struct; formulas by CDM, where TeX is installed, and by NED of the LaTeX; all by kind and language. A crop
whose task the checkpoint does not claim is left out. Self-speculation is compared with AR, token by token. The
baselines read the text crops, in the same run and with as many threads.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.crop_baselines import BASELINES, Baseline, open_baselines
from benchmarks.crop_scores import Row, about, add_cdm, score, score_answer, summarize, summarize_quality
from benchmarks.crop_tables import decoding_table, quality_table
from gravityocr.benchmark.cases import Case, load_cases
from gravityocr.benchmark.protocol import machine
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError, InputError

BOUNDARY = (
    "crops one after another, checkpoint loaded, one crop read before; seconds: vision + prefill + decode of the"
    " network; wall_seconds: the whole call, splitting and joining inside; opening the image is outside of both"
)


def measure(
    engine: Engine, cases: list[Case], baselines: Sequence[Baseline] = ()
) -> tuple[list[Row], dict[str, list[Row]], list[dict[str, str]]]:
    """Read every crop by self-speculation, by AR and, where it is text, by the baselines.

    Returns the scores of the checkpoint, of each baseline, and what could not be read.
    """
    oracle = engine.with_config(decode="ar", draft_head=False)
    rows: list[Row] = []
    others: dict[str, list[Row]] = {baseline.name: [] for baseline in baselines}
    failed: list[dict[str, str]] = []
    for number, case in enumerate(cases):
        try:
            crop = case.crop()
            if not rows:
                engine.recognize([crop])  # warm-up
            start = time.perf_counter()
            answer = engine.recognize([crop])[0]
            wall_seconds = time.perf_counter() - start
            if answer.status in ("failed", "skipped"):
                raise InputError(f"{case.file}: {answer.status}: {answer.error}")
            rows.append(score(case, answer, oracle.recognize([crop])[0], wall_seconds))
        except InputError as error:
            failed.append({"file": str(case.file), "error": str(error)})
            continue
        for baseline in baselines if case.task == "text" else ():
            try:
                if not others[baseline.name]:
                    baseline.read(crop.image, case.language)  # warm-up
                text, seconds = baseline.read(crop.image, case.language)
            except InputError as error:
                failed.append({"file": str(case.file), "error": f"{case.file}: {baseline.name}: {error}"})
            else:
                scores = score_answer(case, text)
                others[baseline.name].append({**about(case), **scores, "wall_seconds": seconds, "text": text})
        if (number + 1) % 10 == 0 or number + 1 == len(cases):
            print(f"{number + 1} of {len(cases)} crops", file=sys.stderr)
    return rows, others, failed


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; wrong usage ends the program with 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="a folder with manifest.json and crops")
    parser.add_argument("--checkpoint", default="nano", help="nano or a checkpoint folder")
    parser.add_argument("--block-size", type=int, help="default: the checkpoint's")
    parser.add_argument("--draft-head", choices=("on", "off"), default="off", help="the sequential draft head")
    parser.add_argument("--max-tokens", type=int, default=512, help="most tokens per piece")
    parser.add_argument("--threads", type=int, help="default: 1 for small networks; the baselines take as many")
    parser.add_argument("--limit", type=int, help="only the first crops")
    parser.add_argument("--worst", type=int, default=0, help="also print the worst English crops")
    known = ",".join(BASELINES)
    parser.add_argument("--baselines", nargs="?", const="", metavar="NAMES",
                        help=f"also read with {known}; without names, with those that are installed")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="everything, crop by crop, on stdout")
    args = parser.parse_args(arguments)
    if args.limit is not None and args.limit < 1:
        parser.error("--limit must be at least 1")
    if args.worst < 0:
        parser.error("--worst must not be negative")
    if args.baselines is not None:
        args.baselines = list(dict.fromkeys(args.baselines.split(","))) if args.baselines else []
        if unknown := [name for name in args.baselines if name not in BASELINES]:
            parser.error(f"--baselines: unknown {unknown[0]!r}; choose among {known}")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark: 0 = all well, 1 = some input failed, 2 = wrong settings."""
    args = parse_arguments(arguments)
    baselines: list[Baseline] = []
    left_out: list[str] = []
    try:
        head = args.draft_head == "on"
        # Whole blocks: a TPF that does not depend on what forwards cost on this machine.
        config = EngineConfig(
            block_size=args.block_size, max_tokens=args.max_tokens, draft_head=head, windows="fixed"
        )  # fmt: skip
        engine = Engine.from_pretrained(args.checkpoint, config, n_threads=args.threads)
        cases = load_cases(args.cases, tuple(sorted(engine.tasks)), args.limit)
        if args.baselines is not None:
            baselines, left_out = open_baselines(args.baselines or None, torch.get_num_threads())
        rows, others, failed = measure(engine, cases, baselines)
        no_cdm = add_cdm(rows, cases)
    except GravityOCRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ConfigError, CheckpointError)) else 1
    report: dict[str, Any] = {
        "groups": summarize(rows),
        "baselines": {
            one.name: {**one.describe(), "groups": summarize_quality(others[one.name]), "crops": others[one.name]}
            for one in baselines
        },
        "checkpoint": args.checkpoint,
        "block_size": engine.options.block_size,
        "tasks": sorted(engine.tasks),
        "boundary": BOUNDARY,
        "machine": {**machine(), "threads": torch.get_num_threads(), "torch": torch.__version__},
        "no_cdm": no_cdm,
    }
    if args.json:
        print(json.dumps({**report, "crops": rows, "failed": failed}, ensure_ascii=False))
    else:
        print_report(report)
    print_worst(rows, cases, args.worst)
    for line in [*left_out, *([f"CDM left out: {no_cdm}"] if no_cdm else [])]:
        print(line, file=sys.stderr)
    for failure in failed:
        print(f"failed: {failure['error']}", file=sys.stderr)
    return 1 if failed else 0


def print_report(report: dict[str, Any]) -> None:
    """Print the readers side by side, then how the checkpoint decoded."""
    others = {name: one["groups"] for name, one in report["baselines"].items()}
    print(quality_table({Path(report["checkpoint"]).name: report["groups"], **others}))
    print(f"\n{decoding_table(report['groups'])}\n\nB = {report['block_size']}; {report['boundary']}")
    for name, one in report["baselines"].items():
        print(f"{name}: {one['version']}, {', '.join(one['models'])}; {one['boundary']}")


def print_worst(rows: list[Row], cases: list[Case], n_worst: int) -> None:
    """Print the English crops of the highest error rates beside their truth."""
    english = [row for row in rows if row["kind"] == "text" and row["language"] == "english"]
    truths = {case.file.name: case.truth for case in cases}
    for row in sorted(english, key=lambda row: -row["ned"])[:n_worst]:
        print(f"{row['ned']:.3f} {row['file']}", file=sys.stderr)
        print(f"  truth {truths[row['file']]!r}\n  read  {row['text']!r}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
