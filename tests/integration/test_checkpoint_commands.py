"""`gravityocr checkpoint` as a user meets it: convert, verify, card, push; the stock class before and after."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.base_checkpoints import MTP, N_ROWS, N_USED, base_checkpoint, change_weights, names_in, split_weights
from tests.factories import random_image
from torch import Tensor
from typer.testing import CliRunner

from gravityocr import cli
from gravityocr.decoding.prompts import DecodeMode, DecodeOptions, decode_prompts
from gravityocr.model.checkpoint import load_checkpoint, resolve_checkpoint
from gravityocr.model.prompt import Prompt

CHECKS = 19


def run(monkeypatch: pytest.MonkeyPatch, capsys: Any, *arguments: object) -> tuple[int, str, str]:
    """Run the command line as a shell does; return exit code, stdout and stderr."""
    monkeypatch.setattr("sys.argv", ["gravityocr", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    assert "Traceback" not in err and "internal error" not in err, err
    return int(end.value.code or 0), out, err


# --- beside transformers' own class


def their_network(path: Path) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is the oracle; install the extra 'dev'")
    loaded: Any = transformers.GlmOcrForConditionalGeneration.from_pretrained(
        path, dtype=torch.float32, output_loading_info=True
    )
    return loaded


@torch.inference_mode()
def their_logits(model: Any, prompt: Prompt, ids: list[int]) -> Tensor:
    tokens = torch.cat([prompt.ids, torch.tensor(ids, dtype=torch.long)])[None]
    kinds = torch.zeros_like(tokens)
    kinds[0, : prompt.ids.numel()] = prompt.is_image
    return model(
        input_ids=tokens, attention_mask=torch.ones_like(tokens), mm_token_type_ids=kinds, pixel_values=prompt.pixels,
        image_grid_thw=torch.tensor([[1, *prompt.grid]]), use_cache=False,
    ).logits[0, prompt.ids.numel() - 1 :]  # fmt: skip


@pytest.mark.parametrize("n_rows", [N_ROWS, N_USED], ids=["a spare row", "no spare row"])
def test_the_stock_class_sees_the_same_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, n_rows: int
) -> None:
    """A base that transformers wrote, in shards, an MTP layer beside it: all AR logits but the mask's stay."""
    template = base_checkpoint(tmp_path / "template", n_rows=n_rows, dtype=torch.float32)
    before, _ = their_network(template)
    source = tmp_path / "base"
    before.save_pretrained(source)
    for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "generation_config.json"):
        shutil.copyfile(template / name, source / name)
    change_weights(source, {f"{MTP}eh_proj.weight": torch.ones(48, 96), f"{MTP}enorm.weight": torch.ones(48)})
    split_weights(source, 3)
    code, out, err = run(monkeypatch, capsys, "checkpoint", "convert", source, tmp_path / "out", "--json")
    report = json.loads(out)
    assert code == 0 and report["mask_id"] == N_USED and report["dropped_layers"] == [2]
    assert "multi-token-prediction" in err
    after, info = their_network(tmp_path / "out")
    assert not any(info.values()), info
    checkpoint = load_checkpoint(str(tmp_path / "out"))
    modes: tuple[DecodeMode, ...] = ("ar", "self-spec")
    for seed, size in enumerate([(84, 56), (200, 40)]):
        prompt = checkpoint.prompts.build(random_image(*size, seed), "text")
        ids = {}
        for mode in modes:
            options = DecodeOptions(checkpoint.diffusion.mask_id, checkpoint.stop_ids, 8, mode, 20)
            ids[mode] = decode_prompts(checkpoint.model, [prompt], options).sequences[0].ids
        assert ids["ar"] == ids["self-spec"]
        old, new = their_logits(before, prompt, ids["ar"]), their_logits(after, prompt, ids["ar"])
        assert (new[:, :N_USED] - old[:, :N_USED]).abs().max() < 1e-5 < 0.1 < old.std()
        assert (new.argmax(dim=1) != N_USED).all()
        # Greedy AR of the stock class, on the base's own vocabulary, is what our engine reads.
        assert new[:-1, :N_USED].argmax(dim=1).tolist() == ids["ar"]


