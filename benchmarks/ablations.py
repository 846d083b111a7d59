"""Ablations of joint training on the embedded checkpoint: one setting changed at a time, a table at the end.

    python -m benchmarks.ablations ar-loss --out runs/ablations --set data.pool=pools/nano
    python -m benchmarks.ablations mask-schedule | block-size

Every arm is a run of `recipes/nano-ablation.toml` from the same start over the same rows, in a folder of its own; one
that is finished is not run again, one that was stopped goes on. Quality is read by the AR path and TPF by
self-speculation, over the pool's validation split. Overall is 100 times the mean of 1 - NED of text, TEDS of tables and
1 - NED of formulas (the paper's has CDM there); the paper's own figures stand beside ours and are another network's.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gravityocr.config import load_config
from gravityocr.decoding.prompts import DecodeOptions
from gravityocr.errors import GravityOCRError
from gravityocr.metrics.runs.confidence import axis_intervals
from gravityocr.model.checkpoint import load_checkpoint
from gravityocr.training.launch import run_training
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.run_log import read_records
from gravityocr.training.setup import new_setup
from gravityocr.training.validation import HeldOutCrop, held_out_crops, quality, read_crops, validate

RECIPE = Path(__file__).parent.parent / "recipes" / "nano-ablation.toml"


@dataclass(frozen=True)
class Arm:
    """One run of an ablation, and the paper's Overall and TPF of its counterpart."""

    name: str
    settings: tuple[str, ...] = ()
    paper: tuple[float, float] | None = None


def block_arm(size: int) -> Arm:
    # 24 is the recipe's own.
    return Arm(f"B = {size}", () if size == 24 else (f"noise.block_size={size}",))


ABLATIONS = {
    "ar-loss": (
        Arm("AR loss", (), (95.02, 6.75)),
        Arm("no AR loss", ("loss.ar_weight=0.0",), (93.64, 6.96)),
    ),
    "mask-schedule": (
        Arm("uniform", (), (95.02, 6.75)),
        Arm("all", ("noise.mask_schedule=all",), (94.86, 6.66)),
    ),
    "block-size": tuple(map(block_arm, (8, 16, 24, 32))),
}
"""*Source*: sections 3 and 8; the first arm of the first two is the recipe as it is."""


def main() -> None:
    """Run the arms and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ablation", choices=[*ABLATIONS])
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--set", action="append", default=[], dest="settings", help="section.key=value for every arm")
    parser.add_argument("--paired", type=int, help="crops of each kind to read again, for intervals")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        run(args)
    except GravityOCRError as error:
        sys.exit(f"error: {error}")


def run(args: argparse.Namespace) -> None:
    """Run the arms of an ablation, print the table and write it."""
    rows = [start_row(args.settings, args.out)] + [arm_row(arm, args) for arm in ABLATIONS[args.ablation]]
    table = as_table(rows, args.settings)
    if args.paired:
        intervals = paired(args)
        table += "\n\n" + paired_text(intervals, args.paired)
    report = {"ablation": args.ablation, "arms": rows, "paired": intervals if args.paired else None}
    (args.out / f"{args.ablation}.md").write_text(table + "\n", encoding="utf-8")
    (args.out / f"{args.ablation}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1) if args.json else table)


def start_row(settings: list[str], out: Path) -> dict[str, Any]:
    """Read the validation crops with the weights that every arm starts from; kept in a file, since all share it."""
    config = load_config(TrainConfig, RECIPE, settings)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "start.json"
    if not file.is_file():
        setup = new_setup(config)
        model = setup.model.eval()
        record = validate(model, setup.prompts, config.data, config.reading, setup.stop_ids, setup.mask_id)
        file.write_text(json.dumps(record), encoding="utf-8")
    return figures("start", json.loads(file.read_text(encoding="utf-8")), None)


def arm_row(arm: Arm, args: argparse.Namespace) -> dict[str, Any]:
    """Run an arm to its end, unless it is there already."""
    folder = folder_of(arm, args.out)
    config = load_config(TrainConfig, RECIPE, [*args.settings, *arm.settings, f"train.folder={folder}"])
    records = read_records(folder)
    done = records and "val_tpf" in records[-1] and records[-1]["step"] >= config.train.steps
    if not done:
        print(f"arm '{arm.name}' in {folder}", file=sys.stderr, flush=True)
        run_training(config)
        records = read_records(folder)
    training = [record for record in records if "loss" in record]
    losses = {name: training[-1][name] for name in ("ar", "diffusion") if training and name in training[-1]}
    return {**figures(arm.name, records[-1], arm.paper), "steps": records[-1]["step"],
            "samples": records[-1]["samples"], "last_losses": losses}  # fmt: skip


def folder_of(arm: Arm, out: Path) -> Path:
    """Return the folder of an arm; the recipe as it is belongs to several ablations and is run once."""
    return out / ("-".join(arm.settings).replace(".", "_").replace("=", "_") or "recipe")


def paired(args: argparse.Namespace) -> dict[str, Any]:
    """Return how each arm's quality differs from the first arm's, crop by crop, with 95 % intervals.

    The AR path reads the same held-out crops with the weights of every arm.
    """
    config = load_config(TrainConfig, RECIPE, args.settings)
    kinds = held_out_crops(config.data, replace(config.validation, n_crops=args.paired))
    scores = {arm.name: arm_scores(folder_of(arm, args.out), kinds, config) for arm in ABLATIONS[args.ablation]}
    first, *others = scores
    report = {}
    for name in others:
        axes, n_before = {}, 0
        n_all = sum(map(len, kinds.values()))
        for kind in kinds:
            differences = [b - a for a, b in zip(scores[first][kind], scores[name][kind], strict=True)]
            axes[kind] = [math.nan] * n_before + differences + [math.nan] * (n_all - n_before - len(differences))
            n_before += len(differences)
        overall = axis_intervals(axes, lambda means: 100.0 * sum(means.values()) / len(means))
        report[f"{name} - {first}"] = {kind: asdict(interval) for kind, interval in overall.items()}
    return report


def arm_scores(folder: Path, kinds: dict[str, list[HeldOutCrop]], config: TrainConfig) -> dict[str, list[float]]:
    """Return the quality of every crop, read by the AR path of an arm's checkpoint."""
    loaded = load_checkpoint(str(folder / "checkpoint"))
    options = DecodeOptions(
        loaded.diffusion.mask_id, loaded.stop_ids, loaded.diffusion.bd_size, "ar", config.validation.max_tokens
    )
    found = {}
    for kind, crops in kinds.items():
        sequences = read_crops(loaded.model, loaded.prompts, crops, options)
        texts = [loaded.tokenizer.decode(one.ids, skip_special_tokens=True) for one in sequences]
        found[kind] = [quality(text, crop) for text, crop in zip(texts, crops, strict=True)]
    return found


