"""Decontamination: planted copies go, whatever their spelling; innocents stay; runs go on where they stopped."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gravityocr.commands.data_decontaminate import decontaminate as command
from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.benchmark_index import BenchmarkIndex, DecontaminationConfig
from gravityocr.training.corpora.benchmark_items import Benchmark, BenchmarkItem, document_keys, read_benchmark
from gravityocr.training.corpora.decontamination import decontaminate, summary
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile, write_regions

SYLLABLES = ["ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo", "ka"]
CHINESE = "机器学习是人工智能的一个重要分支,它研究如何使用数据改进性能。"
FORMULA = r"\frac{\partial u}{\partial t} + \left( u \cdot \nabla \right) u_{i}^{2} = \frac{1}{\rho} \nabla p + \nu"


def words(seed: int, n: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 4))) for _ in range(n)]


def prose(seed: int, n: int = 60) -> str:
    return " ".join(words(seed, n)).capitalize() + "."


def table(rows: list[list[str]]) -> str:
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{body}</table>"


def cells(seed: int, n_rows: int = 6) -> list[list[str]]:
    rng = random.Random(seed)
    return [[f"{name} row", f"{rng.uniform(10, 99):.3f}", str(rng.randint(0, 9))] for name in words(seed, n_rows)]


ITEMS = (
    BenchmarkItem("p1#0", "text", prose(1)),
    BenchmarkItem("p1#1", "text", CHINESE),
    BenchmarkItem("p1#2", "text", "Table 1"),
    BenchmarkItem("p2#0", "table", table(cells(2))),
    BenchmarkItem("p2#1", "formula", FORMULA),
    BenchmarkItem("p2#2", "formula", "x=1"),
    BenchmarkItem("p2#3", "text", "References"),
    BenchmarkItem("p2#4", "table", table([["0", "1"], ["Total", "2"]])),
)
DOC_IDS = ("docstructbench_scihub.pdf_4.jpg", "PMC3576793_00004.jpg", "db_1.tar_1701.04170.gz_x_8_ori.jpg", "12.png")
BENCHMARK = Benchmark(Path("bench.json"), ITEMS, DOC_IDS, "0" * 64)


@pytest.fixture(scope="module")
def index() -> BenchmarkIndex:
    return BenchmarkIndex([BENCHMARK], DecontaminationConfig())


def removals(index: BenchmarkIndex, task, target: str, doc_id: str = "") -> dict[str, str]:
    return {match.criterion: match.item for match in index.matches(doc_id, task, target) if match.is_removal}


def hyphenated(text: str) -> str:
    return " ".join(f"{word[:3]}-\n{word[3:]}" if len(word) > 5 else word for word in text.split())


@pytest.mark.parametrize(
    "copy",
    [
        prose(1), prose(1).upper(), prose(1).replace(" ", "\n\n"), hyphenated(prose(1)), f"# {prose(1)} {prose(9, 30)}",
        " ".join(prose(1).split()[10:40]), f"{prose(8, 500)} {prose(1)}", prose(1).replace(" ", " <br> ", 5),
    ],
)  # fmt: skip
def test_copies_of_a_text_go(index: BenchmarkIndex, copy: str) -> None:
    assert removals(index, "text", copy) == {"text": "p1#0"}


def test_a_text_with_a_misread_word_in_twenty_goes(index: BenchmarkIndex) -> None:
    misread = ["misread" if place % 20 == 19 else word for place, word in enumerate(prose(1).split())]
    assert removals(index, "text", " ".join(misread)) == {"text": "p1#0"}


def test_a_text_without_blanks_goes(index: BenchmarkIndex) -> None:
    assert removals(index, "text", CHINESE.replace(",", "，\n")) == {"text": "p1#1"}
    assert removals(index, "text", CHINESE[:10] + "不是一件很容易的事情所以要努力") == {}


def test_a_table_goes_with_its_rows_in_another_order_and_other_markup(index: BenchmarkIndex) -> None:
    shuffled = table(random.Random(0).sample(cells(2), 6)).replace("<td>", '<th colspan="1">').replace("</td>", "</th>")
    assert removals(index, "table", shuffled)["table"] == "p2#0"
    assert removals(index, "table", table([*cells(2)[:3], *cells(7, 30)])) == {}  # a small part of both
    assert removals(index, "table", table(cells(2)[:4]))["table"] == "p2#0"  # a piece of it


@pytest.mark.parametrize(
    "copy",
    [
        FORMULA, f"$${FORMULA}$$", FORMULA.replace(r"\frac", r"\dfrac").replace(r"\left", "").replace(r"\right", ""),
        FORMULA.replace("u_{i}^{2}", r"\mathbf{u}^2_i").replace(" ", "  "),
        rf"\begin{{equation}}{FORMULA}\tag{{3}}\end{{equation}}",
    ],
)  # fmt: skip
def test_a_formula_in_another_spelling_goes(index: BenchmarkIndex, copy: str) -> None:
    assert removals(index, "formula", copy) == {"formula": "p2#1"}


@pytest.mark.parametrize(
    ("task", "target"),
    [
        ("text", "Table 1"), ("text", "References"), ("text", "0"), ("text", prose(5)), ("formula", "x=1"),
        ("formula", FORMULA[:40]), ("formula", FORMULA.replace("rho", "sigma")),
        ("formula", f"{FORMULA} + {FORMULA} f"),
        ("table", table([["0", "1"], ["Total", "2"]])), ("table", table(cells(6))),
        ("table", table([[row[0], f"{float(row[1]) + 1:.3f}", row[2]] for row in cells(2)])),  # its row heads only
        ("text", " ".join(prose(1).split()[:10])), ("text", prose(1, 60)[:80] + prose(4, 200)),
    ],
)  # fmt: skip
def test_innocents_stay(index: BenchmarkIndex, task, target: str) -> None:
    assert removals(index, task, target) == {}


@pytest.mark.parametrize(
    ("doc_id", "goes"),
    [
        ("pubtabnet/PMC3576793_004_00", True), ("arxiv:1701.04170v2", True), ("docstructbench_scihub", True),
        ("docstructbench_scihub.pdf", True), ("PMC35767930", False), ("1701.0417", False), ("12", False), ("", False),
    ],
)  # fmt: skip
def test_documents(index: BenchmarkIndex, doc_id: str, goes: bool) -> None:
    assert ("document" in removals(index, "text", "", doc_id)) == goes


SHORT = (
    BenchmarkItem("s#0", "text", "The quick brown fox jumps over the lazy dog tonight"),
    BenchmarkItem("s#1", "text", "Results and discussion"),
    BenchmarkItem("s#2", "text", "深度学习综述"),
    BenchmarkItem("s#3", "text", " - ! "),
    BenchmarkItem("s#4", "text", prose(1)),
    BenchmarkItem("s#5", "formula", "E=mc^2"),
    BenchmarkItem("s#6", "formula", "x=1"),
    BenchmarkItem("s#7", "table", table([["Group", "Alpha"], ["Beta", "Gamma"]])),
    BenchmarkItem("s#8", "table", "no table at all"),
    BenchmarkItem("s#9", "table", table([["a", "b"]])),
)


@pytest.mark.parametrize(
    ("task", "target", "item"),
    [
        ("text", "# THE quick brown\nfox jumps over the lazy-dog tonight.", None),
        ("text", "# THE quick brown\nfox jumps over the lazy dog **tonight**.", "s#0"),
        ("text", "The quick brown fox jumps over the lazy dog", None),
        ("text", "The quick brown fox jumps over the lazy dog tonight and", None),
        ("text", "Results and discussion", None), ("text", "深度 学习综述", "s#2"), ("text", "深度学习", None),
        ("formula", r"\( E = m c^{2} \)", "s#5"), ("formula", "E=mc^3", None), ("formula", "x=1", None),
        ("table", table([["<b>GROUP</b>", "Alpha"], ["Beta", "gamma"]]), "s#7"),
        ("table", table([["Group", "Alpha"], ["Gamma", "Beta"]]), None), ("table", table([["a", "b"]]), None),
        ("table", "no table at all", None), ("text", "E=mc^2", None), ("text", "-!", None),
    ],
)  # fmt: skip
def test_short_items_go_only_where_all_is_the_same(task, target: str, item: str | None) -> None:
    index = BenchmarkIndex([Benchmark(Path("b"), SHORT, (), "")], DecontaminationConfig())
    assert removals(index, task, target) == ({task: item} if item else {})


def test_how_long_an_identical_target_must_be_can_be_set() -> None:
    config = DecontaminationConfig(min_exact_words=3, min_exact_symbols=3)
    index = BenchmarkIndex([Benchmark(Path("b"), SHORT, (), "")], config)
    assert removals(index, "text", "Results and discussion") == {"text": "s#1"}
    assert removals(index, "formula", "$x = 1$") == {"formula": "s#6"}
    strict = DecontaminationConfig(min_exact_words=100, min_exact_symbols=100)
    assert removals(BenchmarkIndex([Benchmark(Path("b"), SHORT, (), "")], strict), "text", SHORT[0].text) == {}


def test_items_that_are_never_or_only_wholly_compared_are_counted() -> None:
    index = BenchmarkIndex([Benchmark(Path("b"), SHORT, (), "")], DecontaminationConfig())
    told = {task: (n.n_items, n.n_short, n.n_trivial, n.n_unusable) for task, n in index.coverage.items()}
    assert told == {"text": (5, 3, 1, 1), "table": (3, 2, 1, 1), "formula": (2, 2, 1, 0)}
    assert index.coverage["text"].least == "11 words" and index.is_useful
    junk = Benchmark(Path("b"), (SHORT[3], SHORT[8], SHORT[6]), (), "")
    assert not BenchmarkIndex([junk], DecontaminationConfig()).is_useful
    assert BenchmarkIndex([Benchmark(Path("b"), (SHORT[3],), DOC_IDS, "")], DecontaminationConfig()).is_useful


def test_a_table_that_comes_as_html_and_latex_is_one(index: BenchmarkIndex) -> None:
    html = table([["Group", "Alpha"], ["Beta", "Gamma"]])
    items = (BenchmarkItem("t", "table", html), BenchmarkItem("t", "table", r"\begin{tabular}a & b\end{tabular}"))
    coverage = BenchmarkIndex([Benchmark(Path("b"), items, (), "")], DecontaminationConfig()).coverage["table"]
    assert (coverage.n_items, coverage.n_short, coverage.n_unusable) == (1, 1, 0)
    assert index.coverage["table"].n_short == 1  # of two, one of which has many cells


def test_names_that_are_no_ones_alone() -> None:
    assert document_keys("00012345.png", 8) == frozenset() and document_keys("page_12.png", 8) == frozenset()
    assert document_keys("a" * 64, 8) and document_keys("AAL_2004_page_12.pdf", 8) == {"aal_2004_page_12", "aal_2004"}


def test_a_match_tells_what_is_common_and_how_much(index: BenchmarkIndex) -> None:
    (match,) = index.matches("", "text", f"{prose(1, 60)} {prose(3, 40)}")
    assert match.share == 1.0 and match.n_common > 30
    assert match.example in prose(1).lower()


def test_near_misses_are_told_and_stay(index: BenchmarkIndex) -> None:
    text = " ".join(prose(1).split()[:30] + prose(3, 52).split())
    (match,) = index.matches("", "text", text)
    assert not match.is_removal and 0.3 <= match.share < 0.5 and match.item == "p1#0"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(20, 120), st.integers(0, 40), st.integers(0, 40), st.booleans())
def test_a_copy_within_other_text_always_goes(seed: int, n: int, before: int, after: int, upper: bool) -> None:
    item = prose(seed, n)
    index = BenchmarkIndex(
        [Benchmark(Path("b"), (BenchmarkItem("it", "text", item),), (), "")], DecontaminationConfig()
    )
    text = f"{prose(seed + 1, before)} {hyphenated(item)} {prose(seed + 2, after)}"
    if sum(map(len, words(seed, n)[:8])) >= 24:
        assert removals(index, "text", text.upper() if upper else text) == {"text": "it"}


# Files ---------------------------------------------------------------------------------------------


def region(number: int, target: str, task="text", doc_id: str = "", **changes) -> LabelledRegion:
    values = {
        "region_id": f"src/{number}", "image": bytes([number % 256]) * 50, "width_px": 4, "height_px": 4, "task": task,
        "target": target, "source": "even" if number % 2 == 0 else "odd", "doc_id": doc_id or f"doc{number}",
    }  # fmt: skip
    return LabelledRegion(**{**values, **changes})


def write_pool(folder: Path) -> None:
    planted = [
        region(0, prose(1)), region(1, table(cells(2)), "table"), region(2, FORMULA, "formula"),
        region(3, "", target_origin="pending", doc_id="PMC3576793"), region(4, "", target_origin="pending"),
        region(5, " ".join(prose(1).split()[:30] + prose(3, 52).split())),
    ]  # fmt: skip
    write_regions(folder / "train" / "0.regions.parquet", [*planted, *(region(n, prose(n)) for n in range(6, 300))])
    write_regions(folder / "train" / "1.regions.parquet", [region(n, prose(n)) for n in range(300, 320)])
    (folder / "pool.json").write_text('{"seed": 3}', encoding="utf-8")


def write_benchmark(folder: Path) -> Path:
    file = folder / "bench.jsonl"
    lines = [{"id": item.id, "task": item.task, "text": item.text} for item in ITEMS]
    lines[0]["doc_id"] = "PMC3576793_00004.jpg"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return file


def run(*args: object):
    app = typer.Typer()
    app.command("decontaminate")(command)
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_the_command_removes_tells_and_keeps(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool")
    file = write_benchmark(tmp_path)
    done = run(tmp_path / "pool", "--benchmark", file, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert "2 of 4 texts are shorter than the 11 words compared: only identical ones are removed" in done.stderr
    report = json.loads(done.stdout)
    assert [(row["region_id"], row["criterion"]) for row in report["removed"]] == [
        ("src/0", "text"), ("src/1", "table"), ("src/2", "formula"), ("src/3", "document"),
    ]  # fmt: skip
    assert all(row["example"] and row["benchmark_item"] and row["share"] > 0.5 for row in report["removed"])
    assert report["by_criterion"] == {"document": 1, "text": 1, "table": 1, "formula": 1}
    assert report["by_source"] == {
        "even": {"n_regions": 160, "n_removed": 2},
        "odd": {"n_regions": 160, "n_removed": 2},
    }
    assert [row["region_id"] for row in report["near_misses"]] == ["src/5"] and report["n_unread"] == 2
    before, after = ([*RegionFile(tmp_path / one / "train/0.regions.parquet")] for one in ("pool", "out"))
    assert after == before[4:]
    copy, source = (tmp_path / one / "train/1.regions.parquet" for one in ("out", "pool"))
    assert copy.read_bytes() == source.read_bytes()
    pool = json.loads((tmp_path / "out/pool.json").read_text())
    assert pool["seed"] == 3 and pool["decontamination"]["n_removed"] == 4

    again = json.loads(run(tmp_path / "pool", "--benchmark", file, "--out", tmp_path / "out", "--json").stdout)
    assert [shard["status"] for shard in again["shards"]] == ["kept", "kept"]
    assert all(again[key] == report[key] for key in report if key != "shards")
    shown = run(tmp_path / "pool", "--benchmark", file, "--out", tmp_path / "out")
    assert "4 of 320 regions removed" in shown.stdout and "src/5" in shown.stdout


def test_the_command_tells_of_what_it_cannot_compare(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool")
    file = tmp_path / "junk.jsonl"
    file.write_text(json.dumps({"id": 1, "task": "table", "text": "none"}), encoding="utf-8")
    done = run(tmp_path / "pool", "--benchmark", file, "--out", tmp_path / "out")
    assert isinstance(done.exception, InputError) and "nothing can be compared" in str(done.exception)
    assert "1 of 1 tables are not usable" in done.stderr and not (tmp_path / "out").exists()


def test_an_out_that_cannot_be_written_is_wrong_usage(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool")
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        done = run(tmp_path / "pool", "--benchmark", write_benchmark(tmp_path), "--out", out)
        assert isinstance(done.exception, ConfigError) and f"--out {out} cannot be written" in str(done.exception)


def statuses(folder: Path, out: Path, index: BenchmarkIndex) -> list[str]:
    return [report.status for report in decontaminate(folder, out, index)]


def test_shards_are_made_again_where_anything_changed(tmp_path: Path, index: BenchmarkIndex) -> None:
    write_pool(tmp_path / "pool")
    pool, out = tmp_path / "pool", tmp_path / "out"
    assert statuses(pool, out, index) == ["written", "written"]
    (out / "train/1.decontamination.json").write_text('{"finger')
    assert statuses(pool, out, index) == ["kept", "written"]
    (out / "train/0.regions.parquet").unlink()
    assert statuses(pool, out, index) == ["written", "kept"]
    write_regions(pool / "train/1.regions.parquet", [region(1, prose(1))])
    assert statuses(pool, out, index) == ["kept", "written"] and len(RegionFile(out / "train/1.regions.parquet")) == 0
    assert statuses(pool, out, BenchmarkIndex([BENCHMARK], DecontaminationConfig(text_share=0.4))) == ["written"] * 2
    assert not [*out.rglob("*.part")]


def test_processes_change_nothing(tmp_path: Path, index: BenchmarkIndex) -> None:
    write_pool(tmp_path / "pool")
    one, two = ([*decontaminate(tmp_path / "pool", tmp_path / f"out{n}", index, n)] for n in (1, 2))
    assert one == two
    for file in (tmp_path / "out1").rglob("*.parquet"):
        assert file.read_bytes() == (tmp_path / "out2" / file.relative_to(tmp_path / "out1")).read_bytes()


def test_a_broken_shard_fails_alone(tmp_path: Path, index: BenchmarkIndex) -> None:
    write_pool(tmp_path / "pool")
    (tmp_path / "pool/train/0.regions.parquet").write_bytes(b"nothing")
    reports = [*decontaminate(tmp_path / "pool", tmp_path / "out", index)]
    assert [report.status for report in reports] == ["failed", "written"] and "no region file" in reports[0].reason
    told = summary(reports, [BENCHMARK], index)
    assert told["n_shards_failed"] == 1 and told["n_regions"] == 20
    done = run(tmp_path / "pool", "--benchmark", write_benchmark(tmp_path), "--out", tmp_path / "out2")
    assert done.exit_code == 1 and len([*(tmp_path / "out2").rglob("*.regions.parquet")]) == 1


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("b.txt", "", "neither .json nor .jsonl"), ("b.json", "{}", "list of pages"), ("b.jsonl", "", "empty"),
        ("b.jsonl", '{"id": 1, "task": "song", "text": "a"}', "'song'.*text, table, formula"),
        ("b.jsonl", '{"id": 1, "task": "text"}', "no 'text'"), ("b.jsonl", "[1]", "a list"),
        ("b.jsonl", '{"id": 1, "task": "text", "text": "a"}\n{"id": 1, "task": "text", "text": "b"}', "line 2"),
    ],
)  # fmt: skip
def test_benchmarks_that_are_none(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=told):
        read_benchmark(tmp_path / name)


def test_omnidocbench_annotations(tmp_path: Path) -> None:
    blocks = [
        {"category_type": "text_block", "text": "a text", "anno_id": 7, "order": 1, "ignore": True},
        {"category_type": "table", "html": "<table></table>", "latex": "tab", "order": 2},
        {"category_type": "equation_isolated", "latex": "x", "order": 3},
        {"category_type": "figure", "order": 4},
    ]
    page = {"page_info": {"image_path": "images/PMC123456_1.jpg"}, "layout_dets": blocks, "extra": {}}
    (tmp_path / "gt.json").write_text(json.dumps([page]), encoding="utf-8")
    benchmark = read_benchmark(tmp_path / "gt.json")
    assert [(item.id, item.task, item.text) for item in benchmark.items] == [
        ("PMC123456_1.jpg#7", "text", "a text"), ("PMC123456_1.jpg#1", "table", "<table></table>"),
        ("PMC123456_1.jpg#1", "table", "tab"), ("PMC123456_1.jpg#2", "formula", "x"),
    ]  # fmt: skip
    assert benchmark.doc_ids == ("PMC123456_1.jpg",)


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool")
    options = (tmp_path / "pool", "--benchmark", write_benchmark(tmp_path), "--out", tmp_path / "out")
    for wrong in ("text_share=2", "shingles.words=0", "text_shares=1"):
        assert isinstance(run(*options, "--set", wrong).exception, ConfigError)
    assert isinstance(run(*options[:3], "--out", tmp_path / "pool" / "out").exception, ConfigError)
    loose = run(*options, "--set", "text_share=0.3", "--json")
    assert "src/5" in [row["region_id"] for row in json.loads(loose.stdout)["removed"]]
