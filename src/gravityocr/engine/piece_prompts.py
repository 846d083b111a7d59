"""From a crop to the prompts of its pieces, for the engine and for whatever is measured beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image

from gravityocr.document import Crop
from gravityocr.engine.crop_pieces import AnyPiece, split_into_pieces, token_limit
from gravityocr.model.checkpoint import Checkpoint
from gravityocr.model.prompt import Prompt, on_white

MAX_ASPECT = 100


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
        yield PiecePrompt(None, prompts.build(_pad_aspect(crop.image), crop.task), max_tokens)
        return
    cell_px = prompts.spec.patch_size * prompts.spec.merge_size
    for part in parts:
        limit = min(token_limit(part, cell_px), max_tokens)
        yield PiecePrompt(part, prompts.build(part.image, crop.task), limit)


def _pad_aspect(image: Image.Image) -> Image.Image:
    """Pad the short side with white where a crop is too long and thin for the network's smallest grid."""
    width, height = image.size
    size = (max(width, height // MAX_ASPECT), max(height, width // MAX_ASPECT))
    if size == image.size:
        return image
    padded = Image.new("RGB", size, "white")
    padded.paste(on_white(image), (0, 0))
    return padded
