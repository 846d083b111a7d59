"""Conversion: one token more, everything else byte for byte, and never half a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.base_checkpoints import (
    EMBEDDINGS,
    MTP,
    N_ROWS,
    N_USED,
    OUTPUT,
    all_weights,
    base_checkpoint,
    names_in,
)
from tests.factories import edit_json, random_image
from tokenizers import Tokenizer

from gravityocr.decoding.prompts import DecodeMode, DecodeOptions, decode_prompts
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError, InputError
from gravityocr.model import conversion
from gravityocr.model.checkpoint import MASK_TOKEN, load_checkpoint
from gravityocr.model.conversion import ConversionConfig, convert_checkpoint
from gravityocr.model.mask_row import draw_embedding
from gravityocr.model.mask_token import choose_mask_token

SETTINGS = ConversionConfig()


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def used_rows(source: Path, key: str) -> torch.Tensor:
    return all_weights(source)[key][:N_USED].double()


# --- what is written


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_spare_row_is_adopted_and_nothing_else_changes(tmp_path: Path, dtype: torch.dtype) -> None:
    source = base_checkpoint(tmp_path / "base", dtype=dtype)
    report = convert_checkpoint(source, tmp_path / "out", ConversionConfig(block_size=7))
    assert (report.mask_id, report.origin, report.rows, report.vocab_size) == (N_USED, "spare row", "drawn", N_ROWS)
    before, after = all_weights(source), all_weights(tmp_path / "out")
    assert before.keys() == after.keys()
    for key, value in before.items():
        assert after[key].dtype == dtype
        rows = torch.tensor([row for row in range(len(value)) if row != N_USED or key not in (EMBEDDINGS, OUTPUT)])
        assert torch.equal(after[key][rows], value[rows]), key
    mean = used_rows(source, OUTPUT).mean(dim=0)
    assert torch.equal(after[OUTPUT][N_USED], mean.to(dtype))
    # Drawn from the used rows; the spare rows of this base are far away.
    assert after[EMBEDDINGS][N_USED].float().abs().max() < 20
    assert read(tmp_path / "out" / "config.json") == read(source / "config.json")
    checkpoint = load_checkpoint(str(tmp_path / "out"))
    assert (checkpoint.diffusion.bd_size, checkpoint.diffusion.mask_id) == (7, N_USED)
    assert checkpoint.tokenizer.token_to_id(MASK_TOKEN) == N_USED


def test_the_files_of_the_base_go_along(tmp_path: Path) -> None:
    """All but its card: that one speaks of the base's weights."""
    source = base_checkpoint(tmp_path / "base")
    convert_checkpoint(source, tmp_path / "out", ConversionConfig(base="zai-org/GLM-OCR"))
    out = tmp_path / "out"
    assert names_in(out) == sorted({*names_in(source), "block_diffusion.json"} - {"README.md"})
    for name in ("chat_template.jinja", "LICENSE", "generation_config.json", "preprocessor_config.json"):
        assert (out / name).read_bytes() == (source / name).read_bytes()
    settings = read(out / "tokenizer_config.json")
    assert settings["added_tokens_decoder"][str(N_USED)]["content"] == MASK_TOKEN
    assert settings["added_tokens_decoder"][str(N_USED)]["special"] is True
    assert settings["additional_special_tokens"] == ["[gMASK]", MASK_TOKEN]
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.encode(f"a{MASK_TOKEN}b").ids[1] == N_USED
    assert tokenizer.decode([N_USED], skip_special_tokens=True) == ""
    assert read(out / "block_diffusion.json")["base"] == "zai-org/GLM-OCR"
    before = Tokenizer.from_file(str(source / "tokenizer.json"))
    text = "Table Recognition: \u00e4\u4e2d $x^2$<|assistant|>\n"
    assert tokenizer.encode(text).ids == before.encode(text).ids


