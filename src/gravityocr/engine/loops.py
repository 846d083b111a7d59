"""What is left of a text that ended in a loop."""

from __future__ import annotations

LEAST_REPEATS, LEAST_LENGTH = 3, 8


def without_repeated_tail(text: str) -> str:
    """Return a text that was cut in a loop with one round of it left; as it is where its end does not repeat.

    The loop is the shortest unit whose repeats cover most of the end; the last round may be incomplete.
    """
    best_unit, best_covered = 0, 0
    for unit in range(1, len(text) // LEAST_REPEATS + 1):
        covered = unit
        while covered < len(text) and text[-covered - 1] == text[-covered - 1 + unit]:
            covered += 1
        if covered >= max(LEAST_REPEATS * unit, LEAST_LENGTH) and covered > best_covered:
            best_unit, best_covered = unit, covered
    return text[: len(text) - best_covered + best_unit] if best_unit else text
