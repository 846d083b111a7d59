"""How fast our scorers are beside the official way of computing the same scores, on the same pairs, in one run.

    python -m benchmarks.scorers --golden DIR --json

TEDS: ours against the pure-Python oracle, which builds the trees as the official scorers do and hands them to `apted`
with a Levenshtein cost of the cell texts. `--cdm` adds CDM (see `benchmarks/scorers_cdm.py`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apted import APTED, Config
from lxml import html
from rapidfuzz.distance import Levenshtein

from gravityocr.benchmark.protocol import machine
from gravityocr.metrics.teds import score_teds

BOUNDARY = (
    "one process, pairs one after another, TEDS and TEDS-struct of each; ours goes from the raw HTML, normalisation"
    " included, the oracle from HTML that is normalised already; imports and"
    " loading the compiled code (`first_s`) are outside"
)


class OracleNode:
    """A node as apted wants it; the content of a cell is a list of characters and tags."""

    def __init__(self, element: Any, with_content: bool) -> None:
        self.name = element.tag
        self.spans: tuple[int, ...] = ()
        self.content: list[str] = []
        self.children: list[OracleNode] = []
        if element.tag == "td":
            self.spans = tuple(int(element.get(name, "1")) for name in ("colspan", "rowspan"))
            self.content = cell_tokens(element)[1:-1] if with_content else []
        else:
            self.children = [OracleNode(child, with_content) for child in element]


def cell_tokens(element: Any) -> list[str]:
    """List the characters and tags of an element, its own tags first and last."""
    tokens = [f"<{element.tag}>", *(element.text or "")]
    for child in element:
        tokens += cell_tokens(child)
        if child.tag != "td":
            tokens += child.tail or ""
    return tokens if element.tag == "unk" else [*tokens, f"</{element.tag}>"]


class OracleCosts(Config):
    """The costs of TEDS."""

    def rename(self, node1: OracleNode, node2: OracleNode) -> float:
        """Return 1 for another tag or span, else how far the contents are apart."""
        if (node1.name, node1.spans) != (node2.name, node2.spans):
            return 1.0
        longer = max(len(node1.content), len(node2.content))
        return Levenshtein.distance(node1.content, node2.content) / longer if longer else 0.0


def oracle_teds(pred: str, ref: str, with_content: bool = True) -> float:
    """Score two tables in normal form by apted; 0 where a side is no table or a span is no number."""
    tables = []
    for markup in (pred, ref):
        found = html.fromstring(markup).xpath("body/table") if markup else []
        if not found:
            return 0.0
        tables.append(found[0])
    try:
        trees = [OracleNode(table, with_content) for table in tables]
    except ValueError:
        return 0.0
    n_nodes = max(len(table.xpath(".//*")) for table in tables)
    return 1.0 - float(APTED(trees[0], trees[1], OracleCosts()).compute_edit_distance()) / n_nodes


def measure_teds(rows: Sequence[dict[str, Any]], repeats: int) -> dict[str, Any]:
    """Time both ways on every pair; say how far their scores are apart."""

    def ours(row: dict[str, Any]) -> tuple[float, float]:
        score = score_teds(row["pred_html"], row["gt_html"], compat=True)
        return score.teds, score.teds_struct

    def oracle(row: dict[str, Any]) -> tuple[float, float]:
        return tuple(oracle_teds(row["norm_pred"], row["norm_gt"], content) for content in (True, False))

    ways: dict[str, Callable[[dict[str, Any]], tuple[float, float]]] = {"ours": ours, "oracle": oracle}
    seconds: dict[str, list[list[float]]] = {name: [[] for _ in rows] for name in ways}
    scores: dict[str, list[tuple[float, float]]] = {}
    start_first = time.perf_counter()
    score_teds("<table><tr><td>a</td></tr></table>", "<table><tr><td>b</td></tr></table>")
    first_s = time.perf_counter() - start_first
    for _ in range(repeats):
        for name, way in ways.items():
            scores[name] = []
            for times, row in zip(seconds[name], rows, strict=True):
                start = time.perf_counter()
                scores[name].append(way(row))
                times.append(time.perf_counter() - start)
    medians = {name: [statistics.median(times) for times in seconds[name]] for name in ways}
    flat = [[value for pair in scores[name] for value in pair] for name in ways]
    return {
        "n_pairs": len(rows),
        "repeats": repeats,
        "ours_s_per_pair": sum(medians["ours"]) / len(rows),
        "oracle_s_per_pair": sum(medians["oracle"]) / len(rows),
        "ours_slowest_s": max(medians["ours"]),
        "oracle_slowest_s": max(medians["oracle"]),
        "first_s": first_s,
        "ratio": sum(medians["oracle"]) / sum(medians["ours"]),
        "max_abs_diff": max(abs(a - b) for a, b in zip(*flat, strict=True)),
        "boundary": BOUNDARY,
    }


def measure_cdm_of(folder: Path, repeats: int) -> dict[str, Any]:
    """Time CDM on the golden formulas."""
    from benchmarks.scorers_cdm import measure_cdm

    rows = json.loads((folder / "golden_cdm_handed.json").read_text(encoding="utf-8"))[:40]
    return measure_cdm([(row["stripped_pred"], row["stripped_gt"]) for row in rows], repeats=repeats)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", type=Path, required=True, help="folder of the golden files")
    parser.add_argument("--repeats", type=int, default=3, help="times that every pair is scored; the median counts")
    parser.add_argument("--cdm", action="store_true", help="time CDM as well (needs TeX)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    rows = json.loads((args.golden / "golden_teds_handed.json").read_text(encoding="utf-8"))
    report: dict[str, Any] = {"teds": measure_teds(rows, args.repeats), "machine": machine()}
    if args.cdm:
        report["cdm"] = measure_cdm_of(args.golden, args.repeats)
    if args.json:
        print(json.dumps(report))
    else:
        teds = report["teds"]
        print(f"TEDS: {teds['ratio']:.0f} times the oracle on {teds['n_pairs']} pairs ({teds['boundary']})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
