"""What a text layer is worth as a source of drafts: decoding of born-digital pages in four ways, in one run.

    python -m benchmarks.text_layer --pages 20 --json

The pages are set from public-domain text (`benchmarks.born_digital`) and cut into crops once; the modes take turns over
each page. Crops are read one after another, or with `--together` all of a page in one call, where AR already fills the
processor with the pieces of many crops, so that there is less to gain. The text layer of a crop is a draft only: all
modes must give the same ids. What it can give at best shows in how much of it the network itself writes: `string_equal`
is the share of pieces whose reference is the very text read, `similarity` one less the edit distance over the longer
length, `accepted` the share of proposed reference tokens that the autoregressive path confirmed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.born_digital import make_pages
from benchmarks.crop_tables import format_table
from gravityocr.api import build_detector
from gravityocr.benchmark.protocol import DECODE, Measured, Reading, machine, mode_table, take_turns
from gravityocr.document import Crop, Recognition
from gravityocr.engine.crop_pieces import piece_reference
from gravityocr.engine.engine import CropRun, Engine, EngineConfig
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError, InputError
from gravityocr.metrics.edit import ned
from gravityocr.pipeline.convert import PipelineConfig, convert
from gravityocr.pipeline.source import PageRanges, SourceConfig

TOGETHER = replace(
    DECODE, name="decode-page", text=DECODE.text.replace("crops one after another", "the crops of a page in one call")
)
MODES = ("ar", "diffusion", "text-layer", "auto")


class CropKeeper:
    """A recognizer that reads nothing and keeps what it is handed."""

    def __init__(self, tasks: frozenset[str]) -> None:
        self.tasks = tasks
        self.crops: list[Crop] = []

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Keep the crops."""
        self.crops += crops
        return [Recognition("") for _ in crops]


