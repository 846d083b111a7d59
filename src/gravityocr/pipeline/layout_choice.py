"""Which layout detector reads a page: by name, or by what is there."""

from __future__ import annotations

from gravityocr.errors import ConfigError
from gravityocr.pipeline.layout import LayoutDetector, WholePage
from gravityocr.pipeline.layout_cdla import CdlaConfig, CdlaDetector
from gravityocr.pipeline.layout_v3 import PPDocLayoutV3Detector
from gravityocr.pipeline.layout_v3_checkpoint import has_transformers, local_checkpoint
from gravityocr.pipeline.layout_v3_config import PUBLISHED_MODEL, V3Config

LAYOUTS = ("auto", "pp-doclayout-v3", "cdla", "none")


def build_detector(
    name: str = "auto",
    *,
    model: str | None = None,
    device: str = "cpu",
    n_threads: int = 0,
    config: V3Config | None = None,
) -> LayoutDetector:
    """Return a layout detector by name; its `name` tells which one `auto` took.

    `auto` takes `pp-doclayout-v3` if its weights are on this machine (the folder `model`, or its hub id in the hub's
    cache; without `model` also transformers must be there), else `cdla`. `pp-doclayout-v3` may download a hub id.
    `model` is a folder or hub id of PP-DocLayoutV3 or, for `cdla`, an ONNX file. `device` and `config` are
    PP-DocLayoutV3's, `n_threads` (0 = all) is cdla's: torch's threads are the process's own affair.

    *Raises*: ConfigError for an unknown name, and for a model that is not there or does not load.
    """
    name = layout_name(name, model)
    if name == "pp-doclayout-v3":
        return PPDocLayoutV3Detector(model or PUBLISHED_MODEL, config, device=device)
    if name == "cdla":
        return CdlaDetector(CdlaConfig(n_threads=n_threads, model_path=model))
    if model is not None:
        raise ConfigError(f"layout 'none' takes no model ({model!r}); leave it out or choose another layout")
    return WholePage()


def layout_name(name: str, model: str | None = None) -> str:
    """Return which detector `auto` takes here, and every other name as it is; nothing is loaded.

    *Raises*: ConfigError for an unknown name, and for a model that `auto` cannot take.
    """
    if name not in LAYOUTS:
        raise ConfigError(f"unknown layout {name!r}; choose one of {', '.join(LAYOUTS)}")
    if name != "auto" or _v3_is_here(model):
        return "pp-doclayout-v3" if name == "auto" else name
    if model is not None:
        raise ConfigError(
            f"layout model {model!r}: neither a folder with weights nor a hub id in the cache, so --layout auto "
            "cannot take it; check the path, or let --layout pp-doclayout-v3 download it"
        )
    return "cdla"


def _v3_is_here(model: str | None) -> bool:
    """Tell whether `auto` can take PP-DocLayoutV3 without asking the network."""
    if local_checkpoint(model or PUBLISHED_MODEL) is None:
        return False
    return model is not None or has_transformers()
