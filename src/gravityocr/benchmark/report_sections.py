"""The sections of a report, one for each measurement: our tables and plots first, then the paper's in its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from gravityocr.benchmark import paper_figures as paper
from gravityocr.benchmark.report_plots import Panel, draw

Data = Mapping[str, Any]
Cells = Mapping[str, Mapping[str, object]]
HERE, THERE = "measured here", "the paper"
_MODE_COLUMNS = {
    "ms / token": ("s_per_token", 1000.0, 3), "tokens / s": ("tok_per_s", 1.0, 0), "x AR": ("x_ar", 1.0, 2),
    "best x AR": ("best_x_ar", 1.0, 2), "TPF": ("tpf", 1.0, 2), "accepted": ("n_accepted", 1.0, 2),
    "identical %": ("identical_to_ar", 100.0, 1), "spread %": ("spread", 100.0, 1), "tokens": ("n_tokens", 1.0, 0),
    "crops": ("n_crops", 1.0, 0),
}  # fmt: skip


def table(caption: str, rows: Cells) -> str:
    """Return an HTML table, one row a name."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *columns))
    body = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(f'<td>{_cell(row.get(column))}</td>' for column in columns)}</tr>"
        for name, row in rows.items()
    )
    return f"<div class='scroll'><table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table></div>"


def _cell(value: object) -> str:
    return "–" if value is None else escape(str(value))


def papers(caption: str, rows: Cells) -> str:
    """Return a table of the paper's figures in their own frame."""
    return f"<div class='paper'>{table(f'The paper: {caption}', rows)}<p class='soft'>{paper.CAPTION}</p></div>"


def _shown(value: float | None, scale: float, digits: int) -> str | None:
    return None if value is None else f"{scale * value:.{digits}f}"


def modes(caption: str, rows: Data) -> str:
    """Return the table of modes."""
    cells = {
        name: {title: _shown(row[key], scale, digits) for title, (key, scale, digits) in _MODE_COLUMNS.items()}
        for name, row in rows.items()
    }
    return table(caption, cells)


def _by_mode(groups: Data, key: str) -> dict[str, list[tuple[str | float, float]]]:
    """Return one series a mode over the groups (kinds, lengths)."""
    names = dict.fromkeys(name for rows in groups.values() for name in rows)
    return {
        name: [(group, rows[name][key]) for group, rows in groups.items() if rows.get(name, {}).get(key) is not None]
        for name in names
    }


def _of_paper(rows: paper.Rows, column: str) -> list[tuple[str | float, float]]:
    return [(name, float(row[column])) for name, row in rows.items() if column in row]


def _crops(data: Data, speed_up: str, is_region: bool) -> str:
    simulated = bool(data["simulated"])
    parts = [modes("all crops", data["modes"])]
    for title, key, theirs in (("kind", "by_kind", paper.BY_KIND), ("output length", "by_length", paper.BY_LENGTH)):
        groups = data[key]
        here = "SIMULATED" if simulated else HERE
        panels = [
            Panel(f"{speed_up} by {title}, {here}", title, "x AR", _by_mode(groups, "x_ar")),
            Panel(f"TPF by {title}, {here}", title, "tokens / forward", _by_mode(groups, "tpf")),
        ]
        if not simulated:
            column = "x region" if is_region else "TPF"
            panels.append(
                Panel(f"{column} by {title}, {THERE}", title, column, {THERE: _of_paper(theirs, column)}, is_paper=True)
            )
        parts.append(draw(panels))
        parts += [modes(f"{title}: {group}", rows) for group, rows in groups.items()]
        if not simulated:
            parts.append(papers(f"by {title}", theirs))
    parts += [modes(f"output length: {name} (ours)", rows) for name, rows in data["by_length_below_128"].items()]
    if not simulated:
        parts.append(papers("crops at batch 1", paper.BATCH_ONE))
    return "".join(parts)


def _decode(data: Data) -> str:
    costs = _costs(data["costs"]) if "costs" in data else ""
    return _crops(data, "decode speed-up", is_region=False) + costs


def _region(data: Data) -> str:
    return _crops(data, "region speed-up", is_region=True) + _stages(data["modes"])


