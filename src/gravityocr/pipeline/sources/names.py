"""What inputs are called: names to print, stems of outputs, identities on record; none of them holds a secret."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from gravityocr.pipeline.sources.kinds import ALL_SUFFIXES

Origin = Literal["file", "url", "stdin"]

STDIN = "-"
STDIN_NAME = "<stdin>"

_URL = re.compile(r"https?://", re.IGNORECASE)
_NEARLY_URL = re.compile(r"\s*([a-z][a-z0-9+.-]+):(?=/|.*@)[\s/\\]*", re.IGNORECASE | re.DOTALL)
_LOGIN_PLACE = "***@"
_DIGEST_QUERY = re.compile(r"query=[0-9a-f]{8}")
# Readers of URLs drop them or take them for "/", each in its own way: what is checked would not be what is fetched.
_NEVER_IN_URLS = re.compile(r"[\x00-\x1f\x7f\\]")


def origin_of(source: str | Path) -> Origin:
    """Tell what a handed text means: a file, a URL or stdin."""
    text = str(source)
    if text in (STDIN, STDIN_NAME):
        return "stdin"
    return "url" if _URL.match(text) else "file"


def source_name(source: str | Path) -> str:
    """Return the name of an input that may be printed and kept: a path as it is, a URL without its secrets.

    User name, password, query and fragment of a URL go; eight digits of a digest stand for the query, so that
    two documents of one path stay two. What is nearly a URL, and no file, loses them as well. A name is its own name.
    """
    text = str(source)
    origin = origin_of(text)
    if origin == "stdin":
        return STDIN_NAME
    if origin == "file":
        if not is_nearly_url(text):
            return text
        return source_name(text.strip()) if _URL.match(text.strip()) else _masked(text)
    parts = split_url(text)
    if parts is None:
        return text.split("://", 1)[0].lower() + "://(not readable)"
    query = parts.query
    if query and not _DIGEST_QUERY.fullmatch(query):
        query = f"query={hashlib.sha256(_encoded(query)).hexdigest()[:8]}"
    path = parts.path or "/"
    return f"{parts.scheme}://{_host_and_port(parts)}{path}" + (f"?{query}" if query else "")


def is_nearly_url(source: str | Path) -> bool:
    """Tell whether a text was meant as a URL, but is none that is fetched, nor the path of a file."""
    text = str(source)
    return origin_of(text) == "file" and _NEARLY_URL.match(text) is not None and not _is_there(text)


def _is_there(text: str) -> bool:
    try:
        return os.path.lexists(text)
    except ValueError:
        return False


def _masked(text: str) -> str:
    """Hide all that may be a login or a key: what stands before the last @, and what follows ? or #."""
    begin = _NEARLY_URL.match(text)
    if begin is None:
        return text
    login, at, rest = text[begin.end() :].rpartition("@")
    return begin[0].strip() + (_LOGIN_PLACE if login or at else "") + re.split(r"[?#]", rest)[0]


def source_stem(source: str | Path) -> str:
    """Return the name of an input's outputs: a path's stem, a URL's last part or host, `stdin`.

    Of a URL only the suffix of a kind that is read is dropped: `.12345` of an arXiv address is none. The text
    holds no separator, but it may be long, or all dots.
    """
    origin = origin_of(source)
    if origin == "stdin":
        return "stdin"
    if origin == "file":
        return Path(source).stem
    parts = split_url(str(source))
    if parts is None:
        return "url"
    last = re.split(r"[/\\]", unquote(parts.path.rstrip("/")))[-1]
    stem, suffix = os.path.splitext(last)
    kept = stem if suffix.lower() in ALL_SUFFIXES else last
    return re.sub(r"[\x00-\x1f\x7f<>:\"|?*]", "_", kept).strip() or str(parts.hostname)


def source_identity(source: str | Path) -> str:
    """Return what makes an input the same one as before: a file's real path, a URL's name, or stdin's.

    It holds no secret and may be written into outputs: `source_identity(source_name(x)) == source_identity(x)`.
    """
    name = source_name(source)
    if origin_of(source) != "file" or is_nearly_url(source):
        return name
    try:
        return os.path.realpath(source)
    except ValueError:  # a zero byte: no file can have such a name
        return name


def split_url(url: str) -> SplitResult | None:
    """Split a URL; None for one without a host, with a port that is none, or with signs that no URL holds."""
    try:
        parts = urlsplit(url)
        port = parts.port or 0
    except ValueError:
        return None
    fine = parts.hostname and " " not in parts.hostname and port >= 0 and not _NEVER_IN_URLS.search(url)
    return parts if fine else None


def _host_and_port(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
    usual = {"http": 80, "https": 443}[parts.scheme]
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
