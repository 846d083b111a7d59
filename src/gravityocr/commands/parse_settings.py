"""From the command line of `parse` to checked settings, before any work."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gravityocr import __version__
from gravityocr.commands import options
from gravityocr.commands.parse_options import ParseOptions
from gravityocr.config import load_config
from gravityocr.errors import ConfigError
from gravityocr.pipeline.convert import PipelineConfig
from gravityocr.pipeline.exports import DocumentWriter
from gravityocr.pipeline.layout_v3_config import V3Config
from gravityocr.pipeline.manifest import flat_settings
from gravityocr.pipeline.server.config import ServerConfig, read_api_key, server_urls
from gravityocr.pipeline.source import PageRanges
from gravityocr.pipeline.text_files import read_known_pages

if TYPE_CHECKING:
    from gravityocr.engine.engine import EngineConfig

_MAX_TOKENS = 512
_OF_AN_ENGINE = (
    "checkpoint", "decode", "draft", "draft_head", "block_size", "dtype", "threads", "reference", "workers",
)  # fmt: skip
_OF_SERVERS = ("server_model", "server_key_file")
# What changes how fast the same output comes.
_NEUTRAL = frozenset({"run.n_ahead", "server.n_parallel", "server.timeout_s", "server.connect_timeout_s"})


@dataclass(frozen=True)
class ParseConfig(PipelineConfig):
    """What `--config` and `--set` set: the pipeline, the servers, and what PP-DocLayoutV3's detections become."""

    server: ServerConfig = field(default_factory=ServerConfig)
    layout_v3: V3Config = field(default_factory=V3Config)


@dataclass(frozen=True)
class ParseSettings:
    """All that a run needs, checked: `engine` is None and `urls` are there where servers read."""

    config: ParseConfig
    pages: PageRanges | None
    engine: EngineConfig | None
    urls: tuple[str, ...]
    n_workers: int | None
    text_format: str | None

    def on_record(self, asked: ParseOptions) -> dict[str, Any]:
        """Return all that the output depends on, as one table of dotted names."""
        table: dict[str, Any] = {
            "version": __version__, "formats": asked.formats, "pages": asked.pages, "detector": asked.layout,
            "detector_model": asked.layout_model, "text_format": self.text_format,
        }  # fmt: skip
        config = {one.name: getattr(self.config, one.name) for one in fields(self.config)}
        if self.engine is None:
            table |= {"servers": self.urls}
        else:
            del config["server"]
            table |= {"checkpoint": asked.checkpoint, "weights": _weights(asked.checkpoint), "engine": self.engine}
            table |= {"dtype": asked.dtype, "device": asked.device}
        found = flat_settings(table | config, secret=frozenset({"source.password"}))
        return {name: value for name, value in found.items() if name not in _NEUTRAL}


def _weights(checkpoint: str) -> list[list[Any]]:
    """Return name, size and time of a checkpoint's files, so that new weights in an old folder are noticed."""
    folder = Path(checkpoint)
    files = sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*.json")) if folder.is_dir() else []
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def resolve(asked: ParseOptions) -> ParseSettings:
    """Check a command line.

    *Raises*: ConfigError for what is unknown, out of range or of no use together; InputError for a reference or key
    file that cannot be read.
    """
    if (asked.out is None) == (not asked.stdout):
        raise ConfigError("give either -o DIR or --stdout")
    if asked.stdout and asked.as_json:
        raise ConfigError("--stdout and --json both want stdout; choose one")
    if asked.stdout and asked.resume:
        raise ConfigError("--resume goes with -o DIR: the record of what is finished lies there")
    if asked.stdout and asked.format != ParseOptions.format:
        raise ConfigError("--format goes with -o DIR: --stdout prints Markdown")
    DocumentWriter(Path(asked.out or "."), asked.formats)
    if asked.text_format not in ("auto", "plain", "markdown"):
        raise ConfigError(f"--text-format {asked.text_format!r} is unknown; choose auto, plain or markdown")
    config = load_config(ParseConfig, asked.config, asked.overrides)
    engine: EngineConfig | None = None
    urls: tuple[str, ...] = ()
    drafts_from_text = False
    if asked.server is None:
        asked.refuse(_OF_SERVERS, "goes with --server")
        engine = _engine_config(asked)
        drafts_from_text = engine.decode == "self-spec" and engine.draft in ("auto", "text-layer")
    else:
        asked.refuse(_OF_AN_ENGINE, "has no use with --server: the server's model reads")
        urls = server_urls(asked.server)
    config = _with_options(config, asked, drafts_from_text)
    own = None if asked.text_format == "auto" else asked.text_format
    if own is None and (_sets_text_format(asked) or asked.server is not None):
        own = config.assembly.text_format if _sets_text_format(asked) else "markdown"
    pages = None if asked.pages is None else PageRanges.parse(asked.pages)
    return ParseSettings(config, pages, engine, urls, _n_workers(asked.workers), own)


