"""What counts as common: text over any writing, cells that tell, formulas."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.training.corpora.shingles import (
    HashIndex,
    ShingleConfig,
    formula_features,
    table_features,
    text_features,
)

CONFIG = ShingleConfig()
TEXT = "The quick brown foxes are jumping over thirteen lazy dogs while nobody watches them from the window"


def hashes(text: str, config: ShingleConfig = CONFIG) -> list[int]:
    return text_features(text, config).hashes.tolist()


def test_case_space_hyphens_punctuation_and_markup_do_not_matter() -> None:
    others = [
        TEXT.upper(), TEXT.replace(" ", "\n "), TEXT.replace("jumping", "jump-\ning"),
        TEXT.replace("lazy", "**lazy**,"), TEXT.replace("foxes", "<b>foxes</b>"), TEXT.replace("them", "th\u00adem"),
        TEXT.replace("nobody", r"\textbf{nobody}"), TEXT.replace("foxes", "fox\uff45s"),
    ]  # fmt: skip
    assert len(hashes(TEXT)) == len(TEXT.split()) - CONFIG.words + 1
    assert all(hashes(other) == hashes(TEXT) for other in others)
    assert not set(hashes(TEXT)) & set(hashes(" ".join(reversed(TEXT.split()))))


def test_scripts_without_blanks_are_compared_by_character() -> None:
    text = "机器学习是人工智能的一个重要分支它研究如何使用数据改进性能"
    features = text_features(text, CONFIG)
    assert len(features.hashes) == len(text) - CONFIG.characters + 1
    assert hashes("机器学习,是人工智能的\n一个重要分支。它研究 如何使用数据改进性能") == hashes(text)
    assert all(features.spell(place) in text for place in range(len(features.hashes)))
    mixed = text_features(f"{text} {TEXT}", CONFIG)
    assert len(mixed.hashes) == len(features.hashes) + len(hashes(TEXT))


def test_short_and_empty_shingles_do_not_count() -> None:
    assert hashes("Table 1. Results of the experiment") == []
    assert hashes(" ".join(map(str, range(60)))) == []
    assert hashes("x i j k n m p q r s t u v w") == [] and hashes("") == []


def test_a_shingle_is_spelled_out() -> None:
    features = text_features(TEXT, CONFIG)
    words = TEXT.lower().split()
    spelled = {features.spell(place) for place in range(len(features.hashes))}
    assert spelled == {" ".join(words[start : start + 8]) for start in range(len(words) - 7)}


def test_only_telling_cells_count() -> None:
    def spelled(*cells: str) -> list[str]:
        features = table_features(
            "<table><tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr></table>", CONFIG
        )
        return sorted(features.spell(place) for place in range(len(features.hashes)))

    assert spelled("0", "12.5", "2021", "0.05", "100%", "—", "Yes", "", "<b>1</b>", "0.001", "(0.12)") == []
    assert spelled("1,234.5", "12.345", "Accuracy", "accu racy", "98765") == ["12.345", "1234.5", "98765", "accuracy"]
    assert spelled("$\\alpha$-decay") == spelled("α-decay")


def test_formula_shingles() -> None:
    features = formula_features(r"\frac{a}{b} = c_{1}^{2}", CONFIG)
    assert len(features.hashes) == 9 - CONFIG.formula_tokens + 1  # \frac a b = c _ 1 ^ 2
    assert r"\frac a b = c _" in {features.spell(place) for place in range(len(features.hashes))}
    assert len(formula_features("x=1", CONFIG).hashes) == 0


@given(st.lists(st.sets(st.integers(0, 40), max_size=12), max_size=8), st.sets(st.integers(0, 40), max_size=12))
def test_the_index_counts_as_sets_do(items: list[set[int]], asked: set[int]) -> None:
    def as_hashes(numbers: set[int]) -> np.ndarray:
        return np.array(sorted(numbers), dtype=np.uint64)

    index = HashIndex([as_hashes(item) for item in items])
    features = type(text_features("", CONFIG))(as_hashes(asked), str)
    common = index.common(features)
    assert {sorted(asked)[place] for place in common.places} == asked & set().union(*items)
    counts = dict(zip(common.items.tolist(), common.counts.tolist(), strict=True))
    assert counts == {number: len(item & asked) for number, item in enumerate(items) if item & asked}
    assert index.sizes.tolist() == [len(item) for item in items]


@given(st.text(max_size=200))
def test_any_text_has_distinct_features_that_can_be_spelled(text: str) -> None:
    config = ShingleConfig(words=2, characters=2, formula_tokens=2, min_characters=0)
    for features in (text_features(text, config), table_features(text, config), formula_features(text, config)):
        assert len(np.unique(features.hashes)) == len(features.hashes)
        assert all(features.spell(place) for place in range(len(features.hashes)))
