"""Options that several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gravityocr.errors import ConfigError

if TYPE_CHECKING:
    from gravityocr.decoding.prompts import DecodeMode

# What decoding and the engine know, without the torch that comes with them: tests compare.
DECODE_MODES: tuple[DecodeMode, ...] = ("self-spec", "ar", "diffusion")
DRAFTS = ("auto", "diffusion", "text-layer", "none")

# Lines in a file or a pipe are never wrapped: paths in them must stay whole.
console = Console(stderr=True, highlight=False, width=None if sys.stderr is not None and sys.stderr.isatty() else 1000)

Checkpoint = Annotated[str, typer.Option(help="'nano' (embedded) or a checkpoint folder.")]
Decode = Annotated[str, typer.Option(help="self-spec, ar or diffusion.")]
BlockSize = Annotated[
    int | None, typer.Option(help="Most tokens drafted at once; default: 32, or the checkpoint's with --windows fixed.")
]
Dtype = Annotated[
    str, typer.Option(help="float32, mixed (vision and prefill in bf16), bfloat16 (decoding, too) or auto.")
]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Threads = Annotated[int | None, typer.Option(help="At most so many threads; default: 1 for small networks.")]
MaxTokens = Annotated[int, typer.Option(help="Most tokens per piece.")]
DraftHead = Annotated[
    str | None, typer.Option(help="on or off: the sequential draft head; default: the checkpoint's own choice.")
]
Windows = Annotated[str, typer.Option(help="adaptive (draft what pays) or fixed (whole blocks).")]
Candidates = Annotated[
    int | None,
    typer.Option("--candidates", help="Mask blocks behind verified drafts (fused rounds); default 0."),
]
Temperature = Annotated[float, typer.Option(help="0 is greedy; above it tokens are drawn.")]
TopP = Annotated[float, typer.Option(help="Draw from the likeliest tokens that hold this probability.")]
RepetitionPenalty = Annotated[float, typer.Option(help="Above 1, tokens that the output holds become less likely.")]
Seed = Annotated[int, typer.Option(help="Of the drawn tokens.")]
Stop = Annotated[list[str] | None, typer.Option(help="End the text of a crop before this text; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.")]


def draft_head(name: str | None) -> bool | None:
    """Check the switch of the draft head.

    *Raises*: ConfigError for anything but on and off.
    """
    if name is not None and name not in ("on", "off"):
        raise ConfigError(f"--draft-head {name!r} is unknown; choose on or off")
    return None if name is None else name == "on"


def decode_mode(name: str) -> DecodeMode:
    """Check a decode mode.

    *Raises*: ConfigError for an unknown one.
    """
    for mode in DECODE_MODES:
        if name == mode:
            return mode
    raise ConfigError(f"--decode {name!r} is unknown; choose one of {', '.join(DECODE_MODES)}")
