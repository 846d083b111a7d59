"""What region files hold: counts, sizes, lengths, and what training on them costs, all without decoding a picture."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from gravityocr.config import check_numbers
from gravityocr.document import Task
from gravityocr.image_size import n_image_tokens
from gravityocr.model.prompt import PromptBuilder
from gravityocr.training.corpora.mixture import key_of
from gravityocr.training.corpora.region_shards import TASKS, RegionFile

PERCENTILES = (0, 5, 25, 50, 75, 95, 99, 100)
_BATCH = 1024
_COLUMNS = ("task", "target", "source", "doc_id", "page", "target_origin", "width_px", "height_px")
_MEASURES = ("width_px", "height_px", "chars", "response_tokens", "image_tokens", "prefix_tokens", "cost_tokens")
_MOST_UNKNOWN = 200


@dataclass(frozen=True)
class StatsConfig:
    """What a sample costs, and the limits of packing that samples are held against.

    *Units*: `n_eos` EOS tokens fill a response (a block, or one without the fill); `n_corrupt` corrupt streams hold it;
    the cap counts response tokens with their fill, as packing does.
    """

    n_eos: int = 32
    row_tokens: int = 10_240
    response_cap_tokens: int = 3_072
    n_corrupt: int = 2

    def __post_init__(self) -> None:
        most = 10**7
        check_numbers(
            self, "", n_eos=(1, 256), row_tokens=(1, most), response_cap_tokens=(1, most), n_corrupt=(1, 2)
        )  # fmt: skip


@dataclass
class RegionFigures:
    """The measures of all regions, one array entry each; `task` and the others count from 0.

    *Units*: `cost_tokens` = P + 3 (N + B) forward tokens: prefix, clean stream and two corrupt streams. `pending` is 1
    where there is no target yet, and the response therefore counts nothing.
    """

    task: array[int] = field(default_factory=lambda: array("B"))
    pending: array[int] = field(default_factory=lambda: array("B"))
    width_px: array[int] = field(default_factory=lambda: array("i"))
    height_px: array[int] = field(default_factory=lambda: array("i"))
    chars: array[int] = field(default_factory=lambda: array("i"))
    response_tokens: array[int] = field(default_factory=lambda: array("i"))
    image_tokens: array[int] = field(default_factory=lambda: array("i"))
    prefix_tokens: array[int] = field(default_factory=lambda: array("i"))
    cost_tokens: array[int] = field(default_factory=lambda: array("i"))
    document: array[int] = field(default_factory=lambda: array("Q"))
    page: array[int] = field(default_factory=lambda: array("Q"))
    sources: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    n_bytes: int = 0
    n_files: int = 0

    def of(self, name: str, task: Task | None = None) -> NDArray[np.int64]:
        """Return a measure of all regions, or of those of one task."""
        values = np.asarray(getattr(self, name), dtype=np.int64)
        return values if task is None else values[np.asarray(self.task) == TASKS.index(task)]


def measure_regions(files: Sequence[Path], prompts: PromptBuilder, config: StatsConfig) -> RegionFigures:
    """Measure the regions of some files with the tokenizer and the image sizes of a checkpoint.

    *Raises*: InputError where a file cannot be read.
    """
    figures = RegionFigures()
    unknown = _Unknown.of(prompts.tokenizer)
    for file in files:
        region_file = RegionFile(file)
        figures.n_files += 1
        figures.n_bytes += file.stat().st_size
        columns = region_file.columns(*_COLUMNS)
        figures.splits[_split_of(file)] += len(region_file)
        figures.sources.update(columns["source"])
        figures.origins.update(columns["target_origin"])
        for start in range(0, len(region_file), _BATCH):
            batch = {name: values[start : start + _BATCH] for name, values in columns.items()}
            _measure(figures, batch, prompts, unknown, config)
    return figures


def _split_of(file: Path) -> str:
    return file.parent.name if file.parent.name in ("train", "validation") else "none"


def _measure(
    figures: RegionFigures, batch: dict[str, list[Any]], prompts: PromptBuilder, unknown: _Unknown, config: StatsConfig
) -> None:
    texts = [text.encode("utf-8", errors="replace").decode("utf-8") for text in batch["target"]]
    encodings = prompts.tokenizer.encode_batch(texts, add_special_tokens=False)
    for number, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        task, width, height = batch["task"][number], batch["width_px"][number], batch["height_px"][number]
        n_prefix, n_response = prompts.n_tokens(width, height, task), len(encoding.ids)
        figures.task.append(TASKS.index(task))
        figures.pending.append(batch["target_origin"][number] == "pending")
        figures.width_px.append(width)
        figures.height_px.append(height)
        figures.chars.append(len(text))
        figures.response_tokens.append(n_response)
        figures.prefix_tokens.append(n_prefix)
        figures.image_tokens.append(n_image_tokens(height, width, prompts.spec))
        figures.cost_tokens.append(n_prefix + (1 + config.n_corrupt) * (n_response + config.n_eos))
        figures.document.append(key_of(batch["source"][number], batch["doc_id"][number]))
        figures.page.append(key_of(batch["source"][number], batch["doc_id"][number], batch["page"][number]))
        figures.unknown.update(unknown.in_text(text, encoding))


@dataclass(frozen=True)
class _Unknown:
    """The token that stands for what a tokenizer does not know; byte-level ones know everything and have none."""

    token: str | None
    id: int | None

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> _Unknown:
        token = json.loads(tokenizer.to_str())["model"].get("unk_token")
        return cls(token, tokenizer.token_to_id(token) if token is not None else None)

    def in_text(self, text: str, encoding: Encoding) -> list[str]:
        """List what of a text is unknown; the token itself, which may be an ordinary one, is known."""
        if self.id is None or self.id not in encoding.ids:
            return []
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        found = (text[low:high] for id_, (low, high) in spans if id_ == self.id)
        return [piece for piece in found if piece != self.token]


def region_stats(figures: RegionFigures, config: StatsConfig) -> dict[str, Any]:
    """Return the report of measured regions: totals, and the same figures of each task."""
    tasks = [task for task in TASKS if len(figures.of("task", task))]
    return {
        "n_files": figures.n_files,
        "n_bytes": figures.n_bytes,
        "eos_tokens": config.n_eos,
        "corrupt_streams": config.n_corrupt,
        "row_tokens": config.row_tokens,
        "response_cap_tokens": config.response_cap_tokens,
        **_tally(figures, config, None),
        "n_documents": len(np.unique(np.asarray(figures.document, dtype=np.uint64))),
        "n_pages": len(np.unique(np.asarray(figures.page, dtype=np.uint64))),
        "sources": dict(figures.sources.most_common()),
        "origins": dict(figures.origins.most_common()),
        "splits": dict(figures.splits.most_common()),
        "tasks": {task: _tally(figures, config, task) for task in tasks},
        "unknown_tokens": dict(figures.unknown.most_common(_MOST_UNKNOWN)),
        "n_unknown_tokens": sum(figures.unknown.values()),
    }


def _tally(figures: RegionFigures, config: StatsConfig, task: Task | None) -> dict[str, Any]:
    prefix, response = figures.of("prefix_tokens", task), figures.of("response_tokens", task)
    n, filled = len(response), response + config.n_eos
    n_clean = int(filled.sum())
    cost = figures.of("cost_tokens", task)
    return {
        "n_regions": n,
        "n_pending": int(figures.of("pending", task).sum()),
        "share": round(n / max(1, len(figures.task)), 6),
        **{name: percentiles(figures.of(name, task)) for name in _MEASURES},
        "stream_tokens": {"prefix": int(prefix.sum()), "clean": n_clean, "corrupt": config.n_corrupt * n_clean},
        "forward_tokens": int(cost.sum()),
        "n_over_row": int((cost > config.row_tokens).sum()),
        "n_over_response_cap": int((filled > config.response_cap_tokens).sum()),
        "n_skipped": int(((cost > config.row_tokens) | (filled > config.response_cap_tokens)).sum()),
    }


def percentiles(values: NDArray[np.int64]) -> dict[str, float]:
    """Return the mean and some percentiles; nothing of no values."""
    if not len(values):
        return {}
    found = np.percentile(values, PERCENTILES)
    named = {f"p{q}": round(float(value), 3) for q, value in zip(PERCENTILES, found, strict=True)}
    return {"mean": round(float(values.mean()), 3), **named}


def stats_text(report: dict[str, Any]) -> str:
    """Return a report for a reader."""
    lines = [
        f"{report['n_regions']} regions of {report['n_documents']} documents and {report['n_pages']} pages in "
        f"{report['n_files']} files, {report['n_bytes'] / 1e6:.1f} MB"
    ]
    for name in ("sources", "origins", "splits"):
        lines.append(f"{name}: " + ", ".join(f"{key} {n}" for key, n in report[name].items()))
    for name, tally in (("all", report), *report["tasks"].items()):
        n_pending = tally["n_pending"]
        note = f"; {n_pending} pending: cost without their responses" if n_pending else ""
        lines.append(f"{name}: {tally['n_regions']} regions ({100 * tally['share']:.1f} %){note}")
        for measure in _MEASURES:
            lines.append(f"  {measure:16} " + "  ".join(f"{key} {value:g}" for key, value in tally[measure].items()))
        streams = "  ".join(f"{key} {n}" for key, n in tally["stream_tokens"].items())
        lines.append(f"  {'tokens a stream':16} {streams}  sum {tally['forward_tokens']}")
        over = f"{tally['n_over_row']} over {report['row_tokens']} forward tokens"
        cap = f"{tally['n_over_response_cap']} over {report['response_cap_tokens']} response tokens with fill"
        lines.append(f"  {over}, {cap}")
    unknown = ", ".join(f"{token!r} {n}" for token, n in report["unknown_tokens"].items())
    lines.append(f"unknown tokens: {report['n_unknown_tokens']} ({unknown or 'none'})")
    return "\n".join([*lines, *_legend(report)])


def _legend(report: dict[str, Any]) -> list[str]:
    n_eos, n_corrupt = report["eos_tokens"], report["corrupt_streams"]
    fill = f"{n_eos} EOS tokens behind it" if n_eos > 1 else "one EOS token behind it"
    return [
        "p0 p5 p25 p50 p75 p95 p99 p100: percentiles, p0 the smallest, p50 the median, p100 the largest value",
        "prefix: prompt and image tokens, read once; clean: the response and the " + fill + ", read once; "
        f"corrupt: the same with masks, read {'twice' if n_corrupt == 2 else 'once'}",
        f"cost_tokens = prefix + {1 + n_corrupt} x (response + {n_eos}): what a sample takes of a packed row, in "
        "forward tokens; training leaves out samples over a limit",
    ]
