"""The commands of docs/training.md, one after the other as they stand there, on tiny data and a tiny base."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
import zlib
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from tests.base_checkpoints import base_checkpoint
from tests.chat_double import ChatDouble, Reply, completion, picture_of
from tests.omnidoc_pages import HEIGHT, full_page
from tests.page_corpora import write_doclaynet, write_unimer
from tests.table_corpora import sample, write_pubtabnet
from tests.training_data import read_log
from tests.unit.training.corpora.page_fixtures import SIZE, WORDS, draw_paragraph, encoded
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.config import dump_config
from gravityocr.model.checkpoint import MASK_TOKEN, load_checkpoint
from gravityocr.training.card_figures import card_has_figures
from gravityocr.training.corpora.pool import PoolConfig
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile, region_files, region_schema

pytestmark = pytest.mark.slow  # all commands together

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "training.md"
SERVER = "http://localhost:8000/v1"  # as the page names it; the only word of its commands that is exchanged
KINDS = ("sh", "sh gpu")  # a block that is marked json holds lines of a list, and no command
N_TABLES, N_PAGES, N_FORMULAS = 5, 6, 5
N_TEXTS = 2 * N_PAGES
OWN = Counter(
    {("table", "annotation"): 1, ("formula", "annotation"): 1, ("text", "annotation"): 3, ("text", "pending"): 1}
)
PLOTS = {"cost_tokens", "picture_sizes", "response_tokens", "sources", "streams"}
LINE = "A draft is cheap when the page itself says what comes next."  # the words of line.png
MOST_NARROW_PX = 300  # the one narrow paragraph is in the benchmark, too


# --- the page


@dataclass(frozen=True)
class Fence:
    """A fenced block: what stands behind its opening fence, and its lines."""

    kind: str
    lines: tuple[str, ...]


def fences(text: str) -> list[Fence]:
    """List the fenced blocks of a Markdown text, indented ones too."""
    found: list[Fence] = []
    kind: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if not line.lstrip().startswith("```"):
            lines.append(line)
        elif kind is None:
            kind, lines = line.strip().removeprefix("```").strip(), []
        else:
            found.append(Fence(kind, tuple(lines)))
            kind = None
    assert kind is None, f"the block ```{kind} is not closed"
    return found


def commands(text: str) -> list[str]:
    """List the commands of the blocks that are run, continued lines joined."""
    blocks = ["\n".join(fence.lines) for fence in fences(text) if fence.kind == "sh"]
    lines = [" ".join(line.split()) for block in blocks for line in re.sub(r"\\\n", " ", block).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def own_lines() -> list[str]:
    """Give the page's example of a list of one's own data."""
    (block,) = [fence.lines for fence in fences(PAGE.read_text(encoding="utf-8")) if fence.kind == "json"]
    return [*block]


def is_command(line: str) -> bool:
    return re.match(r"\s*(\$ )?gravityocr ", line) is not None


def test_every_command_stands_in_a_marked_block() -> None:
    text = PAGE.read_text(encoding="utf-8")
    unmarked = [line for fence in fences(text) if fence.kind not in KINDS for line in fence.lines if is_command(line)]
    outside = [line for line in re.sub(r"(?ms)^\s*```.*?^\s*```", "", text).splitlines() if is_command(line)]
    assert unmarked == [] and outside == []


def test_blocks_are_read_as_a_shell_reads_them() -> None:
    run = "```sh\ngravityocr a  --b \\\n    c\n# no\n\ngravityocr d\n```\n"
    text = f"a\n{run}```sh gpu\nsbatch\n```\nb\n```\nx --y--> z\n```\n"
    assert commands(text) == ["gravityocr a --b c", "gravityocr d"]
    assert [fence.kind for fence in fences(text)] == ["sh", "sh gpu", ""]


def test_the_page_names_every_setting_of_a_pool() -> None:
    page = PAGE.read_text(encoding="utf-8")

    def missing(table: dict, section: str) -> list[str]:
        rows = [line for line in page.splitlines() if line.startswith(f"| {section} |")]
        values = {key: value for key, value in table.items() if not isinstance(value, dict)}
        found = [f"{section}.{key}" for key in values if not any(f"`{key}`" in row for row in rows)]
        inner = {key: value for key, value in table.items() if isinstance(value, dict)}
        parent = "" if section == "(top)" else section.strip("`") + "."
        return found + [name for key, value in inner.items() for name in missing(value, f"`{parent}{key}`")]

    assert missing(tomllib.loads(dump_config(PoolConfig())), "(top)") == []


def test_the_page_names_every_column_of_a_region_file() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert all(any(f"`{name}`" in row.split(" | ")[0] for row in rows) for name in region_schema().names)


# --- what it starts from


def write_raw(raw: Path) -> None:
    """Write three published data sets and one's own; a table is not for training, and one page has a narrow text."""
    rows = [((("year", 1, 1), (f"stones of {number}", 1, 1)), ((str(1400 + number), 1, 1), ("", 1, 1)))
            for number in range(N_TABLES + 1)]  # fmt: skip
    splits = ["train"] * N_TABLES + ["val"]
    names = [f"PMC{1064074 + number}_007_00.png" for number in range(N_TABLES + 1)]
    write_pubtabnet(raw / "pubtabnet", [sample(*one) for one in zip(names, rows, splits, strict=True)])
    pages = {}
    for number in range(N_PAGES):
        page = Image.new("RGB", SIZE, "white")
        draw_paragraph(page, 90, 120, 5 + number)
        draw_paragraph(page, 90, 600, 5 + number, n_words=9 if number else 4)
        pages[f"report_of_{2000 + number}.pdf"] = encoded(page.resize((1025, 1025)))
    write_doclaynet(raw / "doclaynet", pages)
    formulas = {}
    for number in range(N_FORMULAS):
        picture = Image.new("L", (60, 24), 255)
        ImageDraw.Draw(picture).text((6, 6), f"a+{number}", fill=0)
        formulas[rf"\frac {{ a }} {{ b }} + {number}"] = encoded(picture)
    write_unimer(raw / "unimer", formulas)
    write_own(raw / "mine")


