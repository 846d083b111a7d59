"""An engine over the weights of a network that is being trained elsewhere, under GLM-OCR's own names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gravityocr.engine.engine import Engine
from gravityocr.engine.precision import precision_of
from gravityocr.errors import CheckpointError
from gravityocr.model.weights import weight_names


@torch.no_grad()
def with_weights(engine: Engine, weights: Mapping[str, Tensor]) -> Engine:
    """Copy weights into the engine's network and return an engine that reads with them, in fp32.

    The engine that was given shares the network, but keeps computing with the weights of before.
    *Raises*: CheckpointError for a missing or misshapen weight.
    """
    model = engine.checkpoint.model
    own = model.state_dict()
    for name, key in weight_names(model).items():
        if key not in weights or weights[key].numel() != own[name].numel():
            raise CheckpointError(f"the trained network has no {key} that fits; train the class that it was loaded as")
        own[name].copy_(weights[key].view(own[name].shape))
    return Engine(engine.checkpoint, engine.config, precision_of(model, "float32", engine.precision.n_threads))
