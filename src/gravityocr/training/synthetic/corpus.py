"""Paragraphs of the prepared corpus: windows of running text, and their typographic variants."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gravityocr.errors import InputError
from gravityocr.training.synthetic.charset import fold_to_charset
from gravityocr.training.synthetic.fonts import Split

_MIN_PARAGRAPH = 40
_MARKUP = re.compile(r"[A-Z]<|\\[*(]|</|\(\)\(|&[a-z]+;|\{\{|^[#%.|]")
_OPENING_DOUBLE = re.compile(r'(^|[\s(\[{\-–—/])"')
_OPENING_SINGLE = re.compile(r"(^|[\s(\[{\-–—/“])'")
_MINUS = re.compile(r"(?<![\w\])-])-(?=\d)| - (?=\d)")
_RANGE = re.compile(r"(?<=\d)-(?=\d)")


class Corpus:
    """Serve windows of text from `corpus.jsonl`, paragraphs chosen in proportion to their length."""

    def __init__(self, data_dir: Path, split: Split) -> None:
        """Read the paragraphs of one split.

        Raises: InputError when the corpus is missing or has no paragraph of the split.
        """
        self.file = path = data_dir / "corpus.jsonl"
        if not path.is_file():
            raise InputError(f"no corpus at {path}: run scripts/prepare_data.py --out {data_dir}")
        paragraphs = [p for text in _read_documents(path, split) for p in text.split("\n")]
        self.paragraphs = [p for p in paragraphs if len(p) >= _MIN_PARAGRAPH and " " in p]
        if not self.paragraphs:
            raise InputError(f"{path} has no paragraph of split {split!r}: prepare the data with more documents")
        self._ends = np.cumsum(np.fromiter((len(p) for p in self.paragraphs), dtype=np.int64))

    def window(self, rng: np.random.Generator, chars: int) -> str:
        """Return about `chars` characters that start at a random word of a random paragraph."""
        position = int(rng.integers(self._ends[-1]))
        index = int(np.searchsorted(self._ends, position, side="right"))
        paragraph = self.paragraphs[index]
        offset = position - (int(self._ends[index]) - len(paragraph))
        offset = min(offset, max(0, len(paragraph) - chars))
        start = paragraph.rfind(" ", 0, offset) + 1 if offset else 0
        return paragraph[start : start + chars + 12].strip()

    def words(self, rng: np.random.Generator, count: int) -> list[str]:
        """Return `count` consecutive words."""
        return self.window(rng, 9 * count).split()[:count]


def _read_documents(path: Path, split: Split) -> Iterator[str]:
    """Yield the text of every document of a split.

    Raises: InputError for a line that is no document.
    """
    number, remedy = 0, "run scripts/prepare_data.py again"
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                document = json.loads(line)
                if not isinstance(document["split"], str) or not isinstance(document["text"], str):
                    raise ValueError("split and text must be strings")
                if document["split"] == split:
                    yield document["text"]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, behind line {number}: is not UTF-8 text; {remedy}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}, line {number}: {type(error).__name__} {error}; {remedy}") from error


def typeset(text: str, rng: np.random.Generator, strength: float) -> str:
    """Vary typewriter text as a typesetter would: curly quotes, dashes, ellipses; 60 % at strength 1."""
    if rng.random() >= 0.6 * strength:
        return text
    if '"' in text:
        text = _OPENING_DOUBLE.sub(r"\1“", text).replace('"', "”")
    if "'" in text:
        text = _OPENING_SINGLE.sub(r"\1‘", text).replace("'", "’")
    if " -- " in text:
        text = text.replace(" -- ", " – " if rng.random() < 0.5 else "—")
    if "-" in text and rng.random() < 0.7:
        text = _MINUS.sub(lambda match: match[0].replace("-", "−"), text)
    if " - " in text:
        text = text.replace(" - ", " – " if rng.random() < 0.7 else " — ")
    if rng.random() < 0.7:
        text = _RANGE.sub("–", text)
    if "..." in text and rng.random() < 0.3:
        text = text.replace("...", "…")
    return text


def clean_paragraph(raw: str) -> str | None:
    """Fold a raw paragraph into the charset; return None for what is not prose."""
    text = fold_to_charset(raw)
    if text is None or len(text) < _MIN_PARAGRAPH or _MARKUP.search(text):
        return None
    letters = sum(c.isalpha() for c in text)
    longest = max(len(word) for word in text.split(" "))
    if letters < 0.65 * len(text) or text.count(" ") < len(text) / 14 or longest > 60:
        return None
    return text
