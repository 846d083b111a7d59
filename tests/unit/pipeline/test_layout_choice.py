"""Which detector a name stands for, and what `auto` takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from tests.unit.pipeline.tiny_v3 import save_tiny_v3

from gravityocr.errors import ConfigError
from gravityocr.pipeline import layout_choice
from gravityocr.pipeline.layout import WholePage, detector_name, is_trusted
from gravityocr.pipeline.layout_cdla import CdlaDetector, embedded_model
from gravityocr.pipeline.layout_choice import build_detector
from gravityocr.pipeline.layout_v3 import PPDocLayoutV3Detector
from gravityocr.pipeline.layout_v3_config import PUBLISHED_MODEL, V3Config


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_v3(tmp_path_factory.mktemp("v3"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put_in_cache(cache: Path, tiny: Path) -> None:
    home = cache / f"models--{PUBLISHED_MODEL.replace('/', '--')}"
    shutil.copytree(tiny, home / "snapshots" / "0123abc")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0123abc")


def test_auto_is_cdla_where_no_weights_are() -> None:
    detector = build_detector(n_threads=1)
    assert isinstance(detector, CdlaDetector) and detector.config.n_threads == 1
    assert detector_name(detector) == "cdla" and not is_trusted(detector)


def test_auto_takes_local_weights(tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = V3Config(threshold=0.5)
    given = build_detector("auto", model=str(tiny), config=config)
    assert isinstance(given, PPDocLayoutV3Detector) and given.config is config
    assert detector_name(given) == "pp-doclayout-v3" and is_trusted(given)
    put_in_cache(cache, tiny)
    assert isinstance(build_detector(), PPDocLayoutV3Detector)
    assert isinstance(build_detector("pp-doclayout-v3"), PPDocLayoutV3Detector)
    monkeypatch.setattr(layout_choice, "has_transformers", lambda: False)
    assert isinstance(build_detector(n_threads=1), CdlaDetector)


def test_auto_never_asks_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*arguments: object, **options: object) -> str:
        raise AssertionError("asked the network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert detector_name(build_detector(n_threads=1)) == "cdla"
    with pytest.raises(ConfigError, match="'some/model': neither a folder with weights nor a hub id in the cache"):
        build_detector(model="some/model")


def test_a_download_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*arguments: object, **options: object) -> str:
        raise ConnectionError("the cable is cut\nsecond line")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ConfigError, match=rf"{PUBLISHED_MODEL}: no such folder, .*\(the cable is cut\); check"):
        build_detector("pp-doclayout-v3")


def test_a_download_is_loaded(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def download(model: str, **options: object) -> str:
        asked.append(model)
        return str(tiny)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert isinstance(build_detector("pp-doclayout-v3", model="some/model"), PPDocLayoutV3Detector)
    assert asked == ["some/model"]


def test_no_hub_id_and_no_folder() -> None:
    with pytest.raises(ConfigError, match="layout model no folder here: no such folder"):
        build_detector("pp-doclayout-v3", model="no folder here")


def test_the_other_names(tmp_path: Path) -> None:
    assert isinstance(build_detector("none"), WholePage) and detector_name(WholePage()) == "none"
    own = Path(shutil.copy(embedded_model(), tmp_path / "own.onnx"))
    cdla = build_detector("cdla", model=str(own), n_threads=1)
    assert isinstance(cdla, CdlaDetector) and cdla.config.model_path == str(own)
    with pytest.raises(ConfigError, match="'none' takes no model"):
        build_detector("none", model="some/model")
    with pytest.raises(ConfigError, match="unknown layout 'v3'; choose one of auto, pp-doclayout-v3, cdla, none"):
        build_detector("v3")


def test_the_choice_alone_imports_no_torch() -> None:
    code = (
        "import sys; from gravityocr.pipeline.layout_choice import build_detector; build_detector('none'); "
        "print([name for name in ('torch', 'transformers', 'huggingface_hub', 'scipy') if name in sys.modules])"
    )
    path = ":".join(entry for entry in sys.path if entry)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path})
    assert done.stdout.strip() == "[]", done.stderr
