"""A running mean of the weights: what a run would reach after its rate had decayed, at any time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Keep an exponential running mean of a network's parameters.

    Young means follow faster, so that the first weights do not linger.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.n_updates = 0
        self.mean = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take the present weights into the mean."""
        self.n_updates += 1
        share = 1.0 - min(self.decay, self.n_updates / (10.0 + self.n_updates))
        means, weights = zip(*((self.mean[name], p) for name, p in model.named_parameters()), strict=True)
        torch._foreach_lerp_(list(means), list(weights), share)

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Put the mean into the network for the duration of a `with` block."""
        own = {name: p.detach().clone() for name, p in model.named_parameters()}
        self._write(model, self.mean)
        try:
            yield
        finally:
            self._write(model, own)

    def state_dict(self) -> dict[str, object]:
        """Return what a resumed run needs."""
        return {"n_updates": self.n_updates, "mean": self.mean}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take a saved mean.

        *Raises*: KeyError, TypeError or RuntimeError where it is that of another network.
        """
        mean = state["mean"]
        if not isinstance(mean, dict) or mean.keys() != self.mean.keys():
            raise KeyError("the mean of the weights belongs to another network")
        for name, value in self.mean.items():
            value.copy_(mean[name])
        n_updates = state["n_updates"]
        if not isinstance(n_updates, int):
            raise TypeError("n_updates must be an integer")
        self.n_updates = n_updates

    @torch.no_grad()
    def _write(self, model: nn.Module, values: Mapping[str, Tensor]) -> None:
        for name, parameter in model.named_parameters():
            parameter.copy_(values[name])