def write_own(folder: Path) -> None:
    """Write the list that the page shows, and an image of each name in it."""
    lines = own_lines()
    for number, name in enumerate(dict.fromkeys(json.loads(line)["image"] for line in lines)):
        page = Image.new("RGB", SIZE, "white")
        for block in range(5):
            draw_paragraph(page, 90, 110 + 120 * block, 4, n_words=5 + number)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encoded(page))
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def teacher(request: dict, number: int) -> Reply:
    """Read some text in every crop, and in the narrow one a paragraph of the benchmark."""
    data = picture_of(request)
    if Image.open(BytesIO(data)).width < MOST_NARROW_PX:
        return completion(HEIGHT[1])
    start = zlib.crc32(data) % len(WORDS)
    return completion(" ".join((WORDS + WORDS)[start : start + len(WORDS)]))


@dataclass(frozen=True)
class Walk:
    """The folder in which all commands ran, and what each wrote to stdout."""

    folder: Path
    outputs: dict[str, str]
    asked: list[str]

    def output(self, *words: str) -> str:
        """Return what the one command with some words in it wrote."""
        (found,) = [output for command, output in self.outputs.items() if all(word in command for word in words)]
        return found

    def regions(self, folder: str) -> list[LabelledRegion]:
        return [region for file in region_files(self.folder / folder) for region in RegionFile(file)]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """Run all commands of the page; each must succeed."""
    folder = tmp_path_factory.mktemp("walk")
    write_raw(folder / "raw")
    (folder / "OmniDocBench.json").write_text(json.dumps([full_page()]), encoding="utf-8")
    base_checkpoint(folder / "zai-org" / "GLM-OCR")
    (folder / "recipes").symlink_to(ROOT / "recipes")
    shutil.copyfile(ROOT / "tests" / "data" / "crops" / "line_00.png", folder / "line.png")
    outputs: dict[str, str] = {}
    with ChatDouble(teacher) as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands(PAGE.read_text(encoding="utf-8")):
            name, *arguments = shlex.split(command.replace(SERVER, f"{server.url}/v1"))
            assert name == "gravityocr", f"{command}: only commands of ours are run"
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, f"{command}: {result.exception!r}\n{result.output}"
            assert command not in outputs, f"{command} stands on the page twice"
            outputs[command] = result.stdout
        return Walk(folder, outputs, server.paths)


def test_no_line_of_the_page_is_left_out(walk: Walk) -> None:
    lines = [line for fence in fences(PAGE.read_text(encoding="utf-8")) if fence.kind == "sh" for line in fence.lines]
    assert len(walk.outputs) == len([line for line in lines if is_command(line)]) > 10


# --- what came of it


def test_published_data_become_regions_with_targets(walk: Walk) -> None:
    regions = walk.regions("regions")
    found = Counter((region.source, region.task, region.target_origin) for region in regions)
    assert found == {
        ("pubtabnet", "table", "annotation"): N_TABLES,
        ("doclaynet", "text", "pending"): N_TEXTS,
        ("unimer", "formula", "annotation"): N_FORMULAS,
        **{("jsonl", *kind): n for kind, n in OWN.items()},
    }
    assert f"{len(regions)} regions" in walk.output("data stats regions")
    labelled = {region.region_id: region for region in walk.regions("labelled")}
    assert labelled.keys() == {region.region_id for region in regions}
    teachers = Counter((region.target_origin, region.teacher) for region in labelled.values())
    n_asked = N_TEXTS + OWN["text", "pending"]
    n_annotated = N_TABLES + N_FORMULAS + OWN.total() - OWN["text", "pending"]
    assert teachers == {("annotation", None): n_annotated, ("teacher", "glm-ocr"): n_asked}
    assert walk.asked == ["/v1/chat/completions"] * n_asked


