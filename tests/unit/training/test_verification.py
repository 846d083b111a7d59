"""Checks of a checkpoint: each planted fault is told by the check of its name, and nothing ends in a traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.base_checkpoints import EMBEDDINGS, N_USED, base_checkpoint
from tests.factories import edit_json, tiny_network, tiny_tokenizer, write_checkpoint
from torch import Tensor

from gravityocr.model.checkpoint import resolve_checkpoint
from gravityocr.model.conversion import ConversionConfig, convert_checkpoint
from gravityocr.training import forward_checks
from gravityocr.training.verification import Check, verify_checkpoint

ORDER = [
    "config", "weight_files", "keys", "shapes", "dtypes", "finite", "tokenizer", "preprocessor", "block_diffusion",
    "mask_token", "mask_row", "stop_ids", "image_ids", "prompts", "draft_head", "load", "ar_forward", "draft_forward",
    "stock_transformers",
]  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verification")
    base = base_checkpoint(root / "base", dtype=torch.float32)
    convert_checkpoint(base, root / "checkpoint", ConversionConfig(block_size=4))
    return root / "checkpoint"


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "checkpoint"))


def checks(folder: Path) -> dict[str, Check]:
    found = verify_checkpoint(folder)
    assert [check.name for check in found] == ORDER  # every check is told, whatever became of the others
    assert all(check.detail for check in found)
    return {check.name: check for check in found}


def failing(folder: Path) -> set[str]:
    return {name for name, check in checks(folder).items() if check.ok is False}


def change(folder: Path, edit: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_sound_checkpoint(folder: Path) -> None:
    found = checks(folder)
    assert {name for name, check in found.items() if check.ok is not True} - {"stock_transformers"} == {"draft_head"}
    assert "none" in found["draft_head"].detail
    assert found["stock_transformers"].ok is not False
    assert found["mask_token"].detail == f"<|mask|> = {N_USED}, special"


def test_the_embedded_checkpoint() -> None:
    found = checks(resolve_checkpoint("nano"))
    assert {name for name, check in found.items() if check.ok is False} == set()
    assert found["draft_head"].ok is True


def test_transformers_draws_no_bars(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logging = pytest.importorskip("transformers", reason="install the extra 'transformers'").utils.logging
    logging.enable_progress_bar()
    capfd.readouterr()
    found = checks(folder)
    assert found["stock_transformers"].ok is True
    assert "%" not in capfd.readouterr().err
    assert logging.is_progress_bar_enabled(), "what the caller had set is set again"


def test_without_transformers_its_check_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    found = checks(folder)
    assert found["stock_transformers"].ok is None and "not installed" in found["stock_transformers"].detail
    assert found["draft_forward"].ok is True


# --- planted faults


def test_a_wrong_mask_id(folder: Path) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(mask_id=40))
    found = checks(folder)
    assert {"block_diffusion", "mask_token", "load"} <= {name for name, check in found.items() if check.ok is False}
    assert "40" in found["mask_token"].detail and str(N_USED) in found["mask_token"].detail
    assert found["keys"].ok and found["prompts"].ok and found["finite"].ok


@pytest.mark.parametrize("wrong", [10**12, -1, None, "267", 3.5], ids=repr)
def test_a_mask_id_that_is_no_row(folder: Path, wrong: Any) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(mask_id=wrong))
    assert {"block_diffusion", "mask_token", "load"} <= failing(folder)


def test_a_mask_that_documents_may_hold(folder: Path) -> None:
    """Loading takes it: the tokenizer has no `<|mask|>` to compare with."""
    text = (folder / "tokenizer.json").read_text(encoding="utf-8").replace("<|mask|>", "<|else|>")
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(mask_id=40))
    found = checks(folder)
    assert found["load"].ok is True
    assert found["mask_token"].ok is False and "documents may hold" in found["mask_token"].detail


def test_a_mask_that_is_a_stop_token(folder: Path) -> None:
    edit_json(folder / "generation_config.json", lambda raw: raw.update(eos_token_id=[N_USED]))
    assert "eos_token_id" in checks(folder)["mask_token"].detail


def test_a_mask_row_of_zeros(folder: Path) -> None:
    change(folder, lambda tensors: tensors[EMBEDDINGS][N_USED].zero_())
    assert failing(folder) == {"mask_row"}


def test_values_that_are_not_finite(folder: Path) -> None:
    change(folder, lambda tensors: tensors["model.language_model.norm.weight"][2:3].fill_(float("nan")))
    found = checks(folder)
    assert {name for name, check in found.items() if check.ok is False} == {"finite", "load"}
    assert "model.language_model.norm.weight" in found["finite"].detail
    assert {found[name].ok for name in ("ar_forward", "draft_forward")} == {None}


def test_a_missing_key(folder: Path) -> None:
    change(folder, lambda tensors: tensors.pop("model.language_model.layers.1.mlp.down_proj.weight"))
    found = checks(folder)
    assert {name for name, check in found.items() if check.ok is False} == {"keys", "load"}
    assert "layers.1.mlp.down_proj" in found["keys"].detail


def test_a_strange_key(folder: Path) -> None:
    change(folder, lambda tensors: tensors.update({"model.drafter.weight": torch.zeros(2)}))
    assert failing(folder) == {"keys", "load"}


def test_a_wrong_shape(folder: Path) -> None:
    change(folder, lambda tensors: tensors.update({"lm_head.weight": torch.zeros(7, 48)}))
    found = checks(folder)
    assert {name for name, check in found.items() if check.ok is False} == {"shapes", "load"}
    assert "lm_head.weight" in found["shapes"].detail


def test_a_wrong_type(folder: Path) -> None:
    change(folder, lambda tensors: tensors.update({"lm_head.weight": tensors["lm_head.weight"].to(torch.int8)}))
    assert failing(folder) == {"dtypes", "load"}


def test_the_tokenizer_of_another_model(folder: Path) -> None:
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    found = checks(folder)
    assert {"mask_token", "image_ids", "stop_ids"} <= {name for name, check in found.items() if check.ok is False}
    assert "image_token_id" in found["image_ids"].detail


def test_a_tokenizer_that_takes_the_markers_apart(folder: Path) -> None:
    raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    raw["added_tokens"] = [
        one | {"content": one["content"].replace("|user|", "|person|")} for one in raw["added_tokens"]
    ]
    (folder / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    found = checks(folder)
    assert found["prompts"].ok is False and "<|user|>" in found["prompts"].detail
    assert found["load"].ok is True  # nothing else would tell


def test_a_draft_head_that_is_promised_and_missing(folder: Path) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(draft_head=True))
    assert "draft_head" in failing(folder)


def test_drafts_that_change_the_output(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wrong acceptance rule would do."""
    decode = forward_checks.decode_prompts

    def wrong(model: Any, prompts: Any, how: Any) -> Any:
        done = decode(model, prompts, how)
        if how.mode == "self-spec":
            done.sequences[0].ids[-1] += 1
        return done

    monkeypatch.setattr(forward_checks, "decode_prompts", wrong)
    assert failing(folder) == {"draft_forward"}