def test_without_a_spare_row_both_tables_grow(tmp_path: Path) -> None:
    source = base_checkpoint(tmp_path / "base", n_rows=N_USED)
    report = convert_checkpoint(source, tmp_path / "out", SETTINGS)
    assert (report.mask_id, report.origin, report.vocab_size) == (N_USED, "new row", N_USED + 1)
    before, after = all_weights(source), all_weights(tmp_path / "out")
    for key in (EMBEDDINGS, OUTPUT):
        assert len(after[key]) == N_USED + 1 and torch.equal(after[key][:N_USED], before[key])
    assert read(tmp_path / "out" / "config.json")["text_config"]["vocab_size"] == N_USED + 1
    assert load_checkpoint(str(tmp_path / "out")).diffusion.mask_id == N_USED


@pytest.mark.parametrize("mtp", [False, True])
def test_shards_stay_shards(tmp_path: Path, mtp: bool) -> None:
    whole = base_checkpoint(tmp_path / "whole")
    source = base_checkpoint(tmp_path / "base", n_shards=3, mtp=mtp)
    convert_checkpoint(whole, tmp_path / "one", SETTINGS)
    report = convert_checkpoint(source, tmp_path / "out", SETTINGS)
    assert len(report.weight_files) == 3  # a shard of nothing but the MTP layer is gone
    expected, after = all_weights(tmp_path / "one"), all_weights(tmp_path / "out")
    assert expected.keys() == after.keys()
    assert all(torch.equal(after[key], value) for key, value in expected.items())
    index = read(tmp_path / "out" / "model.safetensors.index.json")
    assert index["weight_map"].keys() == after.keys()
    assert index["metadata"]["total_size"] == sum(value.numel() * 2 for value in after.values()) == report.n_bytes
    for key, file in index["weight_map"].items():
        assert key in all_weights_of(tmp_path / "out" / file)
    load_checkpoint(str(tmp_path / "out"))


def all_weights_of(file: Path) -> set[str]:
    from safetensors import safe_open

    with safe_open(str(file), framework="pt") as handle:
        return set(handle.keys())


def test_the_mtp_layer_is_left_behind_and_said_so(tmp_path: Path) -> None:
    source = base_checkpoint(tmp_path / "base", mtp=True)
    report = convert_checkpoint(source, tmp_path / "out", SETTINGS)
    extra = {key: value for key, value in all_weights(source).items() if key.startswith(MTP)}
    assert report.dropped_layers == (2,) and report.n_dropped_tensors == len(extra) == 9
    assert report.n_dropped_bytes == sum(value.numel() * 2 for value in extra.values())
    assert all_weights(tmp_path / "out").keys() == all_weights(source).keys() - extra.keys()
    assert read(tmp_path / "out" / "config.json")["text_config"]["num_nextn_predict_layers"] == 0


def test_an_existing_mask_token_is_adopted_with_its_rows(tmp_path: Path) -> None:
    source = base_checkpoint(tmp_path / "base", with_mask=True)
    report = convert_checkpoint(source, tmp_path / "out", SETTINGS)
    assert (report.origin, report.rows, report.mask_id) == ("existing token", "kept", N_USED)
    before, after = all_weights(source), all_weights(tmp_path / "out")
    assert all(torch.equal(after[key], value) for key, value in before.items())
    assert read(tmp_path / "out" / "tokenizer.json") == read(source / "tokenizer.json")
    report = convert_checkpoint(source, tmp_path / "drawn", ConversionConfig(redraw=True))
    assert report.rows == "drawn"
    assert not torch.equal(all_weights(tmp_path / "drawn")[EMBEDDINGS][N_USED], before[EMBEDDINGS][N_USED])


def test_another_token_of_the_tokenizer_may_be_the_mask(tmp_path: Path) -> None:
    source = base_checkpoint(tmp_path / "base")
    edit_json(source / "tokenizer.json", lambda raw: _rename(raw, "<|video|>", "[MASK]"))
    report = convert_checkpoint(source, tmp_path / "out", ConversionConfig(mask_token="[MASK]"))
    assert report.origin == "existing token" and report.mask_token == "[MASK]"


def _rename(raw: dict[str, Any], old: str, new: str) -> None:
    for entry in raw["added_tokens"]:
        entry["content"] = new if entry["content"] == old else entry["content"]
    vocabulary = raw["model"]["vocab"]
    if old in vocabulary:
        vocabulary[new] = vocabulary.pop(old)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    source = base_checkpoint(tmp_path / "base")
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        convert_checkpoint(source, tmp_path / name, ConversionConfig(seed=seed))
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1] != weights[2]


