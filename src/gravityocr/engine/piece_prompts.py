"""From a crop to the prompts of its pieces, for the engine and for whatever is measured beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gravityocr.document import Crop
from gravityocr.engine.crop_pieces import AnyPiece, split_into_pieces, token_limit
from gravityocr.model.checkpoint import Checkpoint
from gravityocr.model.prompt import Prompt


@dataclass(frozen=True)
class PiecePrompt:
    """One sequence to decode; `part` is None where a checkpoint reads crops whole."""

    part: AnyPiece | None
    prompt: Prompt
    max_tokens: int


def prompts_of(checkpoint: Checkpoint, crop: Crop, max_tokens: int) -> Iterator[PiecePrompt]:
    """Yield the pieces of a crop in reading order with their prompts, each bounded by what it can hold."""
    prompts = checkpoint.prompts
    parts = split_into_pieces(crop.image, crop.task, checkpoint.diffusion)
    if parts is None:
        yield PiecePrompt(None, prompts.build(crop.image, crop.task), max_tokens)
        return
    for part in parts:
        limit = min(token_limit(part, prompts.spec.cell_px), max_tokens)
        yield PiecePrompt(part, prompts.build(part.image, crop.task), limit)

