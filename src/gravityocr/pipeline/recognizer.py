"""The protocol through which the pipeline meets whatever reads crops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gravityocr.document import Crop, Recognition


class Recognizer(Protocol):
    """Reads crops; a local engine or a client of a server.

    `tasks` are the tasks that the checkpoint claims; the pipeline never asks for another one.
    """

    @property
    def tasks(self) -> frozenset[str]:
        """Return the claimed tasks, out of `text`, `table` and `formula`."""
        ...

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Return one recognition per crop, in order; a bad crop gets status `failed` and spoils no other."""
        ...
