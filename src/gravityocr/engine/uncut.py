"""Read crops as they are, one prompt each, as in training; `Engine.recognize` cuts them to a checkpoint's pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gravityocr.decoding.request import Decoded, SequenceOptions
from gravityocr.decoding.sampling import Sampling
from gravityocr.document import Crop
from gravityocr.engine.engine import Engine
from gravityocr.engine.scheduler import Ticket

MOST_BIAS = 1e4


@dataclass(frozen=True)
class UncutCrop:
    """A crop to be read whole, with the seeds of its samples; no seed is one greedy reading.

    `banned` are tokens that no sample may hold.
    """

    crop: Crop
    max_tokens: int
    seeds: tuple[int, ...] = ()
    temperature: float = 1.0
    top_p: float = 1.0
    banned: frozenset[int] = field(default_factory=frozenset)


def read_uncut(engine: Engine, crops: Sequence[UncutCrop]) -> list[list[Decoded]]:
    """Decode every crop once for each of its seeds, all together, in the engine's mode.

    A sample depends on its crop, its seed and the weights alone, in exact arithmetic. Log-probabilities are those of
    the plain softmax, where the engine's configuration asks for them.
    *Raises*: InputError for a picture that cannot be read.
    """
    checkpoint = engine.checkpoint
    tickets: list[list[Ticket]] = []
    for one in crops:
        prompt = checkpoint.prompts.build(one.crop.image, one.crop.task)
        bias = {token: -MOST_BIAS for token in one.banned}
        samplings = [Sampling(one.temperature, one.top_p, seed=seed, logit_bias=bias) for seed in one.seeds]
        tickets.append(
            [
                Ticket(
                    prompt,
                    SequenceOptions(
                        one.max_tokens, checkpoint.stop_ids, engine.options.block_size, sampling,
                        engine.config.log_probs, one.crop.task,
                    ),
                    engine.mode,
                )
                for sampling in samplings or [Sampling()]
            ]
        )  # fmt: skip
    scheduler = engine.scheduler()
    # Prompts of similar length share a prefill, whose rectangle is as wide as its longest.
    for ticket in sorted((one for row in tickets for one in row), key=lambda ticket: ticket.prompt.ids.numel()):
        scheduler.enqueue(ticket)
    scheduler.run()
    return [[ticket.result() for ticket in row] for row in tickets]


def text_of(engine: Engine, sequence: Decoded) -> str:
    """Return the text of a sequence, special tokens left out."""
    return str(engine.checkpoint.tokenizer.decode(sequence.ids, skip_special_tokens=True))