def paired_text(report: dict[str, Any], n: int) -> str:
    """Return the differences as lines."""
    lines = [f"Differences over up to {n} crops of each kind, 95 % intervals (paired bootstrap over crops):", ""]
    for name, intervals in report.items():
        parts = "; ".join(
            f"{kind} {one['value']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]" for kind, one in intervals.items()
        )
        lines.append(f"- {name}: {parts}")
    return "\n".join(lines)


def figures(name: str, record: dict[str, Any], paper: tuple[float, float] | None) -> dict[str, Any]:
    """Return the row of an arm: the axes, Overall, TPF over all crops, accepted drafts and the paper's figures."""
    quality = {
        "text": 1.0 - record["val_ned"],
        "table": record["val_teds_table"],
        "formula": 1.0 - record["val_ned_formula"],
    }
    suffixes = ("", "_table", "_formula")
    n_decoded, n_forwards = (sum(record[f"val_{part}{s}"] for s in suffixes) for part in ("n_decoded", "n_forwards"))
    return {
        "arm": name,
        "overall": 100.0 * sum(quality.values()) / len(quality),
        **quality,
        "tpf": n_decoded / n_forwards,
        "tpf_by_task": {task: record[f"val_tpf{s}"] for task, s in zip(quality, suffixes, strict=True)},
        "n_crops": {task: record[f"val_n_crops{s}"] for task, s in zip(quality, suffixes, strict=True)},
        "identical": min(record[f"val_identical{s}"] for s in suffixes),
        "paper": paper,
    }


def as_table(rows: list[dict[str, Any]], settings: Sequence[str] = ()) -> str:
    """Return the rows as a Markdown table, with what they were measured on."""
    crops = " / ".join(map(str, rows[0]["n_crops"].values()))
    steps = ", ".join(sorted({str(row["steps"]) for row in rows[1:]}))
    lines = [
        f"{crops} held-out crops of text / tables / formulas; {steps} steps of recipes/nano-ablation.toml;",
        f"set for all arms: {' '.join(settings) or 'nothing'}",
        "",
        "| | Overall | text 1 - NED | table TEDS | formula 1 - NED | TPF | of each | paper: Overall, TPF |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        by_task = " / ".join(f"{value:.2f}" for value in row["tpf_by_task"].values())
        paper = "{:.2f}, {:.2f}".format(*row["paper"]) if row["paper"] else "-"
        axes = " | ".join(f"{row[name]:.4f}" for name in ("text", "table", "formula"))
        lines.append(f"| {row['arm']} | {row['overall']:.2f} | {axes} | {row['tpf']:.2f} | {by_task} | {paper} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
