"""How well and how fast a checkpoint reads crops with ground truth.

    python -m benchmarks.crops --cases DIR --json

Text is scored by NED with whitespace folded: mean, median and micro average (all edits over all characters), by kind
and language. Self-speculation is compared with AR, token by token.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gravityocr.benchmark.cases import Case, load_cases
from gravityocr.benchmark.speed import machine
from gravityocr.document import Recognition
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError, InputError
from gravityocr.metrics.edit import edit_distance, fold_whitespace, ned

BOUNDARY = "vision + prefill + decode of the network, crops one after another; opening and splitting are outside"
_FOLDS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-"})


def fold_forms(text: str) -> str:
    """Fold compatibility forms, dashes and quotes: what a reader could not call an error."""
    return fold_whitespace(unicodedata.normalize("NFKC", text).translate(_FOLDS))


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scores of one group of crops."""
    n_forwards = sum(row["n_forwards"] for row in rows)
    n_rounds = sum(row["n_rounds"] for row in rows)
    n_tokens = sum(row["n_decoded"] for row in rows)
    return {
        "n_crops": len(rows),
        "ned": statistics.mean(row["ned"] for row in rows),
        "ned_median": statistics.median(row["ned"] for row in rows),
        "ned_micro": sum(row["n_edits"] for row in rows) / max(1, sum(row["n_longer"] for row in rows)),
        "ned_folded": statistics.mean(row["ned_folded"] for row in rows),
        "tpf": n_tokens / n_forwards if n_forwards else None,
        "accepted": sum(row["n_accepted"] for row in rows) / n_rounds if n_rounds else None,
        "identical_to_ar": sum(row["identical_to_ar"] for row in rows) / len(rows),
        "n_tokens": n_tokens,
        "seconds": sum(row["seconds"] for row in rows),
        "ar_seconds": sum(row["ar_seconds"] for row in rows),
        "cut": sum(row["status"] in ("truncated", "loop_cut") for row in rows),
    }


def score(case: Case, answer: Recognition, reference: Recognition) -> dict[str, Any]:
    """Return all figures of one crop."""
    pred, truth = fold_whitespace(answer.text), fold_whitespace(case.truth)
    return {
        "file": case.file.name,
        "kind": case.kind,
        "language": case.language,
        "status": answer.status,
        "ned": ned(pred, truth),
        "ned_folded": ned(fold_forms(answer.text), fold_forms(case.truth)),
        "n_edits": edit_distance(pred, truth),
        "n_longer": max(len(pred), len(truth)),
        "identical_to_ar": answer.ids == reference.ids,
        "n_decoded": answer.n_decoded,
        "n_forwards": answer.n_forwards,
        "n_rounds": answer.n_rounds,
        "n_accepted": answer.n_accepted,
        "seconds": sum(answer.seconds.values()),
        "ar_seconds": sum(reference.seconds.values()),
        "text": answer.text,
    }


def measure(engine: Engine, cases: list[Case]) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Read every crop by self-speculation and by AR; return the scores, and what could not be read."""
    oracle = engine.with_decode("ar")
    rows: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    for number, case in enumerate(cases):
        try:
            crop = case.crop()
            answer = engine.recognize([crop])[0]
            if answer.status in ("failed", "skipped"):
                raise InputError(f"{case.file}: {answer.status}: {answer.error}")
            rows.append(score(case, answer, oracle.recognize([crop])[0]))
        except InputError as error:
            failed.append({"file": str(case.file), "error": str(error)})
        if (number + 1) % 10 == 0 or number + 1 == len(cases):
            print(f"{number + 1} of {len(cases)} crops", file=sys.stderr)
    return rows, failed


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Group the crops by kind and language."""
    groups: dict[str, list[dict[str, Any]]] = {"all": rows} if rows else {}
    for row in rows:
        groups.setdefault(f"{row['kind']}/{row['language']}", []).append(row)
    return {name: summarize(group) for name, group in sorted(groups.items())}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; wrong usage ends the program with 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="a folder with manifest.json and crops")
    parser.add_argument("--checkpoint", default="nano", help="nano or a checkpoint folder")
    parser.add_argument("--block-size", type=int, help="default: the checkpoint's")
    parser.add_argument("--max-tokens", type=int, default=512, help="most tokens per piece")
    parser.add_argument("--threads", type=int, help="default: 1 for small networks")
    parser.add_argument("--limit", type=int, help="only the first crops")
    parser.add_argument("--worst", type=int, default=0, help="also print the worst English crops")
    parser.add_argument("--json", action="store_true", help="everything, crop by crop, on stdout")
    args = parser.parse_args(arguments)
    if args.limit is not None and args.limit < 1:
        parser.error("--limit must be at least 1")
    if args.worst < 0:
        parser.error("--worst must not be negative")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark: 0 = all well, 1 = some input failed, 2 = wrong settings."""
    args = parse_arguments(arguments)
    try:
        config = EngineConfig(block_size=args.block_size, max_tokens=args.max_tokens)
        engine = Engine.from_pretrained(args.checkpoint, config, n_threads=args.threads)
        cases = load_cases(args.cases, tuple(sorted(engine.tasks)), args.limit)
        rows, failed = measure(engine, cases)
    except GravityOCRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ConfigError, CheckpointError)) else 1
    groups = report(rows)
    if args.json:
        result = {"groups": groups, "block_size": engine.options.block_size, "boundary": BOUNDARY, "machine": machine()}
        print(json.dumps({**result, "crops": rows, "failed": failed}, ensure_ascii=False))
    else:
        for name, group in groups.items():
            figures = " ".join(f"{key}={value:.4g}" for key, value in group.items() if value is not None)
            print(f"{name:40s} {figures}")
    print_worst(rows, cases, args.worst)
    for failure in failed:
        print(f"failed: {failure['error']}", file=sys.stderr)
    return 1 if failed else 0


def print_worst(rows: list[dict[str, Any]], cases: list[Case], n_worst: int) -> None:
    """Print the English crops of the highest error rates beside their truth."""
    english = [row for row in rows if row["kind"] == "text" and row["language"] == "english"]
    truths = {case.file.name: case.truth for case in cases}
    for row in sorted(english, key=lambda row: -row["ned"])[:n_worst]:
        print(f"{row['ned']:.3f} {row['file']}", file=sys.stderr)
        print(f"  truth {truths[row['file']]!r}\n  read  {row['text']!r}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