# --- the new rows


def table_file(path: Path) -> tuple[Path, torch.Tensor, torch.Tensor]:
    """Write correlated rows of unequal widths, and rows that no token uses and that are far away."""
    generator = torch.Generator().manual_seed(3)
    mix = torch.randn(6, 6, generator=generator, dtype=torch.float64) * torch.tensor([3.0, 1.0, 0.2, 1.0, 2.0, 0.5])
    rows = torch.randn(5000, 6, generator=generator, dtype=torch.float64) @ mix + torch.arange(6.0)
    used = torch.ones(5000, dtype=torch.bool)
    used[::7] = False
    rows[~used] = 1e4
    save_file({"table": rows.float()}, path / "table.safetensors")
    return path / "table.safetensors", used, rows[used]


@pytest.mark.parametrize("statistics", ["covariance", "std"])
def test_the_embedding_has_the_mean_and_covariance_of_the_used_rows(tmp_path: Path, statistics: Any) -> None:
    file, used, rows = table_file(tmp_path)
    n = 600
    drawn = torch.stack([draw_embedding(file, "table", used, seed, statistics) for seed in range(n)])
    covariance = rows.T.cov()
    if statistics == "std":
        covariance = covariance.diag().diag()
    spread = covariance.diag().sqrt()
    # Standard errors: spread / sqrt(n) for a mean, about spread_i spread_j sqrt(2 / n) for a covariance.
    assert ((drawn.mean(dim=0) - rows.mean(dim=0)).abs() < 4.5 * spread / n**0.5).all()
    error = (drawn.T.cov() - covariance).abs()
    assert (error < 4.5 * spread[:, None] * spread * (2 / n) ** 0.5).all()
    if statistics == "covariance":  # the test can tell the two apart
        off = (covariance - covariance.diag().diag()) / (spread[:, None] * spread)
        assert off.abs().max() > 8 * (2 / n) ** 0.5


def test_too_few_rows_have_no_covariance(tmp_path: Path) -> None:
    file, used, _ = table_file(tmp_path)
    with pytest.raises(CheckpointError, match="1 rows"):
        draw_embedding(file, "table", torch.zeros_like(used).index_fill(0, torch.tensor([3]), True), 0)


def test_the_mask_never_wins(tmp_path: Path) -> None:
    """Its logit is the mean of the used tokens' logits, whatever the hidden state."""
    source = base_checkpoint(tmp_path / "base")
    convert_checkpoint(source, tmp_path / "out", SETTINGS)
    head = all_weights(tmp_path / "out")[OUTPUT].float()
    hidden = torch.randn(20000, head.shape[1], generator=torch.Generator().manual_seed(1)) * 30
    logits = hidden @ head[: N_USED + 1].T
    assert (logits.argmax(dim=1) != N_USED).all()
    assert (logits[:, :-1].max(dim=1).values - logits[:, -1]).min() > 1.0


def test_a_converted_checkpoint_drafts_and_equals_its_ar(tmp_path: Path) -> None:
    source = base_checkpoint(tmp_path / "base", dtype=torch.float32)
    convert_checkpoint(source, tmp_path / "out", ConversionConfig(block_size=4))
    checkpoint = load_checkpoint(str(tmp_path / "out"))
    sizes = [(56, 28), (90, 60), (140, 30)]
    prompts = [checkpoint.prompts.build(random_image(*size, seed), "table") for seed, size in enumerate(sizes)]
    ids = {}
    modes: tuple[DecodeMode, ...] = ("ar", "self-spec")
    for mode in modes:
        options = DecodeOptions(checkpoint.diffusion.mask_id, checkpoint.stop_ids, 4, mode, 24)
        ids[mode] = [one.ids for one in decode_prompts(checkpoint.model, prompts, options).sequences]
    assert ids["ar"] == ids["self-spec"] and all(len(one) > 1 for one in ids["ar"])


# --- what is refused, by name