def test_own_data_become_regions(walk: Walk) -> None:
    regions = [region for region in walk.regions("regions") if region.source == "jsonl"]
    records = [json.loads(line) for line in own_lines()]
    assert [region.target for region in regions] == [record["text"] or "" for record in records]
    assert [region.bbox is not None for region in regions] == ["bbox" in record for record in records]
    assert {region.doc_id for region in regions} == {"letters/1", "letters/2", "crops/sum", "crops/prices", "book"}


def test_what_the_benchmark_holds_is_gone(walk: Walk) -> None:
    before, after = walk.regions("labelled"), walk.regions("clean")
    (contaminated,) = [region.region_id for region in before if region.target == HEIGHT[1]]
    assert {region.region_id for region in before} - {region.region_id for region in after} == {contaminated}
    assert len(after) == len(before) - 1
    report = json.loads((walk.folder / "clean" / "decontamination.json").read_text(encoding="utf-8"))
    assert [row["region_id"] for row in report["removed"]] == [contaminated] and report["by_criterion"]["text"] == 1


def test_the_pool_is_mixed_and_split_by_document(walk: Walk) -> None:
    train, validation = walk.regions("pools/mine/train"), walk.regions("pools/mine/validation")
    report = json.loads((walk.folder / "pools" / "mine" / "pool.json").read_text(encoding="utf-8"))
    assert report["stages"]["read"] == N_TABLES + N_TEXTS + N_FORMULAS + OWN.total() - 1
    assert report["stages"]["removed"] == 0
    assert [report["splits"][name]["n_regions"] for name in ("train", "validation")] == [len(train), len(validation)]
    documents = [{(region.source, region.doc_id) for region in regions} for regions in (train, validation)]
    assert all(documents) and not documents[0] & documents[1]
    counts = Counter(region.task for region in train)
    assert counts.keys() == {"text", "table", "formula"}
    assert counts["table"] == counts["formula"] == round(counts["text"] / 3)
    plots = {file.name: file.read_bytes()[:4] for file in (walk.folder / "plots").iterdir()}
    assert plots == {f"{name}.png": b"\x89PNG" for name in PLOTS}


def test_the_base_gets_its_mask_token(walk: Walk) -> None:
    base, converted = walk.folder / "zai-org" / "GLM-OCR", walk.folder / "checkpoints" / "glm-ocr"
    assert not (base / "block_diffusion.json").exists()
    checkpoint = load_checkpoint(str(converted))
    assert checkpoint.tokenizer.id_to_token(checkpoint.diffusion.mask_id) == MASK_TOKEN
    assert checkpoint.diffusion.bd_size == 32


@pytest.mark.parametrize("checkpoint", ["checkpoints/glm-ocr", "runs/laptop/checkpoint"])
def test_checkpoints_are_verified(walk: Walk, checkpoint: str) -> None:
    lines = walk.output("checkpoint verify", checkpoint).splitlines()
    words = {line.split()[1]: line.split()[0] for line in lines}
    assert "FAILED" not in words.values()
    assert words["mask_token"] == words["ar_forward"] == words["draft_forward"] == "ok"


def test_the_run_leaves_its_figures(walk: Walk) -> None:
    run = walk.folder / "runs" / "laptop"
    records = read_log(run)
    assert [record["step"] for record in records if "val_ned" not in record] == [4]  # every fifth, and the last
    assert records[-1]["step"] == 4 and 0 <= records[-1]["val_ned"] < 0.5 and records[-1]["val_tpf"] > 1
    card = (run / "checkpoint" / "README.md").read_text(encoding="utf-8")
    assert card_has_figures(card) and f"{records[-1]['val_tpf']:.4g}" in card
    listed = walk.output("checkpoint push")
    assert all(name in listed for name in ("README.md", "block_diffusion.json", "model.safetensors"))


def test_the_dry_run_says_what_is_missing_and_trains_nothing(walk: Walk) -> None:
    plan = walk.output("paper.toml", "--dry-run")
    assert "checkpoints/glm-ocr/config.json" in plan and "26,214,400,000 forward tokens" in plan
    assert "pools/paper" in plan
    assert not (walk.folder / "runs" / "paper").exists()


def test_the_trained_checkpoint_reads_a_line(walk: Walk) -> None:
    read = walk.output("recognize").strip()
    assert SequenceMatcher(None, read, LINE).ratio() > 0.8, read
