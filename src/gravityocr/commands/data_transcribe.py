"""`gravityocr data transcribe`: have a teacher write the targets of pending regions."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gravityocr.commands.options import Json, console
from gravityocr.errors import ConfigError
from gravityocr.training.corpora.chat_servers import TranscriptionConfig
from gravityocr.training.corpora.transcription import REPORT_NAME, Progress, transcribe_regions

_TELL_EVERY_S = 10.0
_MOST_PRINTED = 5


def transcribe(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="IN", help="Folder with region files, or one such file.")],
    out: Annotated[Path, typer.Option(help="Folder for the region files with targets; a second run goes on in it.")],
    server: Annotated[str, typer.Option(help="OpenAI-compatible servers, URLs separated by commas, asked in turn.")],
    model: Annotated[str, typer.Option(help="Name under which they serve the teacher.")],
    concurrency: Annotated[int, typer.Option(help="Most requests under way at a time, over all servers.")] = 16,
    timeout_s: Annotated[float, typer.Option(help="Longest wait for one answer.")] = 180.0,
    retries: Annotated[int, typer.Option(help="Further requests for a region after the first one failed.")] = 5,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of a transcript; a longer one is no target.")] = 8192,
    api_key: Annotated[str | None, typer.Option(envvar="OPENAI_API_KEY", hidden=True)] = None,
    as_json: Json = False,
) -> None:
    """Transcribe pending regions through servers; the key, where they want one, is in OPENAI_API_KEY."""
    source = ctx.get_parameter_source("api_key")
    if source is not None and source.name == "COMMANDLINE":
        raise ConfigError("--api-key shows the key to every user of the machine; put it into OPENAI_API_KEY instead")
    servers = tuple(url.strip() for url in server.split(",") if url.strip())
    config = TranscriptionConfig(model, servers, concurrency, timeout_s, retries, max_tokens)
    report = transcribe_regions(folder, out, config, api_key, _Teller().tell)
    typer.echo(json.dumps(report, indent=1) if as_json else _as_text(report, out))
    if report["failed"] or report["n_shards_failed"]:
        raise typer.Exit(1)


class _Teller:
    """Prints how far a run has come, at most every few seconds."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._n_shards = 0

    def tell(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last < _TELL_EVERY_S and progress.n_shards_done == self._n_shards:
            return
        self._last, self._n_shards = now, progress.n_shards_done
        n_done = progress.n_kept + progress.n_answered
        per_s = progress.n_answered / max(now - self._start, 1e-9)
        left = f", {(progress.n_pending - n_done) / per_s / 60:.0f} min left" if per_s else ""
        told = ", ".join(f"{count} {status}" for status, count in sorted(progress.statuses.items()))
        line = f"{n_done} of {progress.n_pending} regions ({told or 'none asked'}), {per_s:.1f} a second{left}; "
        console.print(f"{line}{progress.n_shards_done} of {progress.n_shards} shards", markup=False)


def _as_text(report: dict[str, Any], out: Path) -> str:
    counts = ", ".join(f"{report[key]} {key}" for key in ("ok", "truncated", "empty", "failed"))
    lines = [f"{report['n_regions']} regions: {report['n_passed_through']} had targets; of the others {counts}"]
    lines += [f"{shard['file']}: {shard['reason']}" for shard in report["shards"] if shard["status"] == "failed"]
    for server in report["servers"]:
        fault = f", {server['n_faults']} faults, the last: {server['last_fault']}" if server["n_faults"] else ""
        lines.append(f"{server['url']}: {server['n_requests']} requests{fault}")
    lines += [f"{row['region_id']}: {row['status']}: {row['reason']}" for row in report["left_out"][:_MOST_PRINTED]]
    return "\n".join([*lines, f"all that was left out: {out / REPORT_NAME} and the journals beside the shards"])
