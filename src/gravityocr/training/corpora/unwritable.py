"""Which targets a checkpoint's tokenizer cannot write, and for want of which characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_ANY_ID = 2**31
_MOST_SHOWN = 5
_CONTEXT_CHARS = 12


@lru_cache(maxsize=1)
def tokenizer_of(checkpoint: str) -> Tokenizer:
    """Return the tokenizer of a checkpoint.

    *Raises*: CheckpointError where there is none.
    """
    # Pools without a checkpoint do without PyTorch.
    from gravityocr.model.checkpoint import read_tokenizer, resolve_checkpoint

    return read_tokenizer(resolve_checkpoint(checkpoint), _ANY_ID)


def unwritable(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> str | None:
    """Name the first characters of a text that its tokens `ids` do not give back; None where they give all of it."""
    written = tokenizer.decode(list(ids))
    if written == text:
        return None
    lacking = [one for one in dict.fromkeys(text) if _written(tokenizer, one) != one]
    if lacking:
        shown = ", ".join(_shown(one) for one in lacking[:_MOST_SHOWN])
        return shown + (f" and {len(lacking) - _MOST_SHOWN} more" if len(lacking) > _MOST_SHOWN else "")
    pairs = zip(text, written, strict=False)
    at = next((number for number, (one, other) in enumerate(pairs) if one != other), min(len(text), len(written)))
    return f"what begins with {text[at : at + _CONTEXT_CHARS]!r} at character {at}"


def _written(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids)


def _shown(character: str) -> str:
    code = f"U+{ord(character):04X}"
    return f"{code} {character}" if character.isprintable() and not character.isspace() else code