def _engine_config(asked: ParseOptions) -> EngineConfig:
    """Check the options of decoding. Torch comes with the engine, and no client of servers needs it.

    *Raises*: ConfigError for an unknown source of drafts, or one that the decode mode has no use for.
    """
    from gravityocr.engine.engine import DRAFTS, EngineConfig

    head = options.draft_head(asked.draft_head)
    mode, draft = options.decode_mode(asked.decode), asked.draft
    if draft not in DRAFTS:
        raise ConfigError(f"--draft {draft!r} is unknown; choose one of {', '.join(DRAFTS)}")
    if mode != "self-spec" and draft != "auto" and (mode, draft) != ("ar", "none"):
        raise ConfigError(f"--draft {draft} goes with --decode self-spec only: leave out --draft or --decode {mode}")
    most = _MAX_TOKENS if asked.max_tokens is None else asked.max_tokens
    return EngineConfig(mode, asked.block_size, most, draft_head=head, draft=draft)


def check_reference(asked: ParseOptions, settings: ParseSettings, n_inputs: int) -> None:
    """Read a reference once before any work.

    *Raises*: ConfigError where it has no use; InputError where it cannot be read.
    """
    if asked.reference is None:
        return
    if not settings.config.source.text_layer or asked.verify_text_layer:
        raise ConfigError(
            "--reference needs --decode self-spec and --draft auto or text-layer, without --verify-text-layer: "
            "nothing else uses it"
        )
    if n_inputs != 1:
        raise ConfigError(f"--reference tells of one document, and {n_inputs} inputs were found: parse that one alone")
    read_known_pages(asked.reference)


def _with_options(config: ParseConfig, asked: ParseOptions, drafts_from_text: bool) -> ParseConfig:
    """Lay what the command line says by options of their own over what it sets by name."""
    source, run, server = config.source, config.run, config.server
    text_layer = source.text_layer or drafts_from_text or asked.verify_text_layer or run.verify_text_layer
    source = replace(
        source,
        dpi=source.dpi if asked.dpi is None else asked.dpi,
        password=asked.password if asked.password is not None else source.password,
        text_layer=text_layer,
        reference=asked.reference or source.reference,
    )
    run = replace(
        run,
        max_pages=run.max_pages if asked.max_pages is None else asked.max_pages,
        verify_text_layer=run.verify_text_layer or asked.verify_text_layer,
    )
    assembly = config.assembly
    if asked.no_merge or asked.keep_furniture:
        furniture = assembly.keep_furniture or asked.keep_furniture
        assembly = replace(assembly, merge=assembly.merge and not asked.no_merge, keep_furniture=furniture)
    remote = replace(config.remote, allow_private=True) if asked.allow_private_urls else config.remote
    if asked.server_model is not None:
        server = replace(server, model=asked.server_model)
    if asked.server is not None and asked.max_tokens is not None:
        server = replace(server, max_tokens=asked.max_tokens)
    if asked.server_key_file is not None:
        server = replace(server, api_key=read_api_key(asked.server_key_file))
    return replace(config, source=source, run=run, assembly=assembly, remote=remote, server=server)


def _sets_text_format(asked: ParseOptions) -> bool:
    """Tell whether the settings name a text format: it is then not the checkpoint's that counts."""
    if any(one.split("=")[0].replace(" ", "") == "assembly.text_format" for one in asked.overrides):
        return True
    table = tomllib.loads(Path(asked.config).read_text(encoding="utf-8")) if asked.config is not None else {}
    return "text_format" in table.get("assembly", {})


def _n_workers(text: str) -> int | None:
    """Read `--workers`; None is auto. *Raises*: ConfigError for anything but auto and a number."""
    if text == "auto":
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 256):
        raise ConfigError(f"--workers {text!r}: choose auto, or 1 to 256 processes")
    return int(text)
