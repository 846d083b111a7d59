"""The options of `gravityocr parse`, and what they hold when they are left out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from gravityocr.errors import ConfigError
from gravityocr.pipeline.exports import FORMATS
from gravityocr.pipeline.layout_choice import LAYOUTS

Inputs = Annotated[list[str], typer.Argument(help="Files, folders, globs, http(s) URLs, or - for stdin.")]
Out = Annotated[str | None, typer.Option("--out", "-o", help="Output folder.")]
Pages = Annotated[
    str | None,
    typer.Option(help="Pages, 1-based: 1-5,8 or 3-. An input that has none of them fails; a picture has page 1."),
]
MaxPages = Annotated[int | None, typer.Option(help="Read at most so many pages of each input.")]
Format = Annotated[str, typer.Option(help=f"One or more, with commas: {', '.join(FORMATS)}.")]
MaxTokens = Annotated[int | None, typer.Option(help="Most tokens per piece, 512; with --server per region, 8192.")]
Layout = Annotated[str, typer.Option(help=f"{', '.join(LAYOUTS[:-1])} or {LAYOUTS[-1]}.")]
LayoutModel = Annotated[str | None, typer.Option(help="The layout model's folder, hub id or (cdla) ONNX file.")]
Draft = Annotated[str, typer.Option(help="What drafts: auto, diffusion, text-layer, or none (plain AR).")]
Reference = Annotated[
    str | None, typer.Option(help="hOCR or ALTO file of the input's pages to draft from, not its text layer.")
]
Dpi = Annotated[float | None, typer.Option(help="Resolution at which PDF pages are rendered: 200.")]
Password = Annotated[str | None, typer.Option(help="Password of encrypted PDFs; other users may see it.")]
PasswordFile = Annotated[str | None, typer.Option(help="File that holds that password on its only line.")]
TextFormat = Annotated[
    str, typer.Option(help="What the model writes: plain, markdown, or auto (the checkpoint's; servers: markdown).")
]
NoMerge = Annotated[bool, typer.Option("--no-merge", help="Leave paragraphs and tables apart where a page ends.")]
KeepFurniture = Annotated[
    bool, typer.Option("--keep-furniture", help="Keep headers, footers and page numbers in the text.")
]
VerifyTextLayer = Annotated[
    bool, typer.Option("--verify-text-layer", help="Report PDF pages whose text layer disagrees with what was read.")
]
AllowPrivateUrls = Annotated[
    bool, typer.Option("--allow-private-urls", help="Let URLs lead into private and local networks.")
]
Server = Annotated[
    str | None, typer.Option(help="URL[,URL...] of OpenAI-compatible servers that read, instead of a checkpoint.")
]
ServerModel = Annotated[str | None, typer.Option(help="The model to ask the servers for; default: the one they serve.")]
ServerKeyFile = Annotated[str | None, typer.Option(help="File that holds the servers' API key.")]
Workers = Annotated[str, typer.Option(help="Processes that read at a time, or auto: what cores and pages are worth.")]
Stdout = Annotated[bool, typer.Option("--stdout", help="Print the Markdown instead of writing files.")]
Resume = Annotated[bool, typer.Option("--resume", help="Leave alone what an earlier run into this folder finished.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failed input.")]
Config = Annotated[str | None, typer.Option(help="TOML file over the pipeline's defaults.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="section.key=value over them; repeatable.")]


@dataclass(frozen=True)
class ParseOptions:
    """The command line of `parse`, as typed."""

    inputs: list[str]
    out: str | None = None
    pages: str | None = None
    max_pages: int | None = None
    format: str = "md,json"
    decode: str = "self-spec"
    checkpoint: str = "nano"
    layout: str = "auto"
    layout_model: str | None = None
    block_size: int | None = None
    max_tokens: int | None = None
    dtype: str = "auto"
    device: str = "cpu"
    threads: int | None = None
    draft_head: str | None = None
    draft: str = "auto"
    reference: str | None = None
    dpi: float | None = None
    password: str | None = None
    password_file: str | None = None
    text_format: str = "auto"
    no_merge: bool = False
    keep_furniture: bool = False
    verify_text_layer: bool = False
    allow_private_urls: bool = False
    server: str | None = None
    server_model: str | None = None
    server_key_file: str | None = None
    workers: str = "auto"
    resume: bool = False
    fail_fast: bool = False
    config: str | None = None
    set: list[str] | None = None
    stdout: bool = False
    as_json: bool = False

    @property
    def formats(self) -> tuple[str, ...]:
        """Return the names of the chosen formats."""
        return tuple(name.strip() for name in self.format.split(","))

    @property
    def overrides(self) -> list[str]:
        """Return the `--set` options."""
        return self.set or []

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Refuse options that have no use.

        *Raises*: ConfigError naming those that were given.
        """
        defaults = {one.name: one.default for one in fields(self)}
        given = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) != defaults[name]]
        if given:
            raise ConfigError(f"{', '.join(given)}: {why}")
