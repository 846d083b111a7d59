"""The outline of a region from the coarse mask that the network paints for it. Pure numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gravityocr.document import Box, Polygon

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_TOLERANCE = 0.004  # of the outline's length: corners nearer to a straight line than this go
_LARGEST_PART = 0.9  # of the mask: below, no one outline goes around what the region holds
_EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=np.int64)


def mask_outline(mask: Mask, box: Box, size_px: tuple[int, int]) -> Polygon:
    """Return the outline of what a mask of the whole page shows within `box`, in page pixels.

    It is empty where the box says as much: the mask fills it, shows nothing there or is in pieces. Corners that
    point inwards are left out, so that an outline rather takes in too much than cuts text off.

    *Shapes*: `mask` `[rows, columns]`. *Source*: PPDocLayoutV3ImageProcessor of transformers does the same with OpenCV.
    """
    rows, columns = mask.shape
    scale_x, scale_y = columns / size_px[0], rows / size_px[1]
    x0, x1 = (min(columns, max(0, round(value * scale_x))) for value in (box.x0, box.x1))
    y0, y1 = (min(rows, max(0, round(value * scale_y))) for value in (box.y0, box.y1))
    cells = mask[y0:y1, x0:x1]
    part = _largest_part(cells)
    if part is None or bool(part.all()):
        return ()
    points = _boundary(part) * np.array([box.width / (x1 - x0), box.height / (y1 - y0)])
    length = float(np.hypot(*(np.roll(points, -1, axis=0) - points).T).sum())
    corners = _convex_corners(_simplified(points, _TOLERANCE * length))
    if len(corners) < 4:
        return ()
    cell_px = 1.5 * max(1 / scale_x, 1 / scale_y)
    if len(corners) == 4 and bool((np.minimum(corners, [box.width, box.height] - corners) < cell_px).all()):
        return ()
    return tuple((float(x) + box.x0, float(y) + box.y0) for x, y in corners)


def _largest_part(cells: Mask) -> Mask | None:
    """Return the largest connected part of a mask, None where there is none or it is not nearly all of it."""
    from scipy import ndimage

    n_set = int(cells.sum())
    if n_set == 0:
        return None
    labels, _ = ndimage.label(cells, structure=_EIGHT_NEIGHBOURS)
    sizes = np.bincount(labels.ravel())[1:]
    if sizes.max() < _LARGEST_PART * n_set:
        return None
    return np.asarray(labels == 1 + int(sizes.argmax()))


def _boundary(part: Mask) -> Floats:
    """Return the corners of a connected part's outer edge, clockwise as one sees it, in cells.

    *Shapes*: `part` `[rows, columns]` -> `[n, 2]` of x, y.
    """
    padded = np.pad(part, 1)
    ends: dict[tuple[int, int], list[tuple[int, int]]] = {}
    # each side of a set cell whose neighbour is not set, walked with the part on the right
    for (dy, dx), (start, end) in {
        (-1, 0): ((0, 0), (1, 0)),
        (0, 1): ((1, 0), (1, 1)),
        (1, 0): ((1, 1), (0, 1)),
        (0, -1): ((0, 1), (0, 0)),
    }.items():
        outside = part & ~padded[1 + dy : 1 + dy + part.shape[0], 1 + dx : 1 + dx + part.shape[1]]
        for row, column in np.argwhere(outside).tolist():
            ends.setdefault((column + start[0], row + start[1]), []).append((column + end[0], row + end[1]))
    row, column = divmod(int(part.argmax()), part.shape[1])
    first = (column, row)  # the top left corner of the first cell of the first row: on the outer edge
    corners, here, step = [], first, (0, -1)
    while True:
        choices = ends[here]
        # where two cells touch by a corner, turn left: they belong together
        towards = [(x - here[0], y - here[1]) for x, y in choices]
        place = min(range(len(choices)), key=lambda k: step[0] * towards[k][1] - step[1] * towards[k][0])
        if towards[place] != step:
            corners.append(here)
        step = towards[place]
        here = choices.pop(place)
        if here == first:
            return np.array(corners, dtype=np.float64)


def _simplified(points: Floats, tolerance: float) -> Floats:
    """Return the points of a closed outline that stand out by more than `tolerance` (Douglas-Peucker)."""
    far = int(np.hypot(*(points - points[0]).T).argmax())
    start = int(np.hypot(*(points - points[far]).T).argmax())
    points = np.roll(points, -start, axis=0)
    far = (far - start) % len(points)
    closed = np.concatenate([points, points[:1]])
    keep = np.zeros(len(closed), dtype=bool)
    keep[[0, far]] = True
    spans = [(0, far), (far, len(points))]
    while spans:
        low, high = spans.pop()
        if high - low < 2:
            continue
        distances = _distances(closed[low + 1 : high], closed[low], closed[high])
        place = int(distances.argmax())
        if distances[place] > tolerance:
            middle = low + 1 + place
            keep[middle] = True
            spans += [(low, middle), (middle, high)]
    return points[keep[:-1]]


def _distances(points: Floats, start: Floats, end: Floats) -> Floats:
    """Return how far each point is from the line through two others."""
    along = end - start
    length = float(np.hypot(*along))
    offsets = points - start
    if length == 0:
        return np.asarray(np.hypot(*offsets.T))
    return np.asarray(np.abs(along[0] * offsets[:, 1] - along[1] * offsets[:, 0]) / length)


def _convex_corners(points: Floats) -> Floats:
    """Return the corners of a clockwise outline that point outwards."""
    before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    return points[before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0] > 0]
