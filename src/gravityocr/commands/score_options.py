"""What the commands of `gravityocr score` share: options, and the checks that come before anything is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gravityocr.errors import ConfigError
from gravityocr.metrics.runs.input_files import STDIN
from gravityocr.metrics.runs.output_places import InputPlace, check_report_place, check_results_place, same_file
from gravityocr.metrics.runs.score_run import RunConfig


class Compat(StrEnum):
    """Which of the two versions of a measure."""

    ours = "ours"
    official = "official"


class TableMode(StrEnum):
    """Which benchmark's TEDS."""

    omnidocbench = "omnidocbench"
    pubtabnet = "pubtabnet"


class TextKind(StrEnum):
    """What a text is normalised as."""

    text = "text"
    formula = "formula"
    table = "table"


class PageVersion(StrEnum):
    """Which version of OmniDocBench; they differ in CDM."""

    v16 = "v1.6"
    v15 = "v1.5"


class FormulaVersion(StrEnum):
    """Whose CDM; the long names are those of the results."""

    v16 = "v1.6"
    v15 = "v1.5"
    unimernet = "unimernet"
    omnidocbench_16 = "omnidocbench-1.6"
    omnidocbench_15 = "omnidocbench-1.5"


Golden = Annotated[Path | None, typer.Option(help="Compare with a file of official values; exit 1 on a miss.")]
Pairs = Annotated[Path | None, typer.Option(help="JSONL of id, pred, ref; - is stdin.")]
Pred = Annotated[Path | None, typer.Option(help="A folder of predictions, paired with --ref by stem.")]
Ref = Annotated[Path | None, typer.Option(help="A folder of references.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.")]
Processes = Annotated[int | None, typer.Option(help="Processes to score in; default: one a core.")]
Timeout = Annotated[float, typer.Option(help="Seconds that one sample may take.")]
TexTimeout = Annotated[float, typer.Option(help="Seconds that TeX may take for one formula.")]
Results = Annotated[Path | None, typer.Option(help="JSONL of per-sample results; a rerun takes them up.")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="Write an HTML report.")]
Images = Annotated[Path | None, typer.Option(help="A folder of pictures for the report, by stem.")]
Worst = Annotated[int, typer.Option(min=0, help="Samples of a kind that the report shows, the worst first.")]
CompatOption = Annotated[Compat, typer.Option(help="The measure as mended, or with the official scorer's faults.")]
CdmVersion = Annotated[FormulaVersion, typer.Option(help="Whose constants CDM takes.")]
Cache = Annotated[Path | None, typer.Option(help="A folder that keeps rendered formulas for later runs.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the bootstrap intervals.")]
WithCdm = Annotated[bool, typer.Option("--cdm/--no-cdm", help="Without CDM, no TeX is needed.")]

OF_A_REPORT = ("images", "worst")
OF_A_SUMMARY = ("report", "images", "worst", "seed")
OF_CDM = ("version", "cache")


@dataclass(frozen=True)
class Run:
    """The options that say how to score, and where results go."""

    as_json: bool = False
    n_processes: int | None = None
    timeout_s: float = 600.0
    results: Path | None = None
    report: Path | None = None
    images: Path | None = None
    n_worst: int = 20
    seed: int = 0

    def config(self, settings: Mapping[str, Any]) -> RunConfig:
        """Return the configuration of a run whose scores depend on `settings`.

        *Raises*: ConfigError for values out of range.
        """
        return RunConfig(self.n_processes, self.timeout_s, self.results, settings)

    def check(self, inputs: Sequence[InputPlace], cache: Path | None = None) -> None:
        """Check the options, that every input is there, and that nothing is written over what is not ours.

        Nothing is made on the way.

        *Raises*: ConfigError naming the option and what is wrong with it.
        """
        self.config({})
        if self.images is not None and not os.path.isdir(self.images):
            raise ConfigError(f"--images {self.images}: is no folder; name the folder of the pictures")
        inputs = [place for place in inputs if place.path != STDIN]
        for place in inputs:
            if not os.path.exists(place.path):  # Path.exists raises for a name that is too long
                raise ConfigError(f"{place.option} {place.path}: does not exist; name an existing file or folder")
            if place.suffixes and not place.path.is_dir():
                raise ConfigError(f"{place.option} {place.path}: is no folder; name the folder that holds the files")
            if not place.suffixes and not os.path.isfile(place.path):
                stream = ", or - for stdin" if place.option == "--pairs" else ""
                raise ConfigError(f"{place.option} {place.path}: is no regular file; name one{stream}")
        if self.results is not None:
            check_results_place(self.results, inputs=inputs)
        if self.report is not None:
            check_report_place(self.report, inputs=inputs)
        if self.results is not None and self.report is not None and same_file(self.results, self.report):
            raise ConfigError(f"--report {self.report}: is the file of --results too; name another file")
        if cache is not None and os.path.exists(cache) and not os.path.isdir(cache):
            raise ConfigError(f"--cache {cache}: is no folder; name one")


def check_source(golden: Path | None, pairs: Path | None, pred: Path | None, ref: Path | None) -> None:
    """Check that there is one input.

    *Raises*: ConfigError where there is none, where there are several, and for half of --pred and --ref.
    """
    if (pred is None) != (ref is None):
        raise ConfigError("--pred and --ref belong together: a folder of predictions and one of references")
    n_given = sum(option is not None for option in (golden, pairs, pred))
    if n_given != 1:
        raise ConfigError(f"give one of --golden FILE, --pairs FILE and --pred DIR --ref DIR; {n_given} are given")


def refuse_unused(ctx: typer.Context, names: Sequence[str], because: str) -> None:
    """Check that no option was given that this form of the command has no use for.

    *Raises*: ConfigError naming the option and the form.
    """
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if param.name in names and source is not None and source.name == "COMMANDLINE":
            raise ConfigError(f"{param.opts[0]} has no use {because}; leave it out")


def refuse_for_golden(ctx: typer.Context, golden: Path | None, report: Path | None, *more: str) -> None:
    """Check the options of the commands that compare with official values or, without --golden, score pairs.

    *Raises*: ConfigError for one that says nothing.
    """
    if golden is not None:
        refuse_unused(ctx, (*OF_A_SUMMARY, *more), "with --golden")
    elif report is None:
        refuse_unused(ctx, OF_A_REPORT, "without --report")
