"""What the axes are called where people read them, what they mean, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AxisName:
    """A title, a meaning, and a direction; `top` is the largest value."""

    title: str
    meaning: str
    higher_is_better: bool = True
    top: float = 1.0

    @property
    def arrow(self) -> str:
        """Return the title with an arrow: up where higher is better."""
        return f"{self.title}\u00a0{'↑' if self.higher_is_better else '↓'}"


AXIS_NAMES: dict[str, AxisName] = {
    "overall": AxisName("Overall", "mean of text (1 - distance), formulas and tables, in percent", True, 100.0),
    "text_edit": AxisName("Text distance", "edits over the longer text, mean of pages; 0 is perfect", False),
    "ned": AxisName("Edit distance", "edits over the longer text, both normalised; 0 is perfect", False),
    "cdm": AxisName("Formulas, CDM", "characters that TeX draws in the right place, F1"),
    "recall": AxisName("CDM recall", "characters of the reference found, by the official matching"),
    "precision": AxisName("CDM precision", "characters of the prediction that belong, by the official matching"),
    "teds": AxisName("Tables, TEDS", "likeness of the tables as trees, contents included"),
    "teds_struct": AxisName("Structure, TEDS-S", "likeness of the tables' rows, cells and spans alone"),
    "order_edit": AxisName("Reading order distance", "edits between the orders of the blocks; 0 is perfect", False),
}


def axis_name(axis: str) -> AxisName:
    """Return how an axis is called; one that is not known goes by its own name."""
    return AXIS_NAMES.get(axis, AxisName(axis, ""))
