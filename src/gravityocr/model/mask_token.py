"""Give a tokenizer its mask token: an existing one, the first spare row of the embedding table, or a row more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer

from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.model.checkpoint_files import read_bytes, read_json, write_json

_MASK_TEXT = re.compile(r"<[^<>\s]*mask[^<>\s]*>|\[[^\[\]\s]*mask[^\[\]\s]*\]", re.IGNORECASE)
_ENTRY = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


@dataclass(frozen=True)
class MaskToken:
    """The mask token's text and id, and where its row comes from."""

    text: str
    id: int
    origin: Literal["existing token", "spare row", "new row"]


def choose_mask_token(path: Path, text: str, vocab_size: int) -> MaskToken:
    """Find the mask token's id in a folder's tokenizer, or the first id above all that it uses.

    *Raises*: ConfigError for a text that documents may hold, since it would be read as the mask there; CheckpointError
    for a tokenizer that is broken, uses ids outside the table, or ends with a gap there.
    """
    if not _MASK_TEXT.fullmatch(text):
        raise ConfigError(f"the mask token {text!r} may occur in texts; name it like <|mask|> or [MASK]")
    vocabulary = _load(path / "tokenizer.json").get_vocab()
    highest = max(vocabulary.values(), default=-1)
    if highest >= vocab_size:
        what = f"uses the id {highest}, but config.json's vocab_size is {vocab_size}"
        raise CheckpointError(f"{path / 'tokenizer.json'} {what}; use the tokenizer that belongs to the checkpoint")
    if text in vocabulary:
        return MaskToken(text, vocabulary[text], "existing token")
    return MaskToken(text, highest + 1, "spare row" if highest + 1 < vocab_size else "new row")


def used_ids(path: Path, but: int) -> list[int]:
    """Return the ids that a folder's tokenizer gives, in order, without the id `but`."""
    return sorted({*_load(path / "tokenizer.json").get_vocab().values()} - {but})


def add_mask_token(path: Path, mask: MaskToken) -> None:
    """Name the mask token, as a special one, in the tokenizer files of a folder.

    *Raises*: CheckpointError where the tokenizer would give it another id.
    """
    file = path / "tokenizer.json"
    raw = read_json(file)
    added = raw.get("added_tokens")
    if not isinstance(added, list):
        raise CheckpointError(f"{file} has no list added_tokens; it must be a tokenizer of the tokenizers library")
    if all(entry.get("content") != mask.text for entry in added if isinstance(entry, dict)):
        added.append({"id": mask.id, "content": mask.text, **_ENTRY})
    write_json(file, raw)
    given = _load(file).token_to_id(mask.text)
    if given != mask.id:
        what = f"gives {mask.text} the id {given}, not {mask.id}: its ids have gaps"
        raise CheckpointError(f"{file} {what}; add the token to its vocabulary yourself and convert again")
    _name_in_settings(path, mask)


def _name_in_settings(path: Path, mask: MaskToken) -> None:
    """Name the token where transformers' own files list special tokens."""
    entry = {"content": mask.text, **_ENTRY}
    file = path / "tokenizer_config.json"
    if file.is_file():
        raw = read_json(file)
        if isinstance(raw.get("added_tokens_decoder"), dict):
            raw["added_tokens_decoder"].setdefault(str(mask.id), entry)
        _list_token(raw, mask.text)
        if raw.get("mask_token") is None:
            raw["mask_token"] = mask.text
        write_json(file, raw)
    file = path / "special_tokens_map.json"
    if file.is_file():
        raw = read_json(file)
        _list_token(raw, mask.text)
        write_json(file, raw)
    file = path / "added_tokens.json"
    if file.is_file():
        write_json(file, read_json(file) | {mask.text: mask.id})


def _list_token(raw: dict[str, Any], text: str) -> None:
    for name in ("additional_special_tokens", "extra_special_tokens"):
        listed = raw.get(name)
        if isinstance(listed, list) and text not in listed:
            # Entries are texts, or objects of the text and its flags.
            known = {one.get("content") for one in listed if isinstance(one, dict)}
            if text not in known:
                listed.append(text)


def _load(file: Path) -> Tokenizer:
    content = read_bytes(file, "copy it from the model's page")
    try:
        return Tokenizer.from_buffer(content)
    except ValueError as error:
        raise CheckpointError(f"{file} is not a tokenizer: {error}") from error
