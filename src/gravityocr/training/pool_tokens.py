"""What packing has to know of a pool before it decodes anything: the tokens of every region."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from gravityocr.errors import InputError
from gravityocr.model.prompt import PromptBuilder
from gravityocr.training.corpora.pool_folder import UNFINISHED
from gravityocr.training.corpora.region_shards import RegionFile, region_files
from gravityocr.training.corpora.unwritable import unwritable
from gravityocr.training.joint import SkippedSample
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.row_plan import PackingConfig

SAMPLE_POOL = "sample"
_COLUMNS = ("region_id", "width_px", "height_px", "task", "target", "target_origin")


def pool_folder(name: str) -> Path:
    """Return the folder of a pool; `sample` is the shipped one."""
    return Path(str(resources.files("gravityocr") / "samples" / "regions")) if name == SAMPLE_POOL else Path(name)


def pool_files(name: str, split: str, setting: str = "data.pool") -> list[Path]:
    """Return the region files of one split of a pool; `setting` is where its name comes from.

    *Raises*: InputError where the pool or the split is missing.
    """
    if (pool_folder(name) / UNFINISHED).exists():
        raise InputError(f"{setting} {name!r} is not finished; run gravityocr data pool again, it goes on")
    folder = pool_folder(name) / split
    if split == "validation" and not folder.is_dir() and folder.with_name("train").is_dir():
        remedy = "make it again with validation.share above 0, out of more than one document"
        raise InputError(f"{setting} {name!r} holds no document out for validation; {remedy}")
    if not folder.is_dir():
        raise InputError(f"{setting} {name!r}: no folder {folder}; make the pool with gravityocr data pool")
    return region_files(folder)


@dataclass(frozen=True)
class PoolTokens:
    """Token counts of the regions of a pool, file after file, and those that cannot be trained on.

    *Shapes*: n_prefix, n_response [n]; a response has no EOS yet, and is -1 where the region is skipped. `groups` says
    how many regions each row group holds, so that reading in an order keeps to few groups at a time.
    """

    n_prefix: np.ndarray
    n_response: np.ndarray
    groups: tuple[int, ...]
    skipped: tuple[SkippedSample, ...]

    def cost(self, number: int, noise: NoiseConfig) -> int:
        """Return the forward tokens of a region in a packed row: P + 3 (N + B).

        *Source*: section 3.
        """
        copies = 1 + noise.n_corrupt
        return int(self.n_prefix[number]) + copies * (int(self.n_response[number]) + noise.n_eos)


def count_pool_tokens(files: Sequence[RegionFile], prompts: PromptBuilder, noise: NoiseConfig, packing: PackingConfig,
               cache: Path | None = None) -> PoolTokens:  # fmt: skip
    """Count the tokens of all regions; with `cache`, only where they are not counted there already."""
    mark = _fingerprint(files, prompts, noise, packing)
    kept = _read(cache, mark) if cache is not None and cache.is_file() else None
    if kept is not None:
        return kept
    index = _count(files, prompts, noise, packing)
    if not (index.n_response >= 0).any():
        what = f"; the first: {index.skipped[0].name}, {index.skipped[0].reason}" if index.skipped else ""
        raise InputError(f"data.pool: none of its {len(index.n_response)} regions can be trained on{what}")
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        part = cache.with_suffix(".part.npz")
        skipped_text = json.dumps([(one.name, one.reason) for one in index.skipped])
        np.savez(part, n_prefix=index.n_prefix, n_response=index.n_response, groups=np.array(index.groups, dtype=int),
                 skipped=np.array(skipped_text), mark=np.array(mark))  # fmt: skip
        part.replace(cache)
    return index


def _read(cache: Path, mark: str) -> PoolTokens | None:
    """Return kept counts, None where they are those of something else, or broken."""
    try:
        with np.load(cache, allow_pickle=False) as arrays:
            if arrays["mark"].item() != mark:
                return None
            skipped = tuple(SkippedSample(*pair) for pair in json.loads(arrays["skipped"].item()))
            groups = tuple(arrays["groups"].tolist())
            return PoolTokens(arrays["n_prefix"], arrays["n_response"], groups, skipped)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error):
        return None


def _fingerprint(
    files: Sequence[RegionFile], prompts: PromptBuilder, noise: NoiseConfig, packing: PackingConfig
) -> str:
    stats = [(one, one.file.stat()) for one in files]
    parts = [f"{one.file.name} {len(one)} {stat.st_size} {stat.st_mtime_ns}" for one, stat in stats]
    parts += [prompts.tokenizer.to_str(), json.dumps(asdict(prompts.spec)), repr(noise), repr(packing)]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()


def _count(
    files: Sequence[RegionFile], prompts: PromptBuilder, noise: NoiseConfig, packing: PackingConfig
) -> PoolTokens:
    prefixes, responses, groups, skipped = [], [], [], []
    for file in files:
        columns = file.columns(*_COLUMNS)
        targets = [target or "" for target in columns["target"]]
        encodings = prompts.tokenizer.encode_batch(targets, add_special_tokens=False)
        rows = zip(*(columns[name] for name in _COLUMNS), encodings, strict=True)
        for name, width_px, height_px, task, target, origin, encoding in rows:
            n_prefix, n_response = prompts.n_tokens(width_px, height_px, task), len(encoding.ids)
            n_filled = n_response + noise.n_eos
            problem = packing.problem(n_prefix + (1 + noise.n_corrupt) * n_filled, n_filled)
            if origin == "pending" or not target:
                problem = "it has no target yet; transcribe it with gravityocr data transcribe"
            elif (lacking := unwritable(prompts.tokenizer, target, encoding.ids)) is not None:
                problem = f"the tokenizer cannot write its target: it lacks {lacking}"
            if problem is not None:
                skipped.append(SkippedSample(name, problem))
            prefixes.append(n_prefix)
            responses.append(-1 if problem is not None else n_response)
        groups += file.group_sizes
    return PoolTokens(np.array(prefixes, np.int32), np.array(responses, np.int32), tuple(groups), tuple(skipped))


