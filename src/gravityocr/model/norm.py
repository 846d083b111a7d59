"""RMS normalisation in the type of its input."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class RMSNorm(nn.RMSNorm):
    """`nn.RMSNorm` that follows the input's type, so that autocast keeps the fused kernel."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)

    def added(self, x: Tensor, branch: Tensor) -> Tensor:
        """Return `x` plus the normalised branch."""
        return x + self(branch)
