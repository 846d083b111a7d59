"""Index the documents and items of benchmarks, and find what of them occurs in a region.

Four criteria: the document (by its id), stretches of text, cells of a table, the string of a formula. Targets that are
too short for these are compared as a whole.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gravityocr.config import check_numbers, dump_config
from gravityocr.document import Task
from gravityocr.training.corpora.benchmark_items import Benchmark, BenchmarkItem, document_keys
from gravityocr.training.corpora.region_shards import TASKS
from gravityocr.training.corpora.shingles import (
    Common,
    Features,
    HashIndex,
    ShingleConfig,
    WholeForm,
    formula_features,
    table_features,
    text_features,
    whole_formula,
    whole_table,
    whole_text,
)

Criterion = Literal["document", "text", "table", "formula"]

_FORMAT = 2  # of the shards' reports, and of what a match is
_CRITERIA: Mapping[Task, tuple[Criterion, ...]] = {
    "text": ("text",), "table": ("table", "text"), "formula": ("formula",),
}  # fmt: skip
_FEATURES: dict[Criterion, Callable[[str, ShingleConfig], Features]] = {
    "text": text_features,
    "table": table_features,
    "formula": formula_features,
}
_WHOLE: dict[Task, Callable[[str], WholeForm]] = {"text": whole_text, "table": whole_table, "formula": whole_formula}


@dataclass(frozen=True)
class DecontaminationConfig:
    """How much has to be common for a region to go.

    A share of text and of cells is that of the region or that of the benchmark's item, whichever is larger: a part of
    an item goes as does a region that holds one. Of formulas it is the smaller of both, as parts of formulas are
    everyone's. `min_*` is how many shingles or cells must be common at all; with a share of `near_share` of the
    threshold a region stays and is reported. A region that is the same as an item from end to end goes where that is
    `min_exact_words` words, or `min_exact_symbols` symbols of a formula or of a script without blanks.
    """

    text_share: float = 0.5
    table_share: float = 0.6
    formula_share: float = 0.95
    min_text_shingles: int = 4
    min_cells: int = 5
    min_formula_shingles: int = 7
    min_exact_words: int = 4
    min_exact_symbols: int = 6
    min_doc_id_characters: int = 8
    near_share: float = 0.6
    shingles: ShingleConfig = field(default_factory=ShingleConfig)

    def __post_init__(self) -> None:
        check_numbers(
            self, "", text_share=(0.01, 1.0), table_share=(0.01, 1.0), formula_share=(0.01, 1.0),
            min_text_shingles=(1, 10**6), min_cells=(1, 10**6), min_formula_shingles=(1, 10**6),
            min_exact_words=(1, 10**6), min_exact_symbols=(1, 10**6), min_doc_id_characters=(1, 1000),
            near_share=(0.0, 1.0),
        )  # fmt: skip

    def limits(self, criterion: Criterion) -> tuple[float, int]:
        """Return the share and the number of common hashes from which on a region goes."""
        if criterion == "text":
            return self.text_share, self.min_text_shingles
        if criterion == "table":
            return self.table_share, self.min_cells
        return self.formula_share, self.min_formula_shingles

    def is_telling(self, form: WholeForm) -> bool:
        """Tell whether two targets of this form are hardly the same by chance."""
        return form.n_words >= self.min_exact_words or form.n_symbols >= self.min_exact_symbols


@dataclass(frozen=True)
class Match:
    """What a region has in common with a benchmark: the item that has most of it, and one of the common things."""

    criterion: Criterion
    item: str
    share: float
    n_common: int
    example: str
    is_removal: bool


@dataclass(frozen=True)
class Coverage:
    """How the items of a task can be compared: in part, or, `n_short` of them, only as a whole.

    Of the short ones `n_trivial` are too short even for that (`Table 1`); `n_unusable` others hold nothing that can be
    read, such as a table without cells. `least` is the length from which on parts are compared.
    """

    n_items: int = 0
    n_short: int = 0
    n_trivial: int = 0
    n_unusable: int = 0
    least: str = ""


class BenchmarkIndex:
    """All documents and items of some benchmarks, as hashes."""

    def __init__(self, benchmarks: Sequence[Benchmark], config: DecontaminationConfig) -> None:
        """Index benchmarks that `read_benchmark` read; their texts are not kept."""
        self.config = config
        several = len(benchmarks) > 1
        named = [
            (f"{benchmark.file.name}: {item.id}" if several else item.id, item)
            for benchmark in benchmarks
            for item in benchmark.items
        ]
        self.n_items = len(named)
        self._names: dict[Criterion, list[str]] = {}
        self._indexes: dict[Criterion, HashIndex] = {}
        for criterion, features in _FEATURES.items():
            tasks = [task for task, criteria in _CRITERIA.items() if criterion in criteria]
            items: list[tuple[str, BenchmarkItem]] = [(name, item) for name, item in named if item.task in tasks]
            self._names[criterion] = [name for name, _ in items]
            self._indexes[criterion] = HashIndex([features(item.text, config.shingles).hashes for _, item in items])
        forms = [_WHOLE[item.task](item.text) for _, item in named]
        self._whole: dict[tuple[Task, int], str] = {
            (item.task, _key(form)): name
            for (name, item), form in zip(named, forms, strict=True)
            if form.text and config.is_telling(form)
        }
        self.coverage = self._covered(named, forms)
        self._documents = {
            key: doc_id
            for benchmark in benchmarks
            for doc_id in benchmark.doc_ids
            for key in document_keys(doc_id, config.min_doc_id_characters)
        }
        content = "\n".join([f"{_FORMAT}", dump_config(config), *(benchmark.sha256 for benchmark in benchmarks)])
        self.fingerprint = hashlib.sha256(content.encode()).hexdigest()

    @property
    def is_useful(self) -> bool:
        """Tell whether anything can be found with it: a document, or an item that is neither trivial nor unusable."""
        compared = sum(one.n_items - one.n_trivial - one.n_unusable for one in self.coverage.values())
        return bool(self._documents) or compared > 0

    def matches(self, doc_id: str, task: Task, target: str) -> Iterator[Match]:
        """Yield what a region has in common with the benchmarks, near misses included."""
        for key in document_keys(doc_id, self.config.min_doc_id_characters):
            if key in self._documents:
                yield Match("document", self._documents[key], 1.0, 1, key, True)
                break
        if target:
            is_short = True
            for criterion in _CRITERIA[task]:
                features = _FEATURES[criterion](target, self.config.shingles)
                is_short &= len(features.hashes) < self.config.limits(criterion)[1]
                common = self._indexes[criterion].common(features)
                if len(common.places):
                    match = self._match(criterion, features, common)
                    yield from () if match is None else (match,)
            same = self._same(task, target) if is_short else None  # a copy of a short item is as short
            yield from () if same is None else (same,)

    def _same(self, task: Task, target: str) -> Match | None:
        """Return the match with an item that is the same as a target from end to end."""
        form = _WHOLE[task](target)
        item = self._whole.get((task, _key(form))) if form.text and self.config.is_telling(form) else None
        return None if item is None else Match(task, item, 1.0, form.n_words + form.n_symbols, form.text, True)

    def _covered(self, named: Sequence[tuple[str, BenchmarkItem]], forms: Sequence[WholeForm]) -> dict[Task, Coverage]:
        """Count the items by how they can be compared; of an item in two forms (HTML and LaTeX) the better one."""
        sizes = {criterion: iter(index.sizes.tolist()) for criterion, index in self._indexes.items()}
        ranks: dict[tuple[Task, str], int] = {}
        for (name, item), form in zip(named, forms, strict=True):
            counts = [(next(sizes[one]), self.config.limits(one)[1]) for one in _CRITERIA[item.task]]
            rank = 3 if any(n >= least for n, least in counts) else self._rank(form)
            ranks[item.task, name] = max(rank, ranks.get((item.task, name), 0))
        shingles = self.config.shingles
        least = {
            "text": f"{shingles.words + self.config.min_text_shingles - 1} words",
            "table": f"{self.config.min_cells} telling cells",
            "formula": f"{shingles.formula_tokens + self.config.min_formula_shingles - 1} symbols",
        }
        found = {task: Counter(rank for (of, _), rank in ranks.items() if of == task) for task in TASKS}
        return {task: Coverage(n.total(), n[1] + n[2], n[1], n[0], least[task]) for task, n in found.items() if n}

    def _rank(self, form: WholeForm) -> int:
        return 0 if not form.text else 2 if self.config.is_telling(form) else 1

    def _match(self, criterion: Criterion, features: Features, common: Common) -> Match | None:
        n_own = len(features.hashes)
        of_item, of_region = common.counts / self._indexes[criterion].sizes[common.items], common.counts / n_own
        shares = np.minimum(of_item, of_region) if criterion == "formula" else np.maximum(of_item, of_region)
        best = int(np.lexsort((common.counts, shares))[-1])
        share, n_common = float(shares[best]), int(common.counts[best])
        if criterion == "text" and len(common.places) / n_own > share:  # paragraphs of several items in one region
            share, n_common = len(common.places) / n_own, len(common.places)
        threshold, least = self.config.limits(criterion)
        if n_common < least or share < self.config.near_share * threshold:
            return None
        example = features.spell(int(common.places[0]))
        return Match(
            criterion, self._names[criterion][common.items[best]], share, n_common, example, share >= threshold
        )


def _key(form: WholeForm) -> int:
    text = form.text.encode("utf-8", errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
