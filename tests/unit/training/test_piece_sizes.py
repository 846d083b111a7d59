"""Regions beside the pieces of a small checkpoint: what is larger is counted by task, and told where it is much."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from gravityocr.model.checkpoint import BlockDiffusion
from gravityocr.model.formula_pieces import FormulaPieceSpec
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.table_pieces import TablePieceSpec
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, RegionFile, encode_picture, write_regions
from gravityocr.training.piece_sizes import PieceFit, PieceLimit, oversized, oversized_regions, oversized_warning

WHOLE = BlockDiffusion(8, 3)
PIECES = BlockDiffusion(8, 3, pieces=PieceSpec(), formula_pieces=FormulaPieceSpec(), table_pieces=TablePieceSpec())


def columns(*sizes: tuple[str, int, int]) -> dict[str, list[object]]:
    return {name: [size[at] for size in sizes] for at, name in enumerate(("task", "width_px", "height_px"))}


@pytest.mark.parametrize(
    ("task", "width_px", "height_px", "fits"),
    [
        ("text", 384, 32, True),
        ("text", 392, 40, True),  # rounds to the same number of cells
        ("text", 393, 32, False),
        ("text", 100, 41, False),
        ("table", 320, 32, True),
        ("table", 384, 32, False),
        ("table", 200, 64, False),
        ("formula", 640, 192, True),
        ("formula", 700, 100, False),
        ("formula", 300, 208, False),
    ],
)
def test_what_is_larger_than_a_piece(task: str, width_px: int, height_px: int, fits: bool) -> None:
    found = oversized(columns((task, width_px, height_px)), PIECES)
    assert [(kind, fit.n_regions, fit.n_larger) for kind, fit in found.items()] == [(task, 1, 0 if fits else 1)]


def test_a_checkpoint_that_reads_whole_crops_has_no_limit() -> None:
    assert oversized(columns(("text", 5000, 5000)), WHOLE) == {}
    only_text = BlockDiffusion(8, 3, pieces=PieceSpec())
    assert oversized(columns(("table", 5000, 5000)), only_text) == {}


def test_rows_of_table_pieces_stand_below_one_another() -> None:
    tall = BlockDiffusion(8, 3, table_pieces=TablePieceSpec(max_rows=2, max_strips=4))
    assert oversized(columns(("table", 320, 128)), tall)["table"].n_larger == 0


@pytest.mark.parametrize(("n_larger", "told"), [(0, False), (5, False), (6, True)])
def test_few_larger_regions_go_without_a_word(n_larger: int, told: bool) -> None:
    fits = {"text": PieceFit(100, n_larger, PieceLimit(384, 32, 16)), "table": PieceFit(1, 0, PieceLimit(320, 32, 16))}
    warning = oversized_warning(fits)  # type: ignore[arg-type]
    assert (warning is not None) is told
    if warning is not None:
        assert "6 of 100 text regions" in warning and "384 x 32 px" in warning and "table" not in warning


def test_files_are_counted_together(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the region format; install the extra 'train'")
    picture = encode_picture(Image.new("L", (48, 64), 255))
    files = []
    for number in range(2):
        file = tmp_path / f"{number}{SUFFIX}"
        write_regions(
            file, [LabelledRegion(f"a:{number}:{i}", picture, 48, 64, "text", "x", "a", "d") for i in range(3)]
        )
        files.append(RegionFile(file))
    assert oversized_regions(files, WHOLE) == {}
    found = oversized_regions(files, PIECES)
    assert found == {"text": PieceFit(6, 6, PieceLimit(384, 32, 16))}
