"""Why drafts are rejected: acceptance by kind of crop, by distance, and by how densely a piece is written.

    python -m benchmarks.drafting --cases DIR --block-size 16 --json

Every round of self-speculation is traced. A draft at offset j is *reached* when all before it held; the rate at j is
the share of the reached ones that hold too. The rate by place counts them by where they stand in the piece. A first
rejection *repeats* where it drafts the token before it again, *skips* where it drafts the one behind it, and is *other*
else. Density is tokens per vision cell of the piece.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gravityocr.benchmark.cases import Case, load_cases
from gravityocr.decoding import Decoded, RoundTrace
from gravityocr.engine.engine import CropRun, Engine, EngineConfig
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError, InputError

DENSITIES = (0.5, 1.0, 1.4, 2.0)
PLACES = 6  # tokens of a piece that are counted together


@dataclass
class Tally:
    """Counts over the rounds of a group of pieces."""

    n_tokens: int = 0
    n_forwards: int = 0
    n_rounds: int = 0
    n_accepted: int = 0
    reached: Counter[int] = field(default_factory=Counter)
    held: Counter[int] = field(default_factory=Counter)
    reached_at: Counter[int] = field(default_factory=Counter)
    held_at: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, sequence: Decoded) -> None:
        """Count one piece."""
        self.n_tokens += len(sequence.ids) - 1
        self.n_forwards += sequence.n_forwards
        self.n_rounds += sequence.n_rounds
        self.n_accepted += sequence.n_accepted
        place = 1
        for one in sequence.trace:
            self._round(one, sequence.ids, place)
            place += len(one.committed)

    def _round(self, one: RoundTrace, ids: Sequence[int], place: int) -> None:
        """Count one round whose a0 is token `place` of the piece; what lies behind its end says nothing."""
        n_known = min(len(ids) - place - 1, len(one.drafts))
        for j in range(n_known):
            at = (place + 1 + j) // PLACES * PLACES
            self.reached[j + 1] += 1
            self.reached_at[at] += 1
            if one.drafts[j] == ids[place + 1 + j]:
                self.held[j + 1] += 1
                self.held_at[at] += 1
                continue
            self.reasons[_reason(one.drafts[j], ids, place + 1 + j)] += 1
            break

    def report(self) -> dict[str, Any]:
        """Return the figures of the group."""
        n_rejected = max(1, sum(self.reasons.values()))
        return {
            "tpf": self.n_tokens / self.n_forwards if self.n_forwards else None,
            "accepted_per_round": self.n_accepted / self.n_rounds if self.n_rounds else None,
            "n_tokens": self.n_tokens,
            "rate_at_offset": {j: self.held[j] / self.reached[j] for j in sorted(self.reached)},
            "rate_at_place": {at: self.held_at[at] / self.reached_at[at] for at in sorted(self.reached_at)},
            "first_rejections": {name: n / n_rejected for name, n in sorted(self.reasons.items())},
        }


def _reason(draft: int, ids: Sequence[int], place: int) -> str:
    if draft == ids[place - 1]:
        return "repeats"
    return "skips" if place + 1 < len(ids) and draft == ids[place + 1] else "other"


def density_group(n_tokens: int, n_cells: int) -> str:
    """Return the name of a piece's density group."""
    density = n_tokens / max(1, n_cells)
    below = [edge for edge in DENSITIES if density < edge]
    return f"< {below[0]} tokens a cell" if below else f">= {DENSITIES[-1]} tokens a cell"


def measure(engine: Engine, cases: Iterable[Case]) -> tuple[dict[str, Tally], list[dict[str, str]]]:
    """Read every crop; return the tallies by kind and by density, and what could not be read."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    failed: list[dict[str, str]] = []
    for case in cases:
        try:
            run = engine.run([case.crop()])[0]
        except InputError as error:
            failed.append({"file": str(case.file), "error": str(error)})
            continue
        if not isinstance(run, CropRun):
            failed.append({"file": str(case.file), "error": f"{case.file}: {run.status}: {run.error}"})
            continue
        spec = engine.checkpoint.prompts.spec
        cell_px = spec.patch_size * spec.merge_size
        for sequence, part in zip(run.sequences, run.parts, strict=True):
            tallies["all"].add(sequence)
            tallies[f"{case.kind}/{case.language}"].add(sequence)
            if part is not None:
                # Half of a text piece's two rows of cells is leading, so its line counts once.
                n_cells = (part.image.width // cell_px) * max(1, part.image.height // (2 * cell_px))
                tallies[f"{case.kind}, {density_group(len(sequence.ids), n_cells)}"].add(sequence)
    return tallies, failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark: 0 = all well, 1 = some input failed, 2 = wrong settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="a folder with manifest.json and crops")
    parser.add_argument("--checkpoint", default="nano", help="nano or a checkpoint folder")
    parser.add_argument("--block-size", type=int, help="default: the checkpoint's")
    parser.add_argument("--draft-head", choices=("on", "off"), default="off", help="the sequential draft head")
    parser.add_argument("--language", help="only crops in this language")
    parser.add_argument("--json", action="store_true", help="everything on stdout")
    args = parser.parse_args(arguments)
    try:
        head = args.draft_head == "on"
        config = EngineConfig(block_size=args.block_size, windows="fixed", trace=True, draft_head=head)
        engine = Engine.from_pretrained(args.checkpoint, config)
        cases = load_cases(args.cases, tuple(sorted(engine.tasks)), language=args.language)
        tallies, failed = measure(engine, cases)
    except GravityOCRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ConfigError, CheckpointError)) else 1
    groups = {name: tally.report() for name, tally in sorted(tallies.items())}
    if args.json:
        print(json.dumps({"groups": groups, "block_size": engine.options.block_size, "failed": failed}))
    else:
        for name, group in groups.items():
            print(_line(name, group))
    for failure in failed:
        print(f"failed: {failure['error']}", file=sys.stderr)
    return 1 if failed else 0


def _line(name: str, group: dict[str, Any]) -> str:
    rates = " ".join(f"{group['rate_at_offset'].get(j, float('nan')):.2f}" for j in (1, 2, 4, 8, 16))
    reasons = " ".join(f"{reason} {100 * share:.0f} %" for reason, share in group["first_rejections"].items())
    tpf = f"{group['tpf']:.2f}" if group["tpf"] else "-"
    return f"{name:44s} TPF {tpf:>5s}  n {group['n_tokens']:6d}  rate at 1 2 4 8 16: {rates}  {reasons}"


if __name__ == "__main__":
    sys.exit(main())