def _costs(costs: Data) -> str:
    batches = costs["batch"]

    def series(key: str) -> dict[str, list[tuple[str | float, float]]]:
        return {f"batch {n}": [(int(rows), value) for rows, value in one[key].items()] for n, one in batches.items()}

    plot = draw(
        [
            Panel("one forward by its rows", "rows of a sequence", "ms", series("ms"), "lines"),
            Panel("over a one-row forward", "rows of a sequence", "x one row", series("window_over_one_row"), "lines"),
        ]
    )
    rows: dict[str, dict[str, object]] = {}
    for n, one in batches.items():
        for width, ms in one["ms"].items():
            ratio = f"{one['window_over_one_row'][width]:.2f}"
            cells = {f"batch {n}: ms": f"{ms:.3f}", f"batch {n}: x one row": ratio}
            rows.setdefault(f"{width} rows", {}).update(cells)
    promised = {
        name: {
            "rows to verify": row["rows"], "forward / one row": f"{row['window_over_one_row']:.2f}",
            "expected x AR": f"{row['expected_speedup']:.2f}", "measured x AR": _shown(row["measured_speedup"], 1.0, 2),
            "hit rate %": _shown(row["hit_rate"], 100.0, 1),
            "break-even %": _shown(row["break_even_hit_rate"], 100.0, 1),
        }
        for name, row in costs["modes"].items()
    }  # fmt: skip
    together = f"what the costs promise: TPF / (forward / one row), {costs['n_together']} sequences together"
    text = f"<h3>Cost of a forward by rows</h3><p class='soft'>{escape(costs['boundary'])}</p>{plot}"
    return text + table("one forward", rows) + (table(together, promised) if promised else "")


def _stages(rows: Data) -> str:
    """Return where the time goes, mode by mode."""
    names = list(dict.fromkeys(stage for row in rows.values() for stage in row["stages"]))
    series = {stage: [(mode, row["stages"].get(stage, 0.0)) for mode, row in rows.items()] for stage in names}
    return draw([Panel(f"stages, {HERE}", "mode", "s of a pass", series)])


def _pages(rows: Data) -> dict[str, dict[str, object]]:
    return {
        name: {
            "pages / s": f"{row['pages_per_s']:.3f}", "page tok/s": f"{row['tok_per_s']:.0f}",
            "x AR": _shown(row["x_ar"], 1.0, 2), "TPF": f"{row['tpf']:.2f}",
            **{f"{stage} s": f"{seconds:.2f}" for stage, seconds in row["stages"].items()},
            "identical %": _shown(row["identical_to_ar"], 100.0, 1), "spread %": f"{100 * row['spread']:.1f}",
        }
        for name, row in rows.items()
    }  # fmt: skip


def _page(data: Data) -> str:
    ours: dict[str, list[tuple[str | float, float]]] = {HERE: [(n, r["pages_per_s"]) for n, r in data["modes"].items()]}
    plot = draw(
        [
            Panel(f"pages per second, {HERE}", "mode", "pages / s", ours),
            Panel(f"pages per second, {THERE}", "", "pages / s", {THERE: _of_paper(paper.PAGES, "pages/s")},
                  is_paper=True),
        ]
    )  # fmt: skip
    found = table(f"{data['n_pages']} pages", _pages(data["modes"]))
    return plot + found + _stages(data["modes"]) + papers("100 pages, one at a time", paper.PAGES)


def _batch(data: Data) -> str:
    sizes = data["sizes"]
    ratios: dict[str, list[tuple[str | float, float]]] = {}
    speeds: dict[str, list[tuple[str | float, float]]] = {}
    for size, found in sizes.items():
        for name, row in found["modes"].items():
            speeds.setdefault(name, []).append((size, row["tok_per_s"]))
            if name != "ar":
                ratios.setdefault(name, []).append((size, row["x_ar"]))
    here = "SIMULATED" if data["simulated"] else HERE
    panels = [
        Panel(f"tokens per second, {here}", "running sequences", "tokens / s", speeds),
        Panel(f"over AR, {here}", "running sequences", "x AR", ratios),
    ]
    tables = [modes(f"at most {size} running", found["modes"]) for size, found in sizes.items()]
    if data["simulated"]:
        return draw(panels) + "".join(tables)
    theirs = {THERE: _of_paper(paper.BATCH, "x AR")}
    panels.append(Panel(f"over AR, {THERE} (before RL)", "batch", "x AR", theirs, is_paper=True))
    return draw(panels) + "".join(tables) + papers("batch sweep, 755 pages, before RL", paper.BATCH)