# --- the commands


def test_convert_verify_and_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source, out_folder = base_checkpoint(tmp_path / "base"), tmp_path / "out"
    code, out, err = run(
        monkeypatch, capsys, "checkpoint", "convert", source, out_folder, "--block-size", 6, "--statistics", "std"
    )
    assert code == 0 and out.strip() == str(out_folder) and f"<|mask|> = {N_USED}" in err
    code, out, _ = run(monkeypatch, capsys, "checkpoint", "verify", out_folder, "--json")
    checks = json.loads(out)
    assert code == 0 and len(checks) == CHECKS
    assert all(check.keys() == {"name", "ok", "detail"} for check in checks)
    code, out, _ = run(monkeypatch, capsys, "checkpoint", "info", out_folder)
    info = json.loads(out)
    assert info["mask_token"] == {"id": N_USED, "text": "<|mask|>"}
    assert info["stored"]["dtypes"] == ["BF16"] and info["block_diffusion"]["bd_size"] == 6
    assert sum(info["n_parameters_by_part"].values()) == info["n_parameters"]
    (out_folder / "block_diffusion.json").write_text('{"bd_size": 6, "mask_id": 3}', encoding="utf-8")
    code, out, _ = run(monkeypatch, capsys, "checkpoint", "verify", out_folder)
    assert code == 1 and "FAILED  mask_token" in out and "ok      keys" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("convert", "no-such-folder", "OUT"), 2, "no checkpoint folder"),
        (("convert", "BASE", "OUT", "--statistics", "median"), 2, "covariance, std"),
        (("convert", "BASE", "OUT", "--block-size", "0"), 2, "block_size"),
        (("convert", "BASE", "BASE"), 1, "in one another"),
        (("convert", "nano", "OUT"), 2, "no checkpoint folder"),
        (("verify", "no-such-folder"), 2, "no checkpoint folder"),
        (("card", "no-such-folder"), 2, "block_diffusion.json"),
        (("card", "OUT", "--run", "BASE"), 2, "block_diffusion.json"),
        (("push", "no-such-folder", "a/b"), 2, "no checkpoint folder"),
    ],
)
def test_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, arguments: tuple[str, ...], code: int, words: str
) -> None:
    base_checkpoint(tmp_path / "base")
    places = {"BASE": tmp_path / "base", "OUT": tmp_path / "out"}
    done, _, err = run(monkeypatch, capsys, "checkpoint", *(places.get(one, one) for one in arguments))
    assert done == code and words in err
    assert names_in(tmp_path) == ["base"]


# --- the hub, whose client is exchanged