def cut_pages(n_pages: int, tasks: frozenset[str], layout: str) -> list[list[Crop]]:
    """Make the pages and return the crops of each with their text layer.

    *Raises*: InputError where a page cannot be made into crops.
    """
    config, detector = PipelineConfig(source=SourceConfig(text_layer=True)), build_detector(layout)
    pages: list[list[Crop]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "born_digital.pdf"
        path.write_bytes(make_pages(n_pages))
        for number in range(1, n_pages + 1):
            keeper = CropKeeper(tasks)
            document = convert(path, keeper, detector, config, pages=PageRanges.parse(str(number)))
            if document.status == "failed" or not keeper.crops:
                raise InputError(f"page {number}: {document.error or 'no regions found'}; try --layout none")
            pages.append(keeper.crops)
    return pages


def engines(engine: Engine) -> dict[str, Engine]:
    """Return the engine of every mode, over the same weights."""
    chosen: dict[str, dict[str, Any]] = {mode: {"draft": mode} for mode in MODES if mode != "ar"}
    return {mode: apart(engine, **overrides) for mode, overrides in {"ar": {"decode": "ar"}, **chosen}.items()}


def apart(engine: Engine, **overrides: Any) -> Engine:
    """Return another engine over the same weights, which learns what drafts are worth from its own alone."""
    return Engine(engine.checkpoint, replace(engine.config, **overrides), replace(engine.precision, planners={}))


def read_page(engine: Engine, crops: Sequence[Crop], together: bool) -> Reading:
    """Read the crops of a page, one after another or together; the seconds are those of decoding alone."""
    groups = [crops] if together else [[crop] for crop in crops]
    answers = tuple(answer for group in groups for answer in engine.recognize(group))
    return Reading(answers, sum(answer.seconds["decode"] for answer in answers), {})


class Agreement:
    """How much of the references the network writes itself."""

    def __init__(self) -> None:
        self.equal: dict[str, list[bool]] = defaultdict(list)
        self.similarity: dict[str, list[float]] = defaultdict(list)
        self.n_proposed = self.n_accepted = 0

    def add(self, engine: Engine, crops: Sequence[Crop]) -> None:
        """Read crops with a trace and compare the references of their pieces with what was read."""
        decode = engine.checkpoint.tokenizer.decode
        for crop, run in zip(crops, engine.run(crops), strict=True):
            if not isinstance(run, CropRun):
                raise InputError(f"a {crop.task} crop was {run.status}: {run.error}")
            for sequence, part in zip(run.sequences, run.parts, strict=True):
                for one in sequence.trace:
                    if one.source == "reference":
                        self.n_proposed += len(one.drafts)
                        self.n_accepted += one.n_accepted
                reference = piece_reference(part, crop.text_layer) if part is not None else ""
                if not reference:
                    continue
                text = decode(sequence.ids, skip_special_tokens=True)
                self.equal[crop.task].append(text == reference)
                self.similarity[crop.task].append(1.0 - ned(text, reference))

    def report(self) -> dict[str, Any]:
        """Return the figures by task."""
        return {
            "by_task": {
                task: {
                    "n_pieces": len(equal),
                    "string_equal": statistics.mean(equal),
                    "similarity": statistics.mean(self.similarity[task]),
                }
                for task, equal in sorted(self.equal.items())
            },
            "accepted": self.n_accepted / self.n_proposed if self.n_proposed else None,
        }


def measure(engine: Engine, pages: Sequence[Sequence[Crop]], repeats: int, together: bool) -> dict[str, Any]:
    """Measure all modes on all pages and return the report."""
    modes = engines(engine)
    traced = apart(engine, draft="text-layer", trace=True)
    agreement = Agreement()
    measured: dict[str, list[Measured]] = {mode: [] for mode in modes}
    for number, crops in enumerate(pages):
        agreement.add(traced, crops)
        for mode, result in take_turns(modes, repeats, partial(read_page, crops=crops, together=together)).items():
            measured[mode].append(result)
        print(f"page {number + 1} of {len(pages)}", file=sys.stderr)
    return {
        "measurement": "text-layer",
        "boundary": TOGETHER.text if together else DECODE.text,
        "modes": mode_table(measured, counts_first=False),
        "reference": agreement.report(),
        "n_pages": len(pages),
        "repeats": repeats,
    }


def print_report(report: dict[str, Any]) -> None:
    """Print the report for people."""
    print(report["boundary"])
    rows = [
        [mode, f"{1e6 * row['s_per_token']:.0f}", f"{row['x_ar']:.2f}", f"{row['tpf']:.2f}", f"{row['spread']:.2f}",
         f"{100 * row['identical_to_ar']:.1f} %"]
        for mode, row in report["modes"].items()
    ]  # fmt: skip
    print(format_table(["mode", "us/token", "x AR", "TPF", "spread", "same ids"], rows))
    for task, row in report["reference"]["by_task"].items():
        equal, alike = 100 * row["string_equal"], row["similarity"]
        print(f"{task}: {row['n_pieces']} pieces, {equal:.1f} % of the references equal, similarity {alike:.4f}")
    accepted = report["reference"]["accepted"]
    print(f"reference tokens accepted: {'-' if accepted is None else f'{100 * accepted:.1f} %'}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark: 0 = all well, 1 = some input failed or the ids differ, 2 = wrong settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20, help="how many pages to make")
    parser.add_argument("--repeats", type=int, default=3, help="passes of each mode over each page")
    parser.add_argument("--checkpoint", default="nano", help="nano or a checkpoint folder")
    parser.add_argument("--dtype", default="auto", help="float32, mixed, bfloat16 or auto")
    parser.add_argument("--layout", default="auto", help="auto, cdla or none")
    parser.add_argument("--together", action="store_true", help="the crops of a page in one call, as parse does")
    parser.add_argument("--json", action="store_true", help="everything on stdout")
    args = parser.parse_args(arguments)
    try:
        if args.pages < 1 or args.repeats < 1:
            raise ConfigError(f"--pages {args.pages}, --repeats {args.repeats}: choose at least 1")
        engine = Engine.from_pretrained(args.checkpoint, EngineConfig(max_tokens=512), args.dtype)
        report = measure(engine, cut_pages(args.pages, engine.tasks, args.layout), args.repeats, args.together)
        report["machine"] = machine(args.dtype, engine.checkpoint.model.device.type)
    except GravityOCRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ConfigError, CheckpointError)) else 1
    print(json.dumps(report)) if args.json else print_report(report)
    return 0 if all(row["identical_to_ar"] == 1.0 for row in report["modes"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
