"""What is sent to a chat-completions server for a region, and what its answer means: nothing it says is trusted."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from PIL import Image

from gravityocr.document import TASK_PROMPTS, Crop, Recognition
from gravityocr.errors import GravityOCRError, InputError
from gravityocr.image_size import SizeRule, fit_size, pad_size, within_aspect
from gravityocr.pipeline.server.config import ServerConfig

_REPEATED = frozenset({408, 425, 429})  # of the 4xx: the same request may do better later
_NOT_FOR_US = frozenset({401, 403, 404, 405, 407, 410})  # key, model or address: the server is at fault, no region
_WHOLE = frozenset({"stop", "eos", "eos_token", "stop_sequence"})
_SHOWN_CHARS = 300


class ServerFaultError(GravityOCRError):
    """An answer, or silence, that gives no text.

    `repeat`: the same request may do better later, after `wait_s` where the server said so. `busy`: it asked to wait.
    `unfit`: it will refuse every region. `reached`: something answered, with HTTP status `code` where that tells.
    """

    def __init__(
        self,
        told: str,
        *,
        repeat: bool = True,
        busy: bool = False,
        unfit: bool = False,
        reached: bool = True,
        wait_s: float | None = None,
        code: int = 0,
    ) -> None:
        super().__init__(told)
        self.repeat, self.busy, self.unfit, self.reached = repeat, busy, unfit, reached
        self.wait_s, self.code = wait_s, code


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: status code, headers with names in lower case, body."""

    code: int
    headers: Mapping[str, str]
    body: bytes


def sent_size(height_px: int, width_px: int, rule: SizeRule) -> tuple[int, int]:
    """Return the size at which a crop is sent: padded where it is too long, no larger than the network looks at."""
    height, width = pad_size(height_px, width_px, rule)
    if not rule.exceeded_by(height, width):
        return height, width
    return pad_size(*fit_size(height, width, rule), rule)  # a row of cells less may make it too long again


def sendable(image: Image.Image, rule: SizeRule) -> Image.Image:
    """Return a crop as it is sent: on white and of its `sent_size`.

    *Raises*: InputError for an image without pixels.
    """
    if not image.width or not image.height:
        raise InputError("the crop has no pixels; leave it out")
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    if image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    image = within_aspect(image, rule)
    if not rule.exceeded_by(image.height, image.width):
        return image
    height, width = fit_size(image.height, image.width, rule)
    return within_aspect(image.resize((width, height), Image.Resampling.BICUBIC), rule)


def request_body(crop: Crop, model: str, config: ServerConfig) -> bytes:
    """Return the request for one crop: greedy, the picture first, the task's prompt after it.

    *Raises*: InputError for a crop that cannot be encoded.
    """
    stream = io.BytesIO()
    try:
        image = sendable(crop.image, config.size)
        if config.image_format == "jpeg":
            image.save(stream, "JPEG", quality=config.jpeg_quality)
        else:
            image.save(stream, "PNG", compress_level=1)
    except (OSError, ValueError, SyntaxError, MemoryError) as error:
        raise InputError(f"the crop cannot be encoded ({type(error).__name__}: {error}); cut it anew") from error
    data = base64.b64encode(stream.getbuffer()).decode("ascii")
    content = [
        {"type": "image_url", "image_url": {"url": f"data:image/{config.image_format};base64,{data}"}},
        {"type": "text", "text": TASK_PROMPTS[crop.task]},
    ]
    request: dict[str, Any] = {
        "model": model, "messages": [{"role": "user", "content": content}], "temperature": 0,
        "max_tokens": config.max_tokens, "stream": False,
    }  # fmt: skip
    if config.repetition_penalty is not None:
        request["repetition_penalty"] = config.repetition_penalty
    return json.dumps(request).encode("ascii")


