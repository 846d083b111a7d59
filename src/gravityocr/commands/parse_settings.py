"""From the command line of `parse` to checked settings, before any work."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gravityocr import __version__
from gravityocr.commands import options
from gravityocr.commands.parse_options import ParseOptions
from gravityocr.config import load_config
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.convert import PipelineConfig
from gravityocr.pipeline.exports import DocumentWriter
from gravityocr.pipeline.layout_choice import layout_name
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
_LONGEST_PASSWORD = 1024  # bytes
_NAMES = {"max_pages": "run.max_pages", "dpi": "source.dpi", "max_tokens": "server.max_tokens"}  # by option
_OF_SERVERS = ("server_model", "server_key_file")
# What changes how fast the same output comes.
_NEUTRAL = frozenset({
    "run.n_ahead", "server.n_parallel", "server.timeout_s", "server.connect_timeout_s", "source.page_timeout_s",
    "source.pdf_memory_mb",
})  # fmt: skip


@dataclass(frozen=True)
class ParseConfig(PipelineConfig):
    """What `--config` and `--set` set: the pipeline, the servers, and what PP-DocLayoutV3's detections become."""

    server: ServerConfig = field(default_factory=ServerConfig)
    layout_v3: V3Config = field(default_factory=V3Config)


@dataclass(frozen=True)
class ParseSettings:
    """All that a run needs, checked: `urls` are there where servers read, and none where a checkpoint does."""

    asked: ParseOptions
    config: ParseConfig
    pages: PageRanges | None
    urls: tuple[str, ...]
    n_workers: int | None
    text_format: str | None

    @cached_property
    def engine(self) -> EngineConfig | None:
        """Return how the engine decodes, None where servers read. Torch comes with it: it is made when it is needed.

        *Raises*: ConfigError for a number out of range.
        """
        return None if self.urls else _engine_config(self.asked)

    def check_unloaded(self) -> None:
        """Check what loading would: a mistyped option is told where no input can be read and nothing loads, too.

        Torch comes with it, unless all options of the engine are left as they are.

        *Raises*: ConfigError, and CheckpointError where there is no such checkpoint.
        """
        asked = self.asked
        layout_name(asked.layout, asked.layout_model)
        defaults = ParseOptions(asked.inputs)
        names = ("checkpoint", "dtype", "device", "block_size", "max_tokens")
        if self.urls or all(getattr(asked, name) == getattr(defaults, name) for name in names):
            return
        from gravityocr.engine.precision import check_precision
        from gravityocr.model.checkpoint import resolve_checkpoint
        from gravityocr.model.device import check_device

        resolve_checkpoint(asked.checkpoint)
        check_precision(asked.dtype)
        check_device(asked.device)
        _engine_config(asked)

    @cached_property
    def layout(self) -> str:
        """Return the name of the detector, the one that `auto` takes here for `auto`."""
        return layout_name(self.asked.layout, self.asked.layout_model)

    def on_record(self, asked: ParseOptions) -> dict[str, Any]:
        """Return all that the output depends on, as one table of dotted names."""
        table: dict[str, Any] = {
            "version": __version__, "formats": asked.formats, "pages": asked.pages, "detector": self.layout,
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
    urls: tuple[str, ...] = ()
    if asked.server is None:
        asked.refuse(_OF_SERVERS, "goes with --server")
        _check_decoding(asked)
    else:
        asked.refuse(_OF_AN_ENGINE, "has no use with --server: the server's model reads")
        urls = server_urls(asked.server)
    try:
        config = _with_options(config, asked)
    except ConfigError as error:
        raise ConfigError(_as_typed(str(error), asked)) from error
    if config.layout_v3 != V3Config() and layout_name(asked.layout, asked.layout_model) != "pp-doclayout-v3":
        raise ConfigError(
            f"layout_v3 settings are PP-DocLayoutV3's, and --layout {asked.layout} takes another detector here; "
            "leave them out, or choose --layout pp-doclayout-v3"
        )
    own = None if asked.text_format == "auto" else asked.text_format
    if own is None and (_sets_text_format(asked) or asked.server is not None):
        own = config.assembly.text_format if _sets_text_format(asked) else "markdown"
    pages = None if asked.pages is None else PageRanges.parse(asked.pages)
    return ParseSettings(asked, config, pages, urls, _n_workers(asked.workers), own)


def _engine_config(asked: ParseOptions) -> EngineConfig:
    """Make the engine's settings."""
    from gravityocr.engine.engine import EngineConfig

    head, mode = options.draft_head(asked.draft_head), options.decode_mode(asked.decode)
    most = _MAX_TOKENS if asked.max_tokens is None else asked.max_tokens
    return EngineConfig(mode, asked.block_size, most, draft_head=head, draft=asked.draft)  # type: ignore[arg-type]


def _check_decoding(asked: ParseOptions) -> None:
    """Check the options of decoding by name.

    *Raises*: ConfigError for an unknown mode or source of drafts, or one that the decode mode has no use for.
    """
    options.draft_head(asked.draft_head)
    mode, draft = options.decode_mode(asked.decode), asked.draft
    if draft not in options.DRAFTS:
        raise ConfigError(f"--draft {draft!r} is unknown; choose one of {', '.join(options.DRAFTS)}")
    if mode != "self-spec" and draft != "auto" and (mode, draft) != ("ar", "none"):
        raise ConfigError(f"--draft {draft} goes with --decode self-spec only: leave out --draft or --decode {mode}")


def _drafts_from_text(asked: ParseOptions) -> bool:
    return asked.server is None and asked.decode == "self-spec" and asked.draft in ("auto", "text-layer")


def check_reference(asked: ParseOptions, settings: ParseSettings, n_inputs: int) -> None:
    """Read a reference once before any work.

    *Raises*: ConfigError where it has no use; InputError where it cannot be read.
    """
    reference = settings.config.source.reference
    if reference is None:
        return
    if asked.server is not None:
        raise ConfigError("source.reference has no use with --server: the server's model reads")
    if not _drafts_from_text(asked) or settings.config.run.verify_text_layer:
        raise ConfigError(
            "--reference needs --decode self-spec and --draft auto or text-layer, without --verify-text-layer: "
            "nothing else uses it"
        )
    if n_inputs != 1:
        raise ConfigError(f"--reference tells of one document, and {n_inputs} inputs were found: parse that one alone")
    read_known_pages(reference)


def _password(asked: ParseOptions, config: ParseConfig) -> str | None:
    if asked.password_file is None:
        return config.source.password if asked.password is None else asked.password
    if asked.password is not None:
        raise ConfigError("--password and --password-file are two answers to one question; give one")
    try:
        with Path(asked.password_file).open("rb") as file:
            raw = file.read(_LONGEST_PASSWORD + 3)
    except OSError as error:
        what = f"cannot be read ({error.strerror}); name a file that holds the password"
        raise InputError(f"{asked.password_file}: {what}") from error
    lines = raw.decode("utf-8", errors="replace").removeprefix("\ufeff").splitlines()
    if len(lines) != 1 or not lines[0] or len(raw) > _LONGEST_PASSWORD or "\ufffd" in lines[0]:
        raise InputError(f"{asked.password_file}: holds no password; write it on its only line, as UTF-8 text")
    return lines[0]


def _as_typed(message: str, asked: ParseOptions) -> str:
    """Name the option that a message is about, where it was given as one."""
    for option, name in _NAMES.items():
        if getattr(asked, option) is not None and message.startswith(f"{name} is "):
            return f"--{option.replace('_', '-')}{message.removeprefix(name)}"
    return message


def _with_options(config: ParseConfig, asked: ParseOptions) -> ParseConfig:
    """Lay what the command line says by options of their own over what it sets by name."""
    source, run, server = config.source, config.run, config.server
    text_layer = source.text_layer or _drafts_from_text(asked) or asked.verify_text_layer or run.verify_text_layer
    source = replace(
        source,
        dpi=source.dpi if asked.dpi is None else asked.dpi,
        password=_password(asked, config),
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
