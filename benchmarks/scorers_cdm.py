"""Seconds per formula pair of CDM, cold: no cache, no worker running, nothing rendered before.

python -m benchmarks.scorers_cdm --golden FILE --pairs 40 --processes 2
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gravityocr.metrics.cdm import CdmConfig, CdmScorer

OFFICIAL_SECONDS_PER_PAIR = 2.8


def measure_cdm(pairs: Sequence[tuple[str, str]], n_processes: int = 2, repeats: int = 3) -> dict[str, Any]:
    """Score (prediction, reference) pairs `repeats` times from cold; return the times and the speed-up over 2.8 s."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        with CdmScorer(CdmConfig(n_processes=n_processes)) as scorer:
            scores = scorer.score(pairs)
        seconds.append(time.perf_counter() - start)
    median = sorted(seconds)[len(seconds) // 2]
    return {
        "n_pairs": len(pairs),
        "n_processes": n_processes,
        "seconds": [round(value, 3) for value in seconds],
        "seconds_per_pair": round(median / len(pairs), 4),
        "official_seconds_per_pair": OFFICIAL_SECONDS_PER_PAIR,
        "speedup": round(OFFICIAL_SECONDS_PER_PAIR * len(pairs) / median, 1),
        "n_ok": sum(score.status == "ok" for score in scores),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", type=Path, required=True, help="golden CDM file (JSON)")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    rows = json.loads(args.golden.read_text(encoding="utf-8"))[: args.pairs]
    pairs = [(row["stripped_pred"], row["stripped_gt"]) for row in rows]
    print(json.dumps(measure_cdm(pairs, args.processes)))


if __name__ == "__main__":
    main()