def read_recognition(answer: Answer, config: ServerConfig) -> Recognition:
    """Return what a server read.

    *Raises*: ServerFaultError for every answer without text that is whole, or cut at `max_tokens`.
    """
    reply = read_json(answer, config)
    text, finish = _message(reply)
    if finish not in _WHOLE and finish != "length":
        told = f"it ended with the finish_reason {one_line(finish)!r}"
        raise ServerFaultError(told, repeat=finish in ("abort", "error"))
    usage = reply.get("usage")
    is_cut, n_tokens = finish == "length", _count(usage, "completion_tokens")
    told = f"the server cut the text at {n_tokens or config.max_tokens} tokens; raise server.max_tokens"
    return Recognition(
        text if is_cut else text.strip(),
        "truncated" if is_cut else "ok",
        told if is_cut else None,
        n_tokens=n_tokens,
        n_forwards=_count(usage, "n_forwards"),
        n_rounds=_count(usage, "n_rounds"),
        n_accepted=_count(usage, "n_accepted"),
    )


def read_models(answer: Answer, config: ServerConfig) -> tuple[str, ...]:
    """Return the names of the models that a server lists.

    *Raises*: ServerFaultError for an answer that lists none.
    """
    listed = read_json(answer, config).get("data")
    names = [entry.get("id") for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    found = tuple(name for name in names if isinstance(name, str) and name)
    if not found:
        raise ServerFaultError("it lists no model; name the one that it serves", repeat=False, unfit=True)
    return found


def read_json(answer: Answer, config: ServerConfig) -> dict[str, Any]:
    """Return the object that a server answered.

    *Raises*: ServerFaultError for another answer.
    """
    code, told = answer.code, f"HTTP {answer.code}{_reason(answer.body)}"
    if 300 <= code < 400:
        where = one_line(answer.headers.get("location", "nowhere"))
        raise ServerFaultError(f"HTTP {code}: it redirects to {where}; name that address", repeat=False, unfit=True)
    if code in _NOT_FOR_US:
        raise ServerFaultError(told, repeat=False, unfit=True, code=code)
    if code in _REPEATED or code >= 500:
        wait_s = retry_after_s(answer.headers.get("retry-after"), config.max_retry_after_s)
        raise ServerFaultError(told, busy=code == 429 or (code == 503 and wait_s is not None), wait_s=wait_s, code=code)
    if code != 200:
        raise ServerFaultError(told, repeat=code < 400, code=code)
    try:
        reply = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise ServerFaultError(f"its answer is no JSON: {one_line(_text(answer.body)) or 'it is empty'}") from error
    if not isinstance(reply, dict):
        raise ServerFaultError("its answer is no JSON object")
    return reply


def _message(reply: dict[str, Any]) -> tuple[str, str]:
    """Return text and finish reason of an answer."""
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict) or "content" not in message:
        raise ServerFaultError("its answer has no choices[0].message.content")
    content, finish = message["content"], choice.get("finish_reason")
    if isinstance(content, list):  # in parts, as some servers have it
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        content = "".join(texts) if len(texts) == len(parts) else parts
    if content is not None and not isinstance(content, str):
        raise ServerFaultError("its answer's content is no text")
    if not isinstance(finish, str):
        raise ServerFaultError("its answer has no finish_reason: whether the text is whole cannot be known")
    text = content or ""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ServerFaultError("its answer's content holds halves of surrogate pairs")
    return text, finish


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 <= value < 2**53 else 0


def retry_after_s(value: str | None, longest_s: float) -> float | None:
    """Return the seconds that a Retry-After asks to wait, whether it counts them or names a time; None for neither.

    *Units*: seconds, from 0 to `longest_s`: a server may not stop a run by naming a far day.
    """
    if value is None:
        return None
    try:
        wait_s = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
            until = until if until.tzinfo else until.replace(tzinfo=UTC)
            wait_s = (until - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return None if math.isnan(wait_s) else min(max(wait_s, 0.0), longest_s)


def _reason(body: bytes) -> str:
    """Return what a body says went wrong: its message where it is an error object, else its beginning."""
    text = _text(body)
    try:
        told: Any = json.loads(body) if len(body) <= 2**16 else None
    except (ValueError, RecursionError):
        told = None
    for name in ("error", "message", "detail"):
        told = told.get(name, told) if isinstance(told, dict) else told
    shown = one_line(told if isinstance(told, str) else text)
    return f": {shown}" if shown else ""


def _text(body: bytes) -> str:
    return body[: 4 * _SHOWN_CHARS].decode("utf-8", errors="replace")


def one_line(text: str) -> str:
    """Return the beginning of a text that came from elsewhere, fit for a message: one line, printable."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text[: 4 * _SHOWN_CHARS]).split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}…"
