"""`gravityocr parse`: documents to Markdown, JSON and more."""

from __future__ import annotations

import typer

from gravityocr.api import GravityOCR as GravityOCR
from gravityocr.commands import options, parse_options
from gravityocr.commands.parse_options import ParseOptions
from gravityocr.commands.parse_run import run


def parse(
    ctx: typer.Context,
    inputs: parse_options.Inputs,
    out: parse_options.Out = None,
    pages: parse_options.Pages = None,
    max_pages: parse_options.MaxPages = None,
    format: parse_options.Format = "md,json",
    decode: options.Decode = "self-spec",
    checkpoint: options.Checkpoint = "nano",
    layout: parse_options.Layout = "auto",
    layout_model: parse_options.LayoutModel = None,
    block_size: options.BlockSize = None,
    max_tokens: parse_options.MaxTokens = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    threads: options.Threads = None,
    draft_head: options.DraftHead = None,
    draft: parse_options.Draft = "auto",
    reference: parse_options.Reference = None,
    dpi: parse_options.Dpi = None,
    password: parse_options.Password = None,
    password_file: parse_options.PasswordFile = None,
    text_format: parse_options.TextFormat = "auto",
    no_merge: parse_options.NoMerge = False,
    keep_furniture: parse_options.KeepFurniture = False,
    verify_text_layer: parse_options.VerifyTextLayer = False,
    allow_private_urls: parse_options.AllowPrivateUrls = False,
    server: parse_options.Server = None,
    server_model: parse_options.ServerModel = None,
    server_key_file: parse_options.ServerKeyFile = None,
    workers: parse_options.Workers = "auto",
    resume: parse_options.Resume = False,
    fail_fast: parse_options.FailFast = False,
    config: parse_options.Config = None,
    set: parse_options.Set = None,
    stdout: parse_options.Stdout = False,
    as_json: options.Json = False,
) -> None:
    """Turn PDFs and images into Markdown, JSON and other formats, one folder per input."""
    given = locals()
    obj = given.pop("ctx").ensure_object(dict)
    code = run(ParseOptions(**given))
    obj["told"] = code > 2  # why a signal ended it, so that nobody says it again
    if code:
        raise typer.Exit(code)
