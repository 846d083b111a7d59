"""Figures of region files against ones counted by hand; plots, sheet, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.checkpoint import read_image_spec, read_tokenizer, resolve_checkpoint
from gravityocr.model.prompt import TASK_PROMPTS, PromptBuilder
from gravityocr.training.corpora.region_plots import draw_plots, draw_regions
from gravityocr.training.corpora.region_shards import LabelledRegion, encode_picture, write_regions
from gravityocr.training.corpora.region_stats import StatsConfig, measure_regions, region_stats, stats_text
from gravityocr.training.synthetic.shards import RenderedSample, write_shard


@pytest.fixture(scope="module")
def prompts() -> PromptBuilder:
    folder = resolve_checkpoint("nano")
    return PromptBuilder(read_tokenizer(folder, 2**31), read_image_spec(folder))


def make_region(number: int, width: int, height: int, task: str, target: str, **changes) -> LabelledRegion:
    picture = encode_picture(Image.new("L", (width, height), 255))
    values = {
        "region_id": f"s/{number}", "image": picture, "width_px": width, "height_px": height, "task": task,
        "target": target, "source": "s", "doc_id": "d",
    }  # fmt: skip
    return LabelledRegion(**{**values, **changes})


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    train = [
        make_region(0, 64, 32, "text", "abcdef"),
        make_region(1, 160, 48, "text", "a b\u0e01", page=1),
        make_region(2, 64, 64, "formula", "x+y", doc_id="e", target_origin="teacher", teacher="big"),
    ]
    write_regions(folder / "train" / "pool-00000.regions.parquet", train)
    table = make_region(3, 64, 32, "table", "ab" * 30, source="t", target_origin="pending")
    write_regions(folder / "validation" / "pool-00000.regions.parquet", [table])
    return folder


def measured(pool: Path, prompts: PromptBuilder, config: StatsConfig):
    files = sorted(pool.rglob("*.regions.parquet"))
    figures = measure_regions(files, prompts, config)
    return figures, region_stats(figures, config)


def test_figures_are_those_of_a_count_by_hand(pool: Path, prompts: PromptBuilder) -> None:
    # nano has cells of 16 x 16 px: 4 x 2, 10 x 3, 4 x 4 and 4 x 2 of them; its tokens are characters.
    config = StatsConfig(n_eos=8, row_tokens=230, response_cap_tokens=50)
    figures, report = measured(pool, prompts, config)
    around = {task: prompts.n_tokens(64, 32, task) - 8 for task in TASK_PROMPTS}
    prefix = [around["text"] + 8, around["text"] + 30, around["formula"] + 16, around["table"] + 8]
    response = [6, 4, 3, 60]
    cost = [p + 3 * (n + 8) for p, n in zip(prefix, response, strict=True)]
    assert figures.of("prefix_tokens").tolist() == prefix and figures.of("response_tokens").tolist() == response
    assert figures.of("cost_tokens").tolist() == cost
    assert report["image_tokens"]["p100"] == 30 and report["image_tokens"]["mean"] == (8 + 30 + 16 + 8) / 4
    assert report["stream_tokens"] == {"prefix": sum(prefix), "clean": 73 + 32, "corrupt": 2 * (73 + 32)}
    assert report["forward_tokens"] == sum(cost) == sum(report["stream_tokens"].values())
    assert (report["n_regions"], report["n_documents"], report["n_pages"], report["n_files"]) == (4, 3, 4, 2)
    assert report["sources"] == {"s": 3, "t": 1} and report["splits"] == {"train": 3, "validation": 1}
    assert report["origins"] == {"annotation": 2, "teacher": 1, "pending": 1}
    assert report["tasks"]["text"]["n_regions"] == 2 and report["tasks"]["text"]["share"] == 0.5
    assert report["tasks"]["text"]["response_tokens"]["p50"] == 5.0
    assert report["tasks"]["text"]["width_px"]["p0"] == 64 and report["tasks"]["text"]["height_px"]["p100"] == 48
    # The long table is over the cap, and its cost of 221 at least over the row.
    n_over = sum(value > 230 for value in cost)
    assert (report["n_over_row"], report["n_over_response_cap"], report["n_skipped"]) == (n_over, 1, 1)
    # A blank is known, though nano's sign of the unknown is one.
    assert report["unknown_tokens"] == {"\u0e01": 1} and report["n_unknown_tokens"] == 1


def test_the_cost_is_that_of_a_prompt_that_was_built(pool: Path, prompts: PromptBuilder) -> None:
    figures, _ = measured(pool, prompts, StatsConfig())
    built = prompts.build(Image.new("L", (160, 48)), "text")
    assert figures.of("prefix_tokens")[1] == built.ids.numel()
    assert figures.of("image_tokens")[1] == int(built.is_image.sum())


def test_other_tokenizers_have_their_own_unknown_tokens(pool: Path, prompts: PromptBuilder) -> None:
    words = ["[UNK]", "a", "b", "<|image|>"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.add_special_tokens(["<|image|>"])
    _, report = measured(pool, PromptBuilder(tokenizer, prompts.spec), StatsConfig())
    assert report["n_unknown_tokens"] == 4 + 2 + 3 and report["unknown_tokens"]["c"] == 1


def test_the_text_tells_the_main_figures(pool: Path, prompts: PromptBuilder) -> None:
    _, report = measured(pool, prompts, StatsConfig(response_cap_tokens=50))
    text = stats_text(report)
    assert text.startswith("4 regions of 3 documents and 4 pages in 2 files")
    assert "origins: annotation 2, teacher 1, pending 1" in text and "1 over 50 response tokens with fill" in text
    assert "all: 4 regions (100.0 %); 1 pending: cost without their responses" in text
    assert "text: 2 regions (50.0 %)\n" in text and "table: 1 regions (25.0 %); 1 pending" in text
    # What the abbreviations mean is said.
    assert "p0 the smallest, p50 the median" in text and "cost_tokens = prefix + 3 x (response + 32)" in text
    assert "prefix: prompt" in text and "clean: the response and the 32 EOS tokens" in text and "read twice" in text


def test_the_cost_follows_the_noise_of_a_recipe(pool: Path, prompts: PromptBuilder) -> None:
    figures, report = measured(pool, prompts, StatsConfig(n_eos=1, n_corrupt=1, response_cap_tokens=60))
    prefix, response, cost = (figures.of(f"{name}_tokens") for name in ("prefix", "response", "cost"))
    assert cost.tolist() == (prefix + 2 * (response + 1)).tolist()
    assert report["stream_tokens"]["corrupt"] == report["stream_tokens"]["clean"] == 73 + 4
    assert report["n_over_response_cap"] == 1  # of 60 tokens, and its EOS, as packing counts
    text = stats_text(report)
    assert "cost_tokens = prefix + 2 x (response + 1)" in text and "read once\ncost" in text


def test_plots_and_a_sheet_are_drawn(pool: Path, prompts: PromptBuilder, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra gravityocr[report] is not installed")
    config = StatsConfig()
    figures, _ = measured(pool, prompts, config)
    drawn = draw_plots(figures, config, tmp_path / "plots")
    assert len(drawn) == 5
    for file in drawn:
        assert np.asarray(Image.open(file).convert("L")).std() > 5
    sheet = draw_regions(sorted(pool.rglob("*.parquet")), 10, 0)
    assert sheet.width == 1600 and (np.asarray(sheet) < 255).any()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another --plots"):
        draw_plots(figures, config, tmp_path / "file")


def test_a_sheet_of_empty_files_is_refused(tmp_path: Path) -> None:
    write_regions(tmp_path / "a.regions.parquet", [])
    with pytest.raises(InputError, match="empty"):
        draw_regions([tmp_path / "a.regions.parquet"], 3, 0)


def run(*arguments: str):
    return CliRunner().invoke(app, ["data", "stats", *arguments])


def test_the_command_reports_regions_and_shards_side_by_side(pool: Path, tmp_path: Path) -> None:
    sample = RenderedSample("text", np.zeros((32, 32), np.uint8), ("a", "b"), np.zeros((2, 2), np.float32), "x")
    write_shard(tmp_path / "a.shard.npz", [sample])
    only_regions = json.loads(run(str(pool), "--json").stdout)
    assert [*only_regions] == ["regions"] and only_regions["regions"]["n_regions"] == 4
    sheet = tmp_path / "sheet.png"
    both = json.loads(run(str(pool), str(tmp_path), "--json", "--sheet", str(sheet), "--block-size", "4").stdout)
    assert both["n_shards"] == 1 and both["regions"]["eos_tokens"] == 4 and sheet.stat().st_size > 1000
    assert "1 shards" in run(str(tmp_path)).stdout and "4 regions" in run(str(pool)).stdout
    one_file = run(str(pool / "train" / "pool-00000.regions.parquet"), "--json")
    assert json.loads(one_file.stdout)["regions"]["n_regions"] == 3


def test_the_command_names_what_it_cannot_read(tmp_path: Path) -> None:
    nothing = run(str(tmp_path))
    assert isinstance(nothing.exception, InputError) and "no region file" in str(nothing.exception)
    write_shard(tmp_path / "a.shard.npz", [])
    plots = run(str(tmp_path), "--plots", str(tmp_path))
    assert isinstance(plots.exception, ConfigError) and "--plots" in str(plots.exception)


def test_a_recipe_gives_base_blocks_limits_and_pool(pool: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    lines = ["[train]", 'base = "nano"', "[packing]", "row_tokens = 900", "response_cap_tokens = 61", "[data]",
             f"pool = '{pool}'", "[noise]", "block_size = 7", 'mask_schedule = "all"']  # fmt: skip
    recipe.write_text("\n".join(lines) + "\n")
    told = json.loads(run("--config", str(recipe), "--json").stdout)["regions"]
    limits = ("n_regions", "eos_tokens", "corrupt_streams", "row_tokens", "response_cap_tokens", "checkpoint")
    assert [told[name] for name in limits] == [4, 7, 1, 900, 61, "nano"] and told["n_over_response_cap"] == 1
    train = str(pool / "train")
    typed = json.loads(run(train, "--config", str(recipe), "--block-size", "9", "--json").stdout)["regions"]
    assert [typed[name] for name in limits[:4]] == [3, 9, 1, 900]
    (tmp_path / "bad.toml").write_text("[trian]\n")
    assert isinstance(run("--config", str(tmp_path / "bad.toml")).exception, ConfigError)


def test_without_a_folder_the_samples_of_the_package_are_counted() -> None:
    done = run("--json")
    report = json.loads(done.stdout)["regions"]
    assert report["n_regions"] > 0 and {*report["tasks"]} == {"text", "table", "formula"}
    assert "samples that come with the package" in done.stderr
