"""`gravityocr parse`: documents to Markdown and JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gravityocr.api import GravityOCR
from gravityocr.commands import options
from gravityocr.commands.options import console
from gravityocr.document import Document, Page
from gravityocr.engine.engine import DRAFTS, Draft, EngineConfig
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.pipeline.convert import PipelineConfig
from gravityocr.pipeline.exports import DocumentWriter, OutputFolders, printable
from gravityocr.pipeline.inputs import InputFile, collect_inputs
from gravityocr.pipeline.markdown import comment
from gravityocr.pipeline.source import PageRanges, SourceConfig
from gravityocr.pipeline.text_files import read_known_pages


def parse(
    inputs: Annotated[list[str], typer.Argument(help="Files, folders or globs.")],
    out: Annotated[str | None, typer.Option("--out", "-o", help="Output folder.")] = None,
    pages: Annotated[str | None, typer.Option(help="Pages, 1-based: 1-5,8.")] = None,
    format: Annotated[str, typer.Option(help="md, json or both: md,json.")] = "md,json",
    decode: options.Decode = "self-spec",
    checkpoint: options.Checkpoint = "nano",
    layout: Annotated[str, typer.Option(help="auto, cdla or none.")] = "auto",
    block_size: options.BlockSize = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    threads: options.Threads = None,
    draft_head: options.DraftHead = None,
    draft: Annotated[str, typer.Option(help="What drafts: auto, diffusion, text-layer, or none (plain AR).")] = "auto",
    reference: Annotated[
        str | None, typer.Option(help="hOCR or ALTO file of the input's pages to draft from, not its text layer.")
    ] = None,
    dpi: Annotated[float, typer.Option(help="Resolution at which PDF pages are rendered.")] = 200.0,
    password: Annotated[str | None, typer.Option(help="Password of encrypted PDFs.")] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the Markdown instead of writing files.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failed input.")] = False,
    as_json: options.Json = False,
) -> None:
    """Turn PDFs and images into Markdown and JSON, one folder per input."""
    if (out is None) == (not stdout):
        raise ConfigError("give either -o DIR or --stdout")
    if stdout and as_json:
        raise ConfigError("--stdout and --json both want stdout; choose one")
    formats = [name.strip() for name in format.split(",")]
    folders = None
    if out is not None:  # an unknown format or an unusable folder is told before any work
        folders = OutputFolders(out)
        DocumentWriter(Path(out), formats)
    if pages is not None:
        PageRanges.parse(pages)
    head = options.draft_head(draft_head)
    mode, drafts = options.decode_mode(decode), _draft(decode, draft)
    text_layer = mode == "self-spec" and drafts in ("auto", "text-layer")
    found = collect_inputs(inputs)
    if reference is not None:
        _check_reference(reference, text_layer, len(found))
    engine = EngineConfig(mode, block_size, max_tokens, draft_head=head, draft=drafts)
    source = SourceConfig(dpi=dpi, password=password, text_layer=text_layer, reference=reference)
    pipeline = PipelineConfig(source=source)
    ocr = GravityOCR.from_pretrained(
        checkpoint, layout=layout, engine=engine, pipeline=pipeline, dtype=dtype, device=device, n_threads=threads
    )
    files: list[dict[str, Any]] = []
    for item in found:
        if stdout and len(found) > 1:
            _echo(f"<!-- {comment(item.path)} -->\n")
        files.append(_parse_one(ocr, item, pages, folders, formats))
        if fail_fast and files[-1]["status"] != "ok":
            break
    n_failed = sum(file["status"] != "ok" for file in files)
    if as_json:
        _echo(json.dumps({"files": files, "n_failed": n_failed}, ensure_ascii=not _holds_unicode()))
    if n_failed:
        raise typer.Exit(1)


def _draft(decode: str, name: str) -> Draft:
    """Check the source of drafts.

    *Raises*: ConfigError for an unknown one, or one that the decode mode has no use for.
    """
    if name not in DRAFTS:
        raise ConfigError(f"--draft {name!r} is unknown; choose one of {', '.join(DRAFTS)}")
    if decode != "self-spec" and name != "auto" and (decode, name) != ("ar", "none"):
        raise ConfigError(f"--draft {name} goes with --decode self-spec only: leave out --draft or --decode {decode}")
    return name


def _check_reference(reference: str, text_layer: bool, n_inputs: int) -> None:
    """Read a reference once before any work.

    *Raises*: ConfigError where it has no use; InputError where it cannot be read.
    """
    if not text_layer:
        raise ConfigError("--reference needs --decode self-spec and --draft auto or text-layer: nothing else uses it")
    if n_inputs != 1:
        raise ConfigError(f"--reference tells of one document, and {n_inputs} inputs were found: parse that one alone")
    read_known_pages(reference)


def _parse_one(
    ocr: GravityOCR, item: InputFile, pages: str | None, folders: OutputFolders | None, formats: list[str]
) -> dict[str, Any]:
    if item.error:
        return _report(Document(item.path, "failed", error=item.error), [])
    writer = DocumentWriter(folders.claim(item.path), formats) if folders else None
    document = ocr.parse(
        item.path,
        pages=pages,
        on_page=lambda page: _show_page(item.path, page),
        save_image=writer.save_image if writer else None,
    )
    if writer is None:
        _echo(document.markdown)
        return _report(document, [])
    try:
        outputs = writer.finish(document) if document.pages else []
    except GravityOCRError as error:
        return _report(Document(item.path, "failed", document.pages, str(error)), [])
    return _report(document, [str(path) for path in outputs])


def _echo(text: str) -> None:
    """Print on stdout, whatever its encoding holds."""
    typer.echo(printable(text, sys.stdout.encoding or "utf-8"))


def _holds_unicode() -> bool:
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"


def _show_page(path: str, page: Page) -> None:
    seconds = sum(page.seconds.values())
    unread = sum(region.status == "skipped" for region in page.regions)
    note = f" ({unread} kept as pictures)" if unread else ""
    regions = f"{len(page.regions)} regions{note}"
    console.print(f"{path}: page {page.index + 1}, {regions}, {page.status}, {seconds:.1f} s", markup=False)


def _report(document: Document, outputs: list[str]) -> dict[str, Any]:
    if document.status != "ok":
        where = "" if str(document.error).startswith(document.source) else f"{document.source}: "
        console.print(f"{where}{document.status}: {document.error}", style="red", markup=False)
    elif document.error:
        console.print(f"note: {document.error}", style="yellow", markup=False)
    for path in outputs:
        console.print(f"wrote {path}", markup=False)
    return {
        "file": document.source,
        "status": document.status,
        "n_pages": len(document.pages),
        "n_regions": document.n_regions,
        "error": document.error,
        "outputs": outputs,
    }
