"""Checkpoints on the Hugging Face hub; its client belongs to an extra and is imported when it is needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gravityocr.errors import CheckpointError, ConfigError, InputError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_WANTED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "LICENSE*")


def checkpoint_source(name: str) -> Path:
    """Return a folder of this name or, where there is none and it looks like a hub id, the downloaded checkpoint.

    *Raises*: CheckpointError where it is neither, or cannot be downloaded.
    """
    path = Path(name)
    if path.is_dir() or not HUB_ID.fullmatch(name):
        return path
    hub = _client()
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(_WANTED)))
    except _failures(hub) as error:
        what = (str(error).strip() or type(error).__name__).splitlines()[0]
        remedy = "check the name and the network, or download it elsewhere and give its folder"
        raise CheckpointError(f"{name} is no folder here and cannot be downloaded ({what}); {remedy}") from error


def check_hub_id(name: str) -> None:
    """Refuse a name that is no hub id.

    *Raises*: ConfigError.
    """
    if not HUB_ID.fullmatch(name):
        raise ConfigError(f"{name!r} is no hub id; write it as owner/name")


def upload_checkpoint(folder: Path, repo_id: str, files: Sequence[str], private: bool) -> str:
    """Upload files of a folder as one commit, making the repository where there is none; return its address.

    The token is the client's own: its login, or what its variables name.

    *Raises*: ConfigError for a name that is no hub id; InputError where the hub refuses or cannot be reached.
    """
    check_hub_id(repo_id)
    hub = _client()
    api = hub.HfApi()
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repo_id, folder_path=str(folder), allow_patterns=list(files), commit_message="Upload checkpoint"
        )
    except _failures(hub) as error:
        what = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{repo_id}: the upload failed ({what}); log in with a token that may write there") from error
    return str(getattr(done, "commit_url", done))


def _client() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        what = "the hub's client huggingface_hub is not installed"
        raise CheckpointError(f"{what}; install the extra 'transformers', or give a folder") from error
    return huggingface_hub


def _failures(hub: Any) -> tuple[type[Exception], ...]:
    """Return what the client raises: its own errors, those of its transport, wrong names, missing rights."""
    return (OSError, ValueError, hub.errors.HfHubHTTPError, hub.errors.HTTPError)
