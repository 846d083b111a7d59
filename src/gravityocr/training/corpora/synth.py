"""Our own rendered samples: the shards of `gravityocr data synth` as regions, their joined tokens as targets.

    ROOT/**/<name>.shard.npz     see training/synthetic/shards.py

A sample's document is what it was made from, within its shard: pieces of one table stay together where regions are
split by document. A unit is a shard. The places of the glyphs are not carried over. With wear, a sample is varied and
degraded as in training; a formula that then fits no piece is left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from gravityocr.errors import InputError
from gravityocr.model.formula_pieces import FormulaPieceSpec
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit, unit_name
from gravityocr.training.corpora.region_shards import LabelledRegion, encode_picture
from gravityocr.training.synthetic.shards import SUFFIX, RenderedSample, Shard, shard_files
from gravityocr.training.synthetic.variation import VariationConfig, vary


class SynthShards:
    """Converts shards of rendered samples; of the config only the limit and the wear matter."""

    name = "synth"

    def __init__(self, config: ConversionConfig) -> None:
        self._config = config

    def units(self, root: Path) -> list[Unit]:
        """List the shards below a folder.

        *Raises*: InputError where there is none.
        """
        files = shard_files(root)
        return [Unit(unit_name(str(file.relative_to(root)).removesuffix(SUFFIX)), (file,)) for file in files]

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        """Yield the samples of a shard.

        *Raises*: InputError where it is broken.
        """
        shard = Shard(unit.files[0])
        for number in range(len(shard)):
            try:
                sample = shard[number]
            except InputError as error:
                yield Skipped(f"{unit.files[0].name}, sample {number}", f"unreadable sample: {error}")
                continue
            if self._config.wear:
                worn = _worn(sample, unit.name, number, self._config.wear)
                if worn is None:
                    yield Skipped(f"{unit.files[0].name}, sample {number}", "worn, the formula fits no piece")
                    continue
                sample = worn
            doc_id = f"{unit.name}/{sample.source}"
            yield LabelledRegion(
                region_id=f"{self.name}/{doc_id}/0/{number}",
                image=encode_picture(Image.fromarray(sample.image)),
                width_px=sample.image.shape[1],
                height_px=sample.image.shape[0],
                task=sample.task,
                target=sample.target,
                source=self.name,
                doc_id=doc_id,
            )


def _worn(sample: RenderedSample, unit: str, number: int, wear: float) -> RenderedSample | None:
    rng = np.random.default_rng([zlib.crc32(unit.encode("utf-8")), number])
    return vary(sample, rng, wear, VariationConfig(), FormulaPieceSpec())
