"""`gravityocr bench`: measurements."""

from __future__ import annotations

import typer

from gravityocr.commands.bench_equality import equality
from gravityocr.commands.bench_load import batch, concurrency, page
from gravityocr.commands.bench_report import report
from gravityocr.commands.bench_speed import blocks, decode, draft_steps, region

app = typer.Typer(no_args_is_help=True, help="Measure speed and identity.")


@app.callback()
def root() -> None:
    """Measure speed and identity."""


app.command("decode")(decode)
app.command("region")(region)
app.command("page")(page)
app.command("batch")(batch)
app.command("concurrency")(concurrency)
app.command("draft-steps")(draft_steps)
app.command("blocks")(blocks)
app.command("equality")(equality)
app.command("report")(report)
