"""Memory that pages held, back to the system when they go: a long document must not take more than a short one."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable


def _find_trim() -> Callable[[int], object] | None:
    """Return glibc's `malloc_trim`; other C libraries have none, and keep less back."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


_TRIM = _find_trim()


def give_back() -> None:
    """Let the C library return what it keeps of freed memory: behind pages of all sizes it keeps ever more."""
    if _TRIM is not None:
        _TRIM(0)
