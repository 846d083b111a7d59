"""Find, fetch and load a PP-DocLayoutV3 checkpoint: its network, its classes, the image that it wants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gravityocr.errors import ConfigError
from gravityocr.pipeline.layout_v3_config import class_names

if TYPE_CHECKING:
    import torch

_MODEL_TYPE = "pp_doclayout_v3"
_WEIGHTS = "model.safetensors"
_BICUBIC = 3  # Pillow's number, which image processor files use
_EXTRA = "install it with: pip install 'gravityocr[transformers]', or choose --layout cdla"


@dataclass(frozen=True)
class ImageInput:
    """The image that a network wants: its size, and what its 0-255 values become.

    A value v of channel c becomes `(v * rescale - mean[c]) / std[c]`. *Units*: `size_px` is width, height.
    """

    size_px: tuple[int, int] = (800, 800)
    rescale: float = 1 / 255
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Checkpoint:
    """A loaded network, the names of its classes by id, and its input."""

    network: torch.nn.Module
    names: tuple[str, ...]
    image: ImageInput


def has_transformers() -> bool:
    """Tell whether the package that runs PP-DocLayoutV3 is installed."""
    return find_spec("transformers") is not None


def require_transformers() -> None:
    """Check that PP-DocLayoutV3 can run.

    *Raises*: ConfigError naming the extra to install.
    """
    if not has_transformers():
        raise ConfigError(f"layout 'pp-doclayout-v3' needs the package transformers; {_EXTRA}")


def local_checkpoint(model: str) -> Path | None:
    """Return the folder of a checkpoint that is on this machine, without asking the network; else None.

    `model` is a folder, or a hub id whose files the hub's cache holds.
    """
    if Path(model).is_dir():
        return Path(model) if (Path(model) / _WEIGHTS).is_file() else None
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = [try_to_load_from_cache(model, name) for name in ("config.json", _WEIGHTS)]
    except HFValidationError:  # no hub id either
        return None
    paths = [Path(path) for path in found if isinstance(path, str)]
    return paths[0].parent if len(paths) == len(found) and paths[0].parent == paths[1].parent else None


def fetch_checkpoint(model: str) -> Path:
    """Return the folder of a checkpoint, downloading a hub id that the cache does not hold.

    *Raises*: ConfigError where there is no such folder or the download fails.
    """
    here = local_checkpoint(model)
    if here is not None:
        return here
    if Path(model).is_dir():
        raise ConfigError(f"layout model {model}: the folder has no {_WEIGHTS}; name the folder of a checkpoint")
    if find_spec("huggingface_hub") is None:
        raise ConfigError(f"layout model {model}: no such folder, and to download it needs huggingface_hub; {_EXTRA}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(model, allow_patterns=["*.json", _WEIGHTS]))
    except (OSError, ValueError, HfHubHTTPError) as error:  # no network, no such id, no valid id
        raise ConfigError(
            f"layout model {model}: no such folder, and the hub does not give it "
            f"({str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}); "
            "check the name and the network, or choose --layout cdla"
        ) from error


def load_checkpoint(folder: Path, device: str) -> Checkpoint:
    """Load a checkpoint's network in fp32, ready to run on a device.

    *Raises*: ConfigError where the device is missing, and where the folder holds another kind of model, unknown
    classes or not all weights.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import PPDocLayoutV3ForObjectDetection
    from transformers.utils import logging

    target = _checked_device(device)
    config = _json(folder / "config.json")
    if config.get("model_type") != _MODEL_TYPE:
        raise ConfigError(
            f"layout model {folder}: config.json says model type {config.get('model_type')!r}, not {_MODEL_TYPE}; "
            "name a PP-DocLayoutV3 checkpoint in safetensors"
        )
    image = image_input(_json(folder / "preprocessor_config.json", missing={}), f"layout model {folder}")
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # progress is the command line's to show
    try:
        # with loading info it returns a pair, which its annotation does not say
        loaded: Any = PPDocLayoutV3ForObjectDetection.from_pretrained(
            str(folder), dtype=torch.float32, local_files_only=True, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"layout model {folder}: does not load ({error}); fetch it again") from error
    finally:
        if bars:
            logging.enable_progress_bar()
    network, report = loaded
    missing = sorted(report["missing_keys"])
    if missing:
        raise ConfigError(
            f"layout model {folder}: {len(missing)} weights are missing, the first {missing[0]}; fetch it again"
        )
    labels = network.config.id2label
    names = class_names([labels[key] for key in sorted(labels, key=int)], f"layout model {folder}")
    return Checkpoint(network.to(target).eval().requires_grad_(False), names, image)


def image_input(settings: Mapping[str, Any], where: str) -> ImageInput:
    """Read what an image processor's settings ask for, the published values where they say nothing.

    *Raises*: ConfigError naming `where` for what the detector does not do: padding, cropping, another filter.
    """
    plain = ImageInput()
    size = settings.get("size", {"width": plain.size_px[0], "height": plain.size_px[1]})
    sides = [size.get("width"), size.get("height")] if isinstance(size, dict) else []
    size_px = [side for side in sides if isinstance(side, int) and side > 0]
    odd = [key for key in ("do_pad", "do_center_crop") if settings.get(key)]
    if settings.get("resample", _BICUBIC) != _BICUBIC or not settings.get("do_resize", True):
        odd.append("resample")
    if odd or len(size_px) != 2:
        raise ConfigError(
            f"{where}: preprocessor_config.json asks for {', '.join(odd) or 'no width and height'}; "
            "only a bicubic resize to a fixed width and height is known here"
        )
    normalize = settings.get("do_normalize", True)
    return ImageInput(
        size_px=(size_px[0], size_px[1]),
        rescale=float(settings.get("rescale_factor", plain.rescale)) if settings.get("do_rescale", True) else 1.0,
        mean=tuple(settings.get("image_mean", plain.mean)) if normalize else plain.mean,
        std=tuple(settings.get("image_std", plain.std)) if normalize else plain.std,
    )


def _checked_device(name: str) -> torch.device:
    import torch

    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device {name!r} is unknown; choose cpu, or cuda where there is a GPU") from error
    n_gpus = torch.cuda.device_count() if device.type == "cuda" and torch.cuda.is_available() else 0
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and (device.index or 0) >= n_gpus):
        raise ConfigError(f"device {name!r} is not available here; choose cpu, or cuda where there is a GPU")
    return device


def _json(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    if missing is not None and not path.is_file():
        return missing
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"layout model file {path}: cannot be read ({error}); fetch the checkpoint again") from error
    if not isinstance(content, dict):
        raise ConfigError(f"layout model file {path}: holds no settings; fetch the checkpoint again")
    return content
