"""One run at a time writes into an output folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gravityocr.errors import ConfigError

LOCK_NAME = ".gravityocr-lock"


class FolderLock:
    """The right to write into an output folder, until it is closed or the process ends, however it ends.

    The system holds the lock, not the file: one that a killed run left locks nobody out. Where the system or the
    file system knows no such locks (`flock`), all runs are let in.

    *Raises*: ConfigError where another run has it, or the folder cannot be made or written.
    """

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / LOCK_NAME
        self._made: list[Path] = []
        self._handle: int | None = None
        try:
            self._make(self._path.parent)
            while self._handle is None:
                self._handle = self._locked()
        except BlockingIOError as error:
            raise ConfigError(
                f"{folder}: another run writes into this folder; wait for its end or choose another folder"
            ) from error
        except OSError as error:
            self._tidy()
            raise ConfigError(
                f"{self._path}: cannot be written ({error.strerror}); choose another output folder"
            ) from error

    def close(self) -> None:
        """Let others in. The lock's file goes, and the folder, too, where this made it and it is empty."""
        if self._handle is None:
            return
        with suppress(OSError):
            self._path.unlink()  # still locked: a run that waits for this very file sees that it is gone
        os.close(self._handle)
        self._handle = None
        self._tidy()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _make(self, folder: Path) -> None:
        missing = []
        while not os.path.lexists(folder):
            missing.append(folder)
            folder = folder.parent
        for one in reversed(missing):
            one.mkdir(exist_ok=True)
            self._made.append(one)

    def _tidy(self) -> None:
        for folder in reversed(self._made):
            with suppress(OSError):  # outputs are in it
                folder.rmdir()

    def _locked(self) -> int | None:
        """Open and lock the file; None where another run removed it meanwhile."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        is_mine = False
        try:
            _lock(handle)
            with suppress(FileNotFoundError):
                is_mine = os.path.samestat(os.lstat(self._path), os.fstat(handle))
        finally:
            if not is_mine:
                os.close(handle)
        return handle if is_mine else None


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return
