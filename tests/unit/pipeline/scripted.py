"""A scripted detector, a scripted recognizer, and bars that pass for lines of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PIL import Image, ImageDraw

from gravityocr.document import Crop, Recognition
from gravityocr.pipeline.layout import LayoutBox


class ScriptedDetector:
    """Returns the boxes it was given, and counts."""

    def __init__(self, *answers: list[LayoutBox]) -> None:
        self.answers = list(answers)
        self.n_calls = 0

    def detect(self, image: Image.Image) -> list[LayoutBox]:
        answer = self.answers[min(self.n_calls, len(self.answers) - 1)]
        self.n_calls += 1
        return answer


class ScriptedRecognizer:
    """Answers with a function of the crop; keeps the sizes and tasks it was asked for, call by call."""

    def __init__(
        self,
        answer: Callable[[int, Crop], Recognition] | None = None,
        tasks: frozenset[str] = frozenset({"text"}),
    ) -> None:
        self.tasks = tasks
        self.calls: list[list[Crop]] = []
        self._answer = answer or (lambda index, crop: Recognition(f"text {index}", n_tokens=3, n_forwards=2))

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        self.calls.append(list(crops))
        return [self._answer(index, crop) for index, crop in enumerate(crops)]


def draw_lines(image: Image.Image, box: tuple[int, int, int, int], pitch: int = 18, colour: str = "black") -> None:
    """Fill a box with rows of word-like bars whose strokes are thin enough to be ink."""
    draw = ImageDraw.Draw(image)
    x0, y0, x1, y1 = box
    for top in range(y0, y1 - 13, pitch):
        for left in range(x0, x1 - 7, 12):
            draw.rectangle((left, top, left + 3, top + 13), fill=colour)
            draw.line((left, top + 7, left + 8, top + 7), fill=colour, width=2)
