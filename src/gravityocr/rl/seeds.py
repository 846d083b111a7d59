"""What samples must not hold, and what their noise depends on."""

from __future__ import annotations

import hashlib
from typing import Any

from gravityocr.engine.engine import Engine


def banned_tokens(engine: Engine) -> frozenset[int]:
    """Return what no completion may hold: a sampled image token would ask for an image, a mask token for a draft."""
    return frozenset({engine.checkpoint.prompts.image_id, engine.checkpoint.diffusion.mask_id})


def seed_of(*parts: Any) -> int:
    """Return a seed that depends on all the parts."""
    digest = hashlib.blake2b(" ".join(map(str, parts)).encode("utf-8"), digest_size=7).digest()
    return int.from_bytes(digest, "big")
