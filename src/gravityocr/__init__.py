"""Document OCR with self-speculative decoding: diffusion drafts, the autoregressive path verifies.

`GravityOCR` is looked up when it is first used, so that importing a light part of the package
(`gravityocr.metrics`, say) never imports torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gravityocr.api import GravityOCR as GravityOCR

__version__ = "0.1.0"
__all__ = ["GravityOCR", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "GravityOCR":
        return import_module("gravityocr.api").GravityOCR
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
