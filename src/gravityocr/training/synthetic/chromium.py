"""A headless Chromium that lays out one HTML document at a time: measures it by a script and prints it to PDF.

It is driven by the DevTools protocol over two pipes (`--remote-debugging-pipe`): no port, no dependency.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from gravityocr.errors import ConfigError, InputError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PX_PER_INCH = 96.0
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
    "--disable-extensions", "--disable-sync", "--no-first-run", "--no-default-browser-check", "--hide-scrollbars",
    "--font-render-hinting=none", "--allow-file-access-from-files", "--remote-debugging-pipe",
)  # fmt: skip
_REMEDY = "install the system package chromium"
# Chromium reads its commands from descriptor 3 and writes the answers to 4.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_FIRST_FREE_DESCRIPTOR = 10


@dataclass(frozen=True)
class LaidOut:
    """Hold a document as it was laid out: what the script returned, and its PDF."""

    measured: Any
    pdf: bytes


def find_chromium() -> str | None:
    """Return the path of the first known Chromium program, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


def _pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a pipe, both above the descriptors that Chromium gets."""
    ends = os.pipe()
    try:
        reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR) for end in ends)
    finally:
        for end in ends:
            os.close(end)
    return reading, writing


class Chromium:
    """Run one Chromium process; use it as a context manager, or call `close`."""

    def __init__(self, timeout_s: float = 180.0) -> None:
        """Start the program with a profile of its own.

        *Raises*: ConfigError where there is no Chromium or it does not start.
        """
        program = find_chromium()
        if program is None:
            raise ConfigError(f"no Chromium found ({', '.join(PROGRAMS)}); {_REMEDY}")
        self._timeout_s = timeout_s
        self._folder = tempfile.TemporaryDirectory(prefix="gravityocr-chromium-", ignore_cleanup_errors=True)
        self._last_id = 0
        self._unread = b""
        read_end, self._to = _pipe()
        self._from, write_end = _pipe()
        profile = f"--user-data-dir={self._folder.name}/profile"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(read_end), str(write_end), program, *_FLAGS, profile, "about:blank"],
                pass_fds=(read_end, write_end),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(read_end)
            os.close(write_end)
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self._call("Page.enable", self._session)
        except ConfigError:
            self.close()
            raise

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and remove its profile."""
        for pipe in (self._to, self._from):
            if pipe >= 0:
                os.close(pipe)
        self._to = self._from = -1
        try:
            self._process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        self._folder.cleanup()

    def lay_out(self, document: str, script: str, page_px: tuple[int, int]) -> LaidOut:
        """Lay out a document on pages of a size, evaluate a script in it, print it.

        *Units*: page_px = (width, height) in CSS px; the PDF has 0.75 points a px.
        *Raises*: ConfigError where Chromium fails or takes too long; InputError where the script fails.
        """
        file = Path(self._folder.name) / "document.html"
        file.write_text(document, encoding="utf-8")
        self._call(
            "Emulation.setDeviceMetricsOverride",
            self._session, width=page_px[0], height=page_px[1], deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self._call("Emulation.setEmulatedMedia", self._session, media="print")
        self._call("Page.navigate", self._session, url=file.as_uri())
        self._await_event("Page.loadEventFired")
        expression = f"document.fonts.ready.then(() => ({script})())"
        answer = self._call(
            "Runtime.evaluate", self._session, expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            details = json.dumps(answer["exceptionDetails"])[:300]
            raise InputError(f"the page's script failed: {details}; correct the script")
        printed = self._call(
            "Page.printToPDF",
            self._session,
            printBackground=True,
            paperWidth=page_px[0] / PX_PER_INCH,
            paperHeight=page_px[1] / PX_PER_INCH,
            **dict.fromkeys(("marginTop", "marginBottom", "marginLeft", "marginRight"), 0),
        )
        try:
            return LaidOut(answer["result"].get("value"), base64.b64decode(printed["data"], validate=True))
        except (KeyError, binascii.Error) as error:
            raise ConfigError(f"Chromium's answer has no PDF ({error}); update the system package chromium") from error

    def _call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result."""
        self._last_id += 1
        command: dict[str, object] = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        try:
            data = memoryview(json.dumps(command).encode() + b"\0")
            while data:
                data = data[os.write(self._to, data) :]
        except OSError as error:
            raise ConfigError(f"Chromium has ended ({error}); {_REMEDY} and free some memory") from error
        while True:
            message = self._read_message()
            if message.get("id") != self._last_id:
                continue
            if "error" in message:
                raise ConfigError(f"Chromium refuses {method}: {message['error']}; update the system package chromium")
            result: dict[str, Any] = message["result"]
            return result

    def _await_event(self, name: str) -> None:
        while self._read_message().get("method") != name:
            pass

    def _read_message(self) -> dict[str, Any]:
        parts = [self._unread]
        while b"\0" not in parts[-1]:
            ready, _, _ = select.select([self._from], [], [], self._timeout_s)
            if not ready:
                raise ConfigError(f"Chromium did not answer within {self._timeout_s:g} s; give it less at a time")
            parts.append(os.read(self._from, 1 << 20))
            if not parts[-1]:
                raise ConfigError(f"Chromium has ended unexpectedly; {_REMEDY} and free some memory")
        message, self._unread = b"".join(parts).split(b"\0", 1)
        decoded: dict[str, Any] = json.loads(message)
        return decoded