class Hub:
    """A hub's client that notes what it is asked, and fails where told to."""

    def __init__(self, folder: Path | None = None, failure: Exception | None = None) -> None:
        self.folder, self.failure = folder, failure
        self.asked: list[tuple[str, Any]] = []
        self.errors = SimpleNamespace(HfHubHTTPError=ConnectionError, HTTPError=ConnectionError)

    def _ask(self, name: str, *arguments: Any, **options: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.asked.append((name, {"arguments": arguments, **options}))

    def snapshot_download(self, name: str, **options: Any) -> str:
        self._ask("download", name, **options)
        return str(self.folder)

    def HfApi(self) -> Hub:
        return self

    def create_repo(self, name: str, **options: Any) -> None:
        self._ask("create", name, **options)

    def upload_folder(self, **options: Any) -> Any:
        self._ask("upload", **options)
        return SimpleNamespace(commit_url="https://hub/commit/1")


def use_hub(monkeypatch: pytest.MonkeyPatch, hub: Hub | None) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", hub)


def test_a_hub_id_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    hub = Hub(base_checkpoint(tmp_path / "cache"))
    use_hub(monkeypatch, hub)
    code, _, _ = run(monkeypatch, capsys, "checkpoint", "convert", "zai-org/GLM-OCR", tmp_path / "out")
    assert code == 0 and hub.asked[0][1]["arguments"] == ("zai-org/GLM-OCR",)
    assert load_checkpoint(str(tmp_path / "out")).diffusion.extra == {"base": "zai-org/GLM-OCR"}


@pytest.mark.parametrize(
    "hub", [Hub(failure=ConnectionError("no route to the hub")), None], ids=["offline", "no client"]
)
def test_a_hub_that_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, hub: Hub | None
) -> None:
    use_hub(monkeypatch, hub)
    code, _, err = run(monkeypatch, capsys, "checkpoint", "convert", "zai-org/GLM-OCR", tmp_path / "out")
    assert code == 2 and ("no route to the hub" in err if hub else "not installed" in err)
    assert "folder" in err and names_in(tmp_path) == []


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Path:
    """Give a copy of the embedded checkpoint with a card of its own, in a run's folder."""
    folder = Path(shutil.copytree(resolve_checkpoint("nano"), tmp_path / "run" / "checkpoint"))
    (folder / "README.md").unlink()
    (folder / "scratch.bin").write_bytes(b"mine")
    (folder.parent / "config.toml").write_text("[train]\nsteps = 7\n", encoding="utf-8")
    record = {"step": 7, "val_ned": 0.25, "val_tpf": 3.5}
    (folder.parent / "log.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    code, out, err = run(monkeypatch, capsys, "checkpoint", "card", folder, "--license", "mit")
    assert code == 0 and out.strip() == str(folder / "README.md") and "reading the run" in err
    return folder


def test_push(published: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    hub = Hub()
    use_hub(monkeypatch, hub)
    files = set(names_in(published)) - {"scratch.bin"}
    code, out, _ = run(monkeypatch, capsys, "checkpoint", "push", published, "me/tiny", "--dry-run", "--json")
    assert code == 0 and hub.asked == []
    listed = json.loads(out)
    assert listed["files"].keys() == files and listed["url"] is None
    assert listed["files"]["model.safetensors"] == (published / "model.safetensors").stat().st_size
    code, out, _ = run(monkeypatch, capsys, "checkpoint", "push", published, "me/tiny", "--private")
    assert code == 0 and "https://hub/commit/1" in out
    (create, made), (upload, sent) = hub.asked
    assert (create, upload) == ("create", "upload") and made["private"] is True and made["exist_ok"] is True
    assert set(sent["allow_patterns"]) == files and sent["folder_path"] == str(published)


def test_what_is_not_pushed(published: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    hub = Hub()
    use_hub(monkeypatch, hub)
    card = (published / "README.md").read_text(encoding="utf-8")
    (published / "README.md").write_text(card.replace("0.25", "").replace("3.5", ""), encoding="utf-8")
    code, _, err = run(monkeypatch, capsys, "checkpoint", "push", published, "me/tiny")
    assert code == 2 and "states no figures" in err
    (published / "README.md").unlink()
    code, _, err = run(monkeypatch, capsys, "checkpoint", "push", published, "me/tiny", "--dry-run")
    assert code == 2 and "is missing" in err
    (published / "README.md").write_text(card, encoding="utf-8")
    code, _, err = run(monkeypatch, capsys, "checkpoint", "push", published, "not an id")
    assert code == 2 and "owner/name" in err
    (published / "tokenizer.json").write_text("{}", encoding="utf-8")
    code, _, err = run(monkeypatch, capsys, "checkpoint", "push", published, "me/tiny")
    assert code == 2 and "tokenizer" in err and "not uploaded" in err
    assert hub.asked == []


def test_a_hub_that_refuses(published: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    use_hub(monkeypatch, Hub(failure=ConnectionError("401 Unauthorized")))
    code, _, err = run(monkeypatch, capsys, "checkpoint", "push", published, "me/tiny")
    assert code == 1 and "401 Unauthorized" in err and "log in" in err


def test_the_commands_are_listed() -> None:
    out = CliRunner().invoke(cli.app, ["checkpoint", "--help"]).stdout
    assert all(name in out for name in ("convert", "verify", "card", "push", "info"))
