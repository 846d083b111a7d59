"""Names of decode modes on the command line of `gravityocr bench`, and the engines that they mean.

ar | default | diffusion[:B] | self-spec[+head][+fixed][:B] | fused[+head][+fixed][@CANDIDATES][:B]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gravityocr.benchmark.costs import RoundShape
from gravityocr.decoding.acceptance import AcceptanceProfile, paper_profile, read_profiles
from gravityocr.document import Crop, Recognition
from gravityocr.engine.engine import Engine
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.recognizer import Recognizer

_GRAMMAR = re.compile(r"(?P<mode>[a-z-]+)(?P<plus>(\+[a-z-]*)*)(@(?P<candidates>[0-9]{1,3}))?(:(?P<block>[0-9]{1,9}))?")
_MODES = ("ar", "default", "self-spec", "fused", "diffusion")
MODES_HELP = (
    "Comma-separated: ar, self-spec (two forwards a round), fused[@CANDIDATES], diffusion, default (as the product "
    "decodes); +head drafts by the draft head, +fixed keeps the verify window whole, :B sets the block size."
)


@dataclass(frozen=True)
class Mode:
    """One decode mode: the overrides of the engine's configuration that it means."""

    name: str
    overrides: Mapping[str, Any]

    @property
    def is_speculative(self) -> bool:
        """Tell whether drafts are verified."""
        return self.overrides.get("decode") == "self-spec" or not self.overrides

    def shape(self, engine: Engine) -> RoundShape | None:
        """Return the rows of its forwards where they are always the same, else None."""
        if self.overrides.get("windows") != "fixed" or self.overrides.get("draft_head"):
            return None
        block_size = self.overrides["block_size"] or engine.checkpoint.diffusion.bd_size
        return RoundShape(block_size, self.overrides["n_candidates"])


def parse_modes(names: str) -> list[Mode]:
    """Read a comma-separated list.

    *Raises*: ConfigError naming the part that is no mode, and for one that is named twice.
    """
    found = [parse_mode(name.strip()) for name in names.split(",")]
    twice = sorted({one.name for one in found if [other.name for other in found].count(one.name) > 1})
    if twice:
        raise ConfigError(f"--modes: {', '.join(twice)} is named twice")
    return found


def parse_mode(name: str) -> Mode:
    """Read one mode; see the grammar above.

    *Raises*: ConfigError saying what is wrong with it.
    """
    match = _GRAMMAR.fullmatch(name)
    if match is None or match["mode"] not in _MODES:
        raise ConfigError(f"--modes {name!r} is unknown; choose among {', '.join(_MODES)} (with +head, +fixed, @N, :B)")
    mode, plus = match["mode"], match["plus"].split("+")[1:]
    candidates = int(match["candidates"]) if match["candidates"] else None
    block = int(match["block"]) if match["block"] else None
    if mode in ("ar", "default"):
        if plus or candidates is not None or block is not None:
            raise ConfigError(f"--modes {name!r}: {mode} has no settings")
        return Mode(name, {"decode": "ar"} if mode == "ar" else {})
    if mode == "diffusion":
        if plus or candidates is not None:
            raise ConfigError(f"--modes {name!r}: diffusion has only a block size")
        return Mode(name, {"decode": "diffusion", "block_size": block})
    unknown = sorted({*plus} - {"head", "fixed"})
    if unknown or len({*plus}) < len(plus):
        raise ConfigError(f"--modes {name!r}: behind a plus sign stands head or fixed, each once")
    if mode == "self-spec" and candidates is not None:
        raise ConfigError(f"--modes {name!r}: rounds of two forwards have no candidates; fused@{candidates} has")
    overrides = {
        "decode": "self-spec",
        "block_size": block,
        "draft_head": "head" in plus,
        "n_candidates": 0 if mode == "self-spec" else 1 if candidates is None else candidates,
        "windows": "fixed" if "fixed" in plus else "adaptive",
        "draft": "diffusion",
    }
    return Mode(name, overrides)


def engines_of(engine: Engine, modes: Sequence[Mode], **settings: Any) -> dict[str, Recognizer]:
    """Return one engine a mode over the same weights; `settings` are overrides that all of them share."""
    return {mode.name: apart(engine, **mode.overrides, **settings) for mode in modes}


def apart(engine: Engine, **overrides: Any) -> Engine:
    """Return an engine with overrides over the same weights that learns for itself what its drafts are worth."""
    config = engine.with_config(**overrides).config
    return Engine(engine.checkpoint, config, replace(engine.precision, planners={}))


class ByTask:
    """Read every crop with the engine of its task: simulated drafts fare differently in text, tables and formulas."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines

    @property
    def tasks(self) -> frozenset[str]:
        """Return the tasks with an engine."""
        return frozenset(self._engines)

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Read the crops of each task together, and return the answers in input order."""
        found: dict[int, Recognition] = {}
        for task, engine in self._engines.items():
            places = [place for place, crop in enumerate(crops) if crop.task == task]
            if places:
                chosen = [crops[place] for place in places]
                found |= zip(places, engine.recognize(chosen), strict=True)
        return [found[place] for place in range(len(crops))]


def simulated_engines(
    engine: Engine, modes: Sequence[Mode], profile: str, seed: int, tasks: Sequence[str], **settings: Any
) -> dict[str, Recognizer]:
    """Return the modes with drafts accepted as `profile` says: `paper`, or a file of histograms.

    *Raises*: ConfigError for a mode without drafts; InputError for a file that does not hold every task.
    """
    readers: dict[str, Recognizer] = {}
    for mode in modes:
        if mode.overrides.get("decode") == "ar":
            readers[mode.name] = apart(engine, **mode.overrides, **settings)
            continue
        if not mode.is_speculative:
            raise ConfigError(f"--modes {mode.name!r} drafts nothing that --acceptance-profile could spoil")
        block_size = engine.with_config(**mode.overrides).options.block_size
        by_task = {
            task: apart(engine, **{**mode.overrides, "acceptance_profile": one}, **settings)
            for task, one in profiles_of(profile, block_size, seed, tasks).items()
        }
        readers[mode.name] = ByTask(by_task)
    return readers


def profiles_of(profile: str, block_size: int, seed: int, tasks: Sequence[str]) -> dict[str, AcceptanceProfile]:
    """Return the profile of every task. *Raises*: InputError for a file that lacks one."""
    if profile == "paper":
        return {task: paper_profile(task, block_size, seed) for task in tasks}
    found = read_profiles(Path(profile), block_size, seed)
    missing = [task for task in tasks if task not in found]
    if missing:
        raise InputError(f"{profile}: holds no weights for {', '.join(missing)}; add them or leave such crops out")
    return {task: found[task] for task in tasks}
