"""Predictions that try to earn a reward without reading, beside honest ones; and what no reward here can see.

A hack passes the suite where it earns less than the honest prediction: the reference with a few misread characters.
Most hacks are that same honest prediction with something added, so that they pass only where the addition costs.
"""

from __future__ import annotations

import html
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gravityocr.document import Task
from gravityocr.rl.rewards import reward_of

WORDS = [
    "Annual", "Output", "Copper", "Zinc", "Harbour", "Region", "North", "South", "Rate", "Share", "Index", "Mean",
    "Total", "Wheat", "Rainfall", "Sample", "Depth", "Age", "Station", "Model", "Loss", "Error", "Group", "Control",
    "Volume", "Price", "Route", "Count", "Height", "Width", "Speed", "River", "Basin", "Coast", "Delta", "Ridge",
]  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """A prediction that is no reading, beside the honest one, of one reference."""

    name: str
    task: Task
    honest: str
    hacked: str
    ref: str


@dataclass(frozen=True)
class Outcome:
    """What both earned; `passed` where the hack earned less."""

    name: str
    task: Task
    honest: float
    hacked: float
    passed: bool


def make_table(seed: int, n_rows: int = 20, n_columns: int = 6) -> str:
    """Make a table: a head whose last cell spans two columns, words on the left, numbers on the right.

    With the default sizes it has about 1,900 characters.
    """
    rng = random.Random(seed)
    head = [f"<td>{' '.join(rng.sample(WORDS, 2))}</td>" for _ in range(n_columns - 2)]
    head.append(f'<td colspan="2">{" ".join(rng.sample(WORDS, 2))}</td>')
    rows = ["".join(head)]
    for _ in range(n_rows - 1):
        cells = [f"{rng.choice(WORDS)} {rng.choice(WORDS).lower()}"]
        cells += [
            rng.choice([f"{rng.uniform(0, 900):.2f}", f"{rng.randrange(9999)}", ""]) for _ in range(n_columns - 1)
        ]
        rows.append("".join(f"<td>{cell}</td>" for cell in cells))
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def make_text(seed: int, n_words: int = 150) -> str:
    """Make a paragraph of words in no order."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) if rng.random() < 0.9 else str(rng.randrange(3000)) for _ in range(n_words)) + "."


def make_formula(seed: int, n_terms: int = 6) -> str:
    """Make a sum of fractions, roots and powers in brackets."""
    rng = random.Random(seed)

    def term() -> str:
        a, b, n = rng.choice("abcxyz"), rng.choice("mnpqrs"), rng.randrange(2, 90)
        shape = rng.choice(
            (r"\frac{%s}{%s_{%d}}", r"\sqrt{%s^{2} + %s}_{%d}", r"\left( %s - %s \right)^{%d}", r"\alpha_{%s} %s^{%d}")
        )
        return shape % (a, b, n)

    return f"{rng.choice('FGHZ')} = " + " + ".join(term() for _ in range(n_terms))


def misread(markup: str, seed: int, n_errors: int) -> str:
    """Replace some of the digits and letters outside of tags and commands."""
    rng = random.Random(seed)
    hidden = [found.span() for found in re.finditer(r"<[^>]*>|\\[A-Za-z]+|&\w+;", markup)]
    inside = {place for start, end in hidden for place in range(start, end)}
    places = [place for place, sign in enumerate(markup) if sign.isalnum() and place not in inside]
    signs = list(markup)
    for place in rng.sample(places, min(n_errors, len(places))):
        signs[place] = rng.choice([sign for sign in "acegnorsu0369" if sign != signs[place]])
    return "".join(signs)


def outcomes(trials: Iterable[Trial]) -> list[Outcome]:
    """Reward both predictions of every trial."""
    found = []
    for trial in trials:
        honest, hacked = (reward_of(trial.task, pred, trial.ref) for pred in (trial.honest, trial.hacked))
        found.append(Outcome(trial.name, trial.task, honest, hacked, hacked < honest))
    return found


def hacks() -> Iterator[Trial]:
    """List all hacks."""
    yield from _table_hacks()
    yield from _fragment_hacks()
    yield from _formula_hacks()
    yield from _text_hacks()


def _table_hacks() -> Iterator[Trial]:
    ref = make_table(1)
    honest = misread(ref, 1, 12)
    rows = re.findall(r"<tr>.*?</tr>", honest)
    cells = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", honest)]
    width = 6

    def grid(texts: list[str]) -> str:
        return (
            "<table>"
            + "".join(
                "<tr>" + "".join(f"<td>{text}</td>" for text in texts[start : start + width]) + "</tr>"
                for start in range(0, len(texts), width)
            )
            + "</table>"
        )

    def inside(addition: str) -> str:
        return honest.replace("</table>", f"{addition}</table>")

    hacked = {
        "blank row added": inside("<tr>" + "<td></td>" * width + "</tr>"),
        "100 blank rows added": inside(("<tr>" + "<td></td>" * width + "</tr>") * 100),
        "blank rows of growing width": inside("".join(f"<tr>{'<td></td>' * n}</tr>" for n in range(1, 30))),
        "100 rows without cells": inside("<tr></tr>" * 100),
        "50 numbered rows added": inside("".join(f"<tr><td>{n}</td></tr>" for n in range(50))),
        "last row repeated 40 times": inside(rows[-1] * 40),
        "every row twice": f"<table>{''.join(row * 2 for row in rows)}</table>",
        "reference twice, two tables": ref + ref,
        "reference twice, one table": f"<table>{''.join(re.findall('<tr>.*?</tr>', ref)) * 2}</table>",
        "first cell copied into all": grid([cells[0]] * (len(rows) * width)),
        "row copied into all": f"<table>{rows[1] * len(rows)}</table>",
        "blank grid of the right size": grid([""] * (len(rows) * width)),
        "all text in one cell": f"<table><tr><td>{' '.join(cells)}</td></tr></table>",
        "all text as prose": " ".join(cells),
        "endless &nbsp; in a cell": honest.replace("</td>", "&nbsp;" * 300 + "</td>", 1),
        "endless &nbsp; and blanks": honest.replace("</td>", "&nbsp; " * 300 + "</td>", 1),
        "endless zero-width spaces": honest.replace("</td>", "\u200b" * 300 + "</td>", 1),
        "zero-width joiners in every cell": honest.replace("</td>", "\u200d</td>"),
        "giant colspan": honest.replace("<td>", '<td colspan="999999999">', 1),
        "giant rowspan": honest.replace("<td>", '<td rowspan="999999999">', 1),
        "rows as spans": f'<table><tr><td colspan="{width}" rowspan="{len(rows)}">{" ".join(cells)}</td></tr></table>',
        "table in a cell": f"<table><tr><td>{honest}</td></tr></table>",
        "table in a table": f"<table>{honest}</table>",
        "hidden comment": inside("<!-- " + " ".join(cells) + " -->"),
        "endless attribute": honest.replace("<tr>", '<tr data-x="' + " ".join(cells * 8) + '">', 1),
        "endless style": honest.replace("<td>", '<td style="' + "color:red;" * 600 + '">', 1),
        "text after the table": honest + " ".join(cells),
        "empty tables after the table": honest + "<table></table>" * 100,
        "empty sections": inside("<tbody></tbody>" * 100),
        "empty tags in a cell": honest.replace("</td>", "<b></b>" * 100 + "</td>", 1),
        "hollow superscripts without end": honest.replace("</td>", "<sup></sup>" * 500 + "</td>", 1),
        "end tags of nothing": honest.replace("</td>", "</td>" * 10),
        "one attribute without end": honest.replace("<td>", "<td" + " colspan=1" * 600 + ">", 1),
        "a span with leading zeros": honest.replace("<td>", '<td colspan="' + "0" * 600 + '1">', 1),
        "slashes in a tag without end": honest.replace("<td>", "<td" + "/ " * 4000 + ">", 1),
        "line breaks in a cell": honest.replace("</td>", "<br/>" * 100 + "</td>", 1),
        "endless line feeds": honest + "\n" * 500,
        "never closed": honest.removesuffix("</table>"),
        "closed in a comment only": honest.replace("</table>", "<!-- </table> -->"),
        "second table never closed": honest + "<table>",
        "nothing": "",
        "an empty table": "<table></table>",
    }  # fmt: skip
    for name, pred in hacked.items():
        yield Trial(name, "table", honest, pred, ref)


def _fragment_hacks() -> Iterator[Trial]:
    ref = "<tr><td>Copper output</td><td>2 (0)</td><td></td><td>336.0</td></tr>"
    honest = ref.replace("336", "338")
    hacked = {
        "row: not closed": honest.removesuffix("</tr>"),
        "row: cut in a cell": honest[:-14],
        "row: twice": honest * 2,
        "row: five times": honest * 5,
        "row: cells without a row": honest.removeprefix("<tr>").removesuffix("</tr>"),
        "row: blank cells added": honest.replace("</tr>", "<td></td>" * 3 + "</tr>"),
        "row: blank grid": "<tr>" + "<td></td>" * 4 + "</tr>",
        "row: a table around": f"<table>{honest}</table>",
        "row: table closed and opened again": f"{honest}</table><table>",
        "row: text after": honest + "336.0",
        "row: hidden comment": honest + "<!-- 336.0 -->",
        "row: nothing": "",
    }
    for name, pred in hacked.items():
        yield Trial(name, "table", honest, pred, ref)


def _formula_hacks() -> Iterator[Trial]:
    ref = make_formula(5)
    honest = misread(ref, 5, 2)
    hacked = {
        "braces only": "{}" * 100,
        "braces added": honest + "{}" * 100,
        "nested braces": "{" * 60 + honest + "}" * 60,
        "a brace too many": honest + "}",
        "a group never closed": honest + "{",
        r"\left spam": r"\left" * 50 + honest,
        r"\left\right spam": honest + r"\left\right" * 50,
        r"\left.\right. spam": honest + r"\left.\right." * 50,
        "blanks added": honest + " " * 300,
        "spacing commands added": honest + r"\," * 200,
        "quads added": honest + r"\quad " * 100,
        "an odd dollar": honest + "$",
        "many dollars": "$" * 100 + honest + "$" * 100,
        "environment never closed": r"\begin{array}" + honest,
        "environment of another name": r"\begin{array}" + honest + r"\end{matrix}",
        "reference twice": ref + ref,
        "one term without end": honest + " + x" * 60,
        "zero-width characters": honest + "\u200b" * 100,
        "nothing": "",
        "dollars only": "$$$$",
    }
    for name, pred in hacked.items():
        yield Trial(f"formula: {name}", "formula", honest, pred, ref)


def _text_hacks() -> Iterator[Trial]:
    ref = make_text(9)
    honest = misread(ref, 9, 10)
    hacked = {
        "nothing": "",
        "reference twice": f"{ref} {ref}",
        "tail repeated": honest + " " + " ".join(honest.split()[-4:]) * 40,
        "a word without end": "Region " * 150,
        "the commonest letter": "e" * len(ref),
        "dots without end": honest + "." * 300,
        "dots and blanks without end": honest + " ." * 150,
        "zero-width spaces without end": honest + "\u200b" * 300,
        "mixed invisible characters": honest + "\u200b\u200c\ufeff \u2060" * 80,
        "line feeds without end": honest + "\n" * 300,
        "all words sorted": " ".join(sorted(honest.split())),
    }
    for name, pred in hacked.items():
        yield Trial(f"text: {name}", "text", honest, pred, ref)


def blind_spots() -> Iterator[Trial]:
    """List predictions that are worse than their reward says; `honest` is the reference itself."""
    table, text, formula = make_table(1), make_text(9), make_formula(5)
    rows = re.findall(r"<tr>.*?</tr>", table)
    halves = "".join(rows[:9]), "".join(rows[9:])
    swapped = "".join([rows[0], *(row for pair in zip(rows[2::2], rows[1::2], strict=False) for row in pair), rows[-1]])
    shifted = re.sub(r"<td>([^<]*)</td><td></td>", r"<td></td><td>\1</td>", table)
    parts = re.split(r"<td>([^<]+)</td>", table)
    parts[1::2] = [
        f"<td><sup>{text}</sup></td>" if n % 3 == 0 else f"<td>{text}</td>" for n, text in enumerate(parts[1::2])
    ]
    raised = "".join(parts)
    digits = str.maketrans("0123456789", "1234567890")
    worse: dict[str, tuple[Task, str, str]] = {
        "table cut into two": ("table", f"<table>{halves[0]}</table><table>{halves[1]}</table>", table),
        "one row twice, another missing": (
            "table", table.replace(rows[3], rows[3] * 2).replace(rows[9], ""), table),
        "rows swapped in pairs": ("table", f"<table>{swapped}</table>", table),
        "values moved into the blank cell beside": ("table", shifted, table),
        "every digit wrong": ("table", re.sub(r">[^<]+<", lambda m: m[0].translate(digits), table), table),
        "superscripts in a third of the cells": ("table", raised, table),
        "head cells marked or not": ("table", table.replace("<td", "<th").replace("</td", "</th"), table),
        "a zero-width space in every cell": ("table", table.replace("</td>", "\u200b</td>"), table),
        "one digit of a row's number wrong": (
            "table", "<tr><td>Wheat</td><td>1.00</td></tr>", "<tr><td>Wheat</td><td>1.08</td></tr>"),
        "markup that shows nothing, 1.5 times the table": (
            "table", table.replace("</td>", "<sup></sup>" * (len(table) // 7) + "</td>", 1), table),
        "every punctuation mark lost": ("text", "A: 1.5, (b); c!", "A: 15 b c"),
        "blanks between words lost": ("text", text.replace(" ", ""), text),
        "unrepeated punctuation added": ("text", text + ".,;:!?-()" * 40, text),
        "groups regrouped": ("formula", r"\frac{a}{bc}", r"\frac{ab}{c}"),
        "a power without braces": ("formula", "x^10", "x^{10}"),
        r"\left( closed by \right]": ("formula", r"\left(\frac{a}{b}\right]", r"\left(\frac{a}{b}\right)"),
        "twelve blanks after every sign": ("formula", formula.replace(" ", r"\," * 12), formula),
        "an unknown command": ("formula", formula.replace(r"\frac", r"\fracc"), formula),
        "a tag of any length": ("formula", formula + r"\tag{" + "see below and above " * 2 + "}", formula),
        "a sign of a formula": ("formula", formula.replace("+", "-", 1), formula),
    }  # fmt: skip
    for name, (task, pred, ref) in worse.items():
        yield Trial(name, task, ref, pred, ref)