def test_another_network_than_the_stock_class_s(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="transformers is the oracle; install the extra 'dev'")
    monkeypatch.setattr(forward_checks, "teacher_forced", lambda *_: torch.zeros(17, 272))
    found = checks(folder)
    assert found["stock_transformers"].ok is False


def test_an_empty_folder(tmp_path: Path) -> None:
    found = checks(tmp_path)
    assert {name for name, check in found.items() if check.ok is False} >= {
        "config", "weight_files", "tokenizer", "preprocessor", "load",
    }  # fmt: skip
    assert not any(check.ok for check in found.values())


@pytest.mark.parametrize(
    ("key", "wrong"), [("tie_word_embeddings", 0), ("image_start_token_id", None), ("video_token_id", [1])]
)
def test_a_config_that_only_the_stock_class_refuses(folder: Path, key: str, wrong: Any) -> None:
    pytest.importorskip("transformers", reason="transformers is the oracle; install the extra 'dev'")
    edit_json(folder / "config.json", lambda raw: raw.update({key: wrong}))
    found = checks(folder)
    assert found["stock_transformers"].ok is False and found["ar_forward"].ok is True


def test_a_checkpoint_that_claims_no_task(folder: Path) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(tasks=[]))
    assert checks(folder)["ar_forward"].ok is True


# --- damage at random


@pytest.mark.parametrize("seed", range(6))
def test_damaged_files_are_told_and_never_end_in_a_traceback(tmp_path: Path, seed: int) -> None:
    """Each file in turn is cut, loses a run of bytes, or gets noise; the network is tiny, so that this is quick."""
    sound = write_checkpoint(tmp_path / "sound", tiny_network())
    draw = np.random.default_rng(seed)
    for file in sorted(sound.iterdir()):
        content = file.read_bytes()
        for damage in ("cut", "loss", "noise"):
            folder = Path(shutil.copytree(sound, tmp_path / f"{file.name}-{damage}"))
            # Weights: their header, since noise among the numbers gives other numbers.
            place = int(draw.integers(0, min(len(content), 4000)))
            spoilt = bytearray(content)
            if damage == "noise":
                spoilt[place : place + 8] = draw.bytes(8)
            else:
                del spoilt[place : len(spoilt) if damage == "cut" else place + 5]
            (folder / file.name).write_bytes(spoilt)
            checks(folder)
            shutil.rmtree(folder)
