"""The guard against loops that multiplies every reward: `min(g8, g_run)`.

`g8 = min(1, rho8(pred) / rho8(ref))` and `g_run = min(1, max(16, run(ref)) / run(pred))`: `rho8` is the share of
distinct 8-grams of whitespace tokens (1 below 16 tokens), `run` the length of the longest run of one character. What
the reference repeats is never punished; every 0/0 is 1.

*Source*: section 5; the two quotients are ours.
"""

from __future__ import annotations

import re

from gravityocr.rl.reward_settings import PAPER, RewardSettings

# White space and what prints nothing: controls, soft hyphen, joiners, fillers, blank Braille, variation selectors.
_INVISIBLE = re.compile(
    "[\\s\\x00-\\x1f\\x7f-\\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_RUN = re.compile(r"(.)\1+", re.DOTALL)


def guard(pred: str, ref: str, shown: tuple[str, str] | None = None, settings: RewardSettings = PAPER) -> float:
    """Return the factor from 0 to 1 by which repetition lowers a reward.

    In a run, any white space and any character that prints nothing counts as the same character. `shown` is what runs
    are looked for in, where that differs from what tokens are: prediction and reference.

    >>> guard("a" * 32, "abc"), guard("a" * 32, "a" * 40), guard("", "")
    (0.5, 1.0, 1.0)
    """
    g8 = min(1.0, distinct_share(pred, settings) / distinct_share(ref, settings))
    n_pred, n_ref = (longest_run(text, settings) for text in shown or (pred, ref))
    return min(g8, n_ref / n_pred)


def distinct_share(text: str, settings: RewardSettings = PAPER) -> float:
    """Return the share of distinct 8-grams of whitespace tokens (rho8); 1 below 16 tokens.

    >>> distinct_share("a " * 16)
    0.1111111111111111
    """
    tokens = text.split()
    if len(tokens) < max(settings.least_tokens, settings.n_gram):
        return 1.0
    grams = list(zip(*(tokens[start:] for start in range(settings.n_gram)), strict=False))
    return len({*grams}) / len(grams)


def longest_run(text: str, settings: RewardSettings = PAPER) -> int:
    """Return the length of the longest run of one character; `free_run` stands for every shorter one.

    >>> longest_run("x" + 40 * "-"), longest_run("abc")
    (40, 16)
    """
    shown = _INVISIBLE.sub(" ", text)
    return max([settings.free_run, *(len(found[0]) for found in _RUN.finditer(shown))])
