"""The model card of a checkpoint: what it was trained on, how, and the figures that were measured, no others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gravityocr.config import NONE_WORD
from gravityocr.model.checkpoint_files import read_json
from gravityocr.model.hub import HUB_ID
from gravityocr.model.prompt import TASK_PROMPTS
from gravityocr.training.card_figures import figures_section, read_figures, validated
from gravityocr.training.card_recipe import data_section, recipe_section
from gravityocr.training.run_record import RunRecord, read_run

CARD_FILE = "README.md"
EMBEDDED, EMBEDDED_LICENSE = "nano", "apache-2.0"


def write_card(checkpoint: Path, run: Path | None = None, figures: Path | None = None, license_id: str | None = None,
               title: str | None = None) -> Path:  # fmt: skip
    """Write the card of a checkpoint into its folder and return the file.

    What it says of the training is read from the run's folder, the figures from the last validation in its log and
    from `figures`; where there are none, it says so.

    *Raises*: CheckpointError where the folder is no checkpoint; InputError where the run or the figures are broken.
    """
    diffusion = read_json(checkpoint / "block_diffusion.json")
    record = read_run(run) if run is not None else None
    base = _base_model(diffusion, record)
    sections = [
        _front_matter(license_id or (EMBEDDED_LICENSE if base == EMBEDDED else "other"), base),
        f"# {title or (run or checkpoint).resolve().name}",
        _what_it_is(diffusion, base, record),
        "## Figures",
        figures_section(record, read_figures(figures) if figures is not None else {}),
        "## Trained on",
        data_section(record),
        "## Recipe",
        recipe_section(record),
        "## Use",
        _use(checkpoint.resolve().name),
    ]
    file = checkpoint / CARD_FILE
    part = checkpoint / f".{CARD_FILE}.part"
    part.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    part.replace(file)
    return file


def _base_model(diffusion: Mapping[str, Any], record: RunRecord | None) -> str | None:
    """Return the name of the checkpoint that was adapted; a path of one machine says nothing but its last part."""
    named = diffusion.get("base")
    if not isinstance(named, str) and record is not None:
        named = record.section("train").get("base")
    if not isinstance(named, str) or named == NONE_WORD:
        return None
    return named if HUB_ID.fullmatch(named) else Path(named).name


def _front_matter(license_id: str, base: str | None) -> str:
    lines = ["---", f"license: {license_id}"]
    if base is not None and HUB_ID.fullmatch(base):
        lines.append(f"base_model: {base}")
    lines += ["pipeline_tag: image-to-text", "library_name: transformers", "tags:"]
    return "\n".join([*lines, "- ocr", "- block-diffusion", "- self-speculative-decoding", "---"])


def _what_it_is(diffusion: Mapping[str, Any], base: str | None, record: RunRecord | None) -> str:
    what = f"A GLM-OCR network that drafts blocks of {diffusion.get('bd_size')} tokens by diffusion and verifies them "
    what += f"by its own autoregressive path. {_reads(diffusion, record)}"
    if base is not None:
        return f"{what} Adapted from {base}."
    if record is None:
        return what
    start = record.section("train").get("start_from", NONE_WORD)
    return f"{what} " + (
        "Trained from random weights." if start == NONE_WORD else f"Trained from the weights of {Path(start).name}."
    )


def _reads(diffusion: Mapping[str, Any], record: RunRecord | None) -> str:
    """Say what the checkpoint reads, and what it only claims to read: no crop of it was validated."""
    claimed, kinds = diffusion.get("tasks") or [*TASK_PROMPTS], validated(record)
    # Kinds of synthetic crops have the names of their shards, in which the task stands.
    read = [task for task in claimed if any(task in kind for kind in kinds)]
    unread = ", ".join(task for task in claimed if task not in read)
    if not read:
        return f"It claims to read {unread}; its run validated none of them."
    return f"Reads {', '.join(read)}" + (f" (claimed, but not validated: {unread})." if unread else ".")


def _use(folder: str) -> str:
    return f"""```python
from gravityocr import GravityOCR

print(GravityOCR.from_pretrained("{folder}").parse("paper.pdf").markdown)
```

`{folder}` is the folder that holds this card; from the hub: `hf download OWNER/NAME --local-dir {folder}`, with the
name of the repository that you read this in.

Stock transformers loads the folder as an ordinary `GlmOcrForConditionalGeneration` and decodes it token by token.
`block_diffusion.json` names the mask token and the block size; the drafts need it."""