def refused(source: Path, out: Path, error: type[GravityOCRError], *words: str, **options: Any) -> None:
    overwrite = options.pop("overwrite", False)
    with pytest.raises(error) as caught:
        convert_checkpoint(source, out, ConversionConfig(**options), overwrite)
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)


def test_a_folder_with_something_in_it(tmp_path: Path) -> None:
    source, out = base_checkpoint(tmp_path / "base"), tmp_path / "out"
    out.mkdir()
    convert_checkpoint(source, out, SETTINGS)  # an empty one may be there
    refused(source, out, InputError, "not empty", "--overwrite")
    (out / "old.bin").write_bytes(b"x")
    convert_checkpoint(source, out, SETTINGS, overwrite=True)
    assert not (out / "old.bin").exists()
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "letter.txt").write_text("dear", encoding="utf-8")
    refused(source, documents, InputError, "no checkpoint", overwrite=True)
    assert names_in(documents) == ["letter.txt"]
    refused(source, documents / "letter.txt", InputError, "is a file")


def test_a_folder_within_the_source_or_around_it(tmp_path: Path) -> None:
    source = base_checkpoint(tmp_path / "base")
    for out in (source, source / "out", tmp_path):
        refused(source, out, InputError, "in one another", overwrite=True)
    assert (source / "model.safetensors").exists()


def test_a_converted_checkpoint_is_not_converted_again(tmp_path: Path) -> None:
    convert_checkpoint(base_checkpoint(tmp_path / "base"), tmp_path / "one", SETTINGS)
    refused(tmp_path / "one", tmp_path / "two", CheckpointError, "converted already")


def test_nothing_is_left_of_a_conversion_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = base_checkpoint(tmp_path / "base"), tmp_path / "out"
    convert_checkpoint(source, out, SETTINGS)
    before = (out / "model.safetensors").read_bytes()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(conversion, "copy_tensors", full)
    with pytest.raises(OSError, match="No space"):
        convert_checkpoint(source, out, ConversionConfig(seed=1), overwrite=True)
    assert names_in(tmp_path) == ["base", "out"]
    assert (out / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "preprocessor_config.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "cut", "noise"])
def test_a_broken_source_is_named(tmp_path: Path, name: str, damage: str) -> None:
    file = base_checkpoint(tmp_path / "base") / name
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(content[: len(content) // 2] if damage == "cut" else bytes(reversed(content)))
    refused(tmp_path / "base", tmp_path / "out", CheckpointError, "safetensors" if name.startswith("model") else name)
    assert names_in(tmp_path) == ["base"]


def test_a_table_that_is_not_finite(tmp_path: Path) -> None:
    source = base_checkpoint(tmp_path / "base")
    weights = all_weights(source)
    weights[EMBEDDINGS][3, 2] = float("nan")
    save_file(weights, source / "model.safetensors", metadata={"format": "pt"})
    refused(source, tmp_path / "out", CheckpointError, EMBEDDINGS, "not finite")


def test_a_tokenizer_with_gaps(tmp_path: Path) -> None:
    """It would give the token another id than the one that is free."""
    source = base_checkpoint(tmp_path / "base")
    raw = read(source / "tokenizer.json")
    letter = max(raw["model"]["vocab"], key=raw["model"]["vocab"].get)
    raw["model"]["vocab"][letter] = N_ROWS - 3
    raw["added_tokens"] = [dict(one, id=one["id"] - 1) for one in raw["added_tokens"]]
    (source / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    config = read(source / "config.json")
    for key in config:
        if key.endswith("token_id"):
            config[key] -= 1
    edit_json(source / "config.json", lambda old: old.update(config))
    refused(source, tmp_path / "out", CheckpointError, "tokenizer.json", "gaps")


@pytest.mark.parametrize(
    "wrong", [{"block_size": 0}, {"seed": -1}, {"statistics": "mean"}, {"mask_token": " "}], ids=str
)
def test_settings_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ConversionConfig(**wrong)


@pytest.mark.parametrize("text", ["a", "<|user|>", "mask", "", "<| mask |>", "the <|mask|>"])
def test_a_mask_token_that_texts_may_hold_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="may occur in texts"):
        choose_mask_token(tmp_path, text, 100)
