"""What GRPO changed: two checkpoints on the same held-out regions, which neither of them saw, paired.

    python -m benchmarks.rl_gain nano runs/grpo/best --pool pools/rl --whole whole.regions.parquet --json

The best step of a run was chosen on the regions that it was evaluated on; this reads others (another seed, more of
them). Readings are greedy, by self-speculation with fixed windows of the first checkpoint's block size and without
draft head, so that TPF is that of the paper's equation (5); the reward of samples is the mean of `--samples`
completions at temperature 1.0. Intervals are 95 %, paired bootstrap over regions.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gravityocr.engine.engine import Engine
from gravityocr.rl.evaluation import EvaluationConfig, Regions, check_tools, evaluate, held_out
from gravityocr.rl.evaluation_records import write_records
from gravityocr.rl.report import compare_files
from gravityocr.training.pool_tokens import SAMPLE_POOL

BOUNDARY = "weights as they are in the folders, fp32, one thread; no draft head; fixed windows"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="checkpoint: nano or a folder")
    parser.add_argument("after", help="checkpoint: nano or a folder")
    parser.add_argument("--pool", default=SAMPLE_POOL, help="pool whose validation split is read uncut")
    parser.add_argument("--whole", help="region file of whole crops, which are cut and joined")
    parser.add_argument("--crops", type=int, default=500, help="regions of each task")
    parser.add_argument("--whole-crops", type=int, default=150)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--cdm", action="store_true", help="score formulas by what TeX renders")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=Path, default=Path("out/rl_gain"), help="folder for the records")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    config = EvaluationConfig(
        n_crops=args.crops, n_samples=args.samples, whole_crops=args.whole, n_whole_crops=args.whole_crops,
        cdm=args.cdm, max_tokens=512, seed=args.seed,
    )  # fmt: skip
    check_tools(config)
    changes, text = measure(args.before, args.after, config, held_out(config, args.pool), args.records)
    print(json.dumps({"changes": changes, "boundary": BOUNDARY}) if args.json else text)


def measure(
    before: str, after: str, config: EvaluationConfig, regions: Regions, folder: Path
) -> tuple[dict[str, Any], str]:
    """Read the regions with both checkpoints and compare; the records stay in the folder."""
    files = []
    block_size = config.block_size
    for name, checkpoint in (("before", before), ("after", after)):
        engine = Engine.from_pretrained(checkpoint, dtype="float32", n_threads=1)
        block_size = block_size or engine.checkpoint.diffusion.bd_size
        found = evaluate(engine, regions, replace(config, block_size=block_size))
        files.append(folder / f"{name}.jsonl")
        write_records(files[-1], found.records)
    return compare_files(*files)


if __name__ == "__main__":
    main()