def _concurrency(data: Data) -> str:
    ours: dict[str, list[tuple[str | float, float]]] = {}
    for way, rows in data["regions"].items():
        for name, row in rows.items():
            ours.setdefault(name, []).append((way, row["pages_per_s"]))
    theirs = {name: _of_paper(paper.CONCURRENCY, f"{name} pages/s") for name in ("AR", "self-spec")}
    plot = draw(
        [
            Panel(f"pages per second, {HERE}", "regions", "pages / s", ours),
            Panel(f"pages per second, {THERE}", "regions", "pages / s", theirs, is_paper=True),
        ]
    )
    tables = [table(f"regions {way}", _pages(rows)) for way, rows in data["regions"].items()]
    ratios = {way: {name: _shown(x, 1.0, 2) for name, x in rows.items()} for way, rows in data["ratios"].items()}
    tables.append(table("ratios of pages per second", ratios))
    return plot + "".join(tables) + papers("regions of a page", paper.CONCURRENCY)


def _settings(data: Data) -> str:
    name = data["setting"].replace("_", " ")

    def series(key: str, scale: float = 1.0) -> dict[str, list[tuple[str | float, float]]]:
        groups = {"all": data["values"], **data["by_kind"]}
        return {group: [(int(x), scale * row[key]) for x, row in rows.items()] for group, rows in groups.items()}

    plot = draw(
        [
            Panel(f"accepted drafts, {HERE}", name, "a round", series("n_accepted"), "lines"),
            Panel(f"TPF, {HERE}", name, "tokens / forward", series("tpf"), "lines"),
            Panel(f"time, {HERE}", name, "ms / token", series("s_per_token", 1000.0), "lines"),
        ]
    )
    return plot + modes(f"by {name} ({data['mode']})", {"ar": data["ar"], **data["values"]})


def _equality(data: Data) -> str:
    parts = []
    tables = {"all crops": data["modes"], **data["by_kind"]}
    if "unguarded" in data:
        tables["all crops, without the tie guard"] = data["unguarded"]["modes"]
    for title, rows in tables.items():
        cells = {
            name: {
                "crops": row["n_crops"], "identical ids %": _shown(row["identical_to_ar"], 100.0, 2),
                "sequences %": _shown(row["identical_sequences"], 100.0, 2),
                "strings %": _shown(row["identical_strings"], 100.0, 2), "parted": row["n_divergent"],
                "median margin": _shown(row["median_margin"], 1.0, 3), "margin < 0.05": row["n_small_margins"],
                "fp32 with AR": row["fp32_sides_with"]["ar"], "fp32 with mode": row["fp32_sides_with"]["mode"],
                "guarded %": _shown(row["guarded"], 100.0, 2),
            }
            for name, row in rows.items()
        }  # fmt: skip
        parts.append(table(title, cells))
    if "guard_cost" in data:
        costs = {
            name: {
                "time / unguarded time": _shown(row["x_time"], 1.0, 3),
                "identical unguarded %": _shown(row["identical_unguarded"], 100.0, 2),
            }
            for name, row in data["guard_cost"].items()
        }
        parts.append(table("what the guard costs", costs))
    return "".join(parts) + papers("equality", paper.EQUALITY)


SECTIONS: Mapping[str, tuple[str, Callable[[Data], str]]] = {
    "decode": ("Decoding alone", _decode),
    "region": ("From pixels to text", _region),
    "page": ("Whole pages", _page),
    "batch": ("A filled queue", _batch),
    "concurrency": ("Regions of a page at once", _concurrency),
    "draft-steps": ("Denoising steps of a draft", _settings),
    "blocks": ("Block sizes", _settings),
    "equality": ("Identity with AR", _equality),
}
