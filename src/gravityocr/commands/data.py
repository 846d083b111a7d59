"""`gravityocr data`: get training samples, choose among them, and look at them."""

from __future__ import annotations

import typer

from gravityocr.commands.data_convert import convert
from gravityocr.commands.data_decontaminate import decontaminate
from gravityocr.commands.data_pool import pool
from gravityocr.commands.data_stats import stats
from gravityocr.commands.data_synth import synth
from gravityocr.commands.data_transcribe import transcribe

app = typer.Typer(no_args_is_help=True, help="Get training samples, choose among them, and look at them.")
app.command("synth")(synth)
app.command("convert")(convert)
app.command("transcribe")(transcribe)
app.command("pool")(pool)
app.command("decontaminate")(decontaminate)
app.command("stats")(stats)


@app.callback()
def root() -> None:
    """Get training samples, choose among them, and look at them."""
