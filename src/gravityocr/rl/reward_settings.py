"""The constants of the rewards: what section 5 gives, and what it leaves to us."""

from __future__ import annotations

from dataclasses import dataclass

from gravityocr.config import check_numbers


@dataclass(frozen=True)
class RewardSettings:
    """The numbers in the rewards; the defaults are the paper's, those marked *ours* the product's.

    Tables: `structure_weight` and `cell_weight` weigh TEDS-struct and the cell texts; a wrong row count costs at most
    `most_row_penalty`, relative to at least `least_rows` rows; repeated rows beyond `free_repeats` cost `loop_base` and
    `loop_slope` times their share; equal counts of rows and columns give `row_bonus` and `column_bonus` of what is
    missing; what cannot be parsed earns `unparsable_weight` times plain likeness. *Ours*: markup that the normal form
    swallows is free up to the reference's, `free_hidden_share` times its length and `free_hidden` characters.
    Formulas: `fault_factor` for each format check that fails. Guard: `n_gram`-grams count from `least_tokens` tokens
    on, and a run of one character from `free_run` on.

    *Source*: section 5.
    """

    structure_weight: float = 0.45
    cell_weight: float = 0.55
    least_rows: int = 4
    most_row_penalty: float = 0.35
    free_repeats: int = 3
    loop_base: float = 0.30
    loop_slope: float = 0.70
    row_bonus: float = 0.05
    column_bonus: float = 0.05
    unparsable_weight: float = 0.15
    free_hidden_share: float = 2.0
    free_hidden: int = 256
    fault_factor: float = 0.3
    n_gram: int = 8
    least_tokens: int = 16
    free_run: int = 16

    def __post_init__(self) -> None:
        share = (0.0, 1.0)
        check_numbers(
            self, "rewards.", structure_weight=share, cell_weight=share, least_rows=(1, 10**6), most_row_penalty=share,
            free_repeats=(0, 10**6), loop_base=share, loop_slope=share, row_bonus=share, column_bonus=share,
            unparsable_weight=share, free_hidden_share=(0.0, 1e6), free_hidden=(0, 10**9), fault_factor=share,
            n_gram=(1, 1000), least_tokens=(1, 10**6), free_run=(1, 10**6),
        )  # fmt: skip


PAPER = RewardSettings()

EDIT_BUDGET = 10**10
"""Products of two lengths up to which rewards compare texts exactly: 100,000 characters each, a third of a second."""
MOST_MARKUP = 200_000
"""The longest markup, in characters, that the reward of a table reads."""
