"""A network's twin for fast forwards: the same parameters, its products in another type and layout."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gravityocr.model.norm import RMSNorm

_Network = TypeVar("_Network", bound=nn.Module)


def _takes_packed(weight: Tensor) -> bool:
    """Tell whether oneDNN multiplies by this weight in a layout of its own here."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return weight.dtype == torch.float32 or (
        weight.dtype == torch.bfloat16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


class PackedLinear(nn.Module):
    """One or more linear layers over the same input as one product for inference, its outputs side by side.

    The product is in the given type, the output in that of the weights. A single layer's `weight` is the layer's own.
    """

    def __init__(self, layers: Sequence[nn.Linear], dtype: torch.dtype) -> None:
        super().__init__()
        if len(layers) == 1:
            self.weight = layers[0].weight
        self.dtype, self.out_dtype = dtype, layers[0].weight.dtype
        with torch.no_grad():
            matrix = torch.cat([layer.weight.detach() for layer in layers]).to(dtype)
            biases = [
                torch.zeros_like(layer.weight[:, 0]) if layer.bias is None else layer.bias.detach() for layer in layers
            ]
            self._bias = None if all(layer.bias is None for layer in layers) else torch.cat(biases).to(dtype)
            self._is_packed = _takes_packed(matrix)
            # A packed tensor has no storage, so it is no parameter: it is neither moved nor saved.
            self._matrix = torch.ops.mkldnn._reorder_linear_weight(matrix) if self._is_packed else matrix

    def product(self, x: Tensor, activation: str = "none", times: Tensor | None = None) -> Tensor:
        """Return the outputs in the type of the product, `times` another tensor or after an activation."""
        x = x.to(self.dtype)
        if not self._is_packed:
            product = F.linear(x, self._matrix, self._bias)
            product = F.silu(product) if activation == "swish" else product
            return product if times is None else product * times
        if times is not None:
            return torch.ops.mkldnn._linear_pointwise.binary(x, times, self._matrix, self._bias, "mul")
        return torch.ops.mkldnn._linear_pointwise(x, self._matrix, self._bias, activation, [], "")

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all layers in the type of their weights; there is no gradient.

        *Shapes*: [..., in_features] -> [..., out_features of all].
        """
        return self.product(x).to(self.out_dtype)


def inner(layer: nn.Module, x: Tensor) -> Tensor:
    """Return a linear layer's output, that of a `PackedLinear` in the type of its products."""
    return layer.product(x) if isinstance(layer, PackedLinear) else layer(x)


def gated(gate: nn.Module, up: nn.Module, x: Tensor) -> Tensor:
    """Return `silu(gate(x)) * up(x)`, in the type of the products where the layers are packed."""
    if isinstance(gate, PackedLinear) and isinstance(up, PackedLinear):
        return up.product(x, times=gate.product(x, activation="swish"))
    return F.silu(gate(x)) * up(x)


class PackedNorm(nn.Module):
    """An `RMSNorm` for inference, in fewer operations and in fp32."""

    def __init__(self, norm: RMSNorm) -> None:
        super().__init__()
        size = norm.weight.numel()
        self._scale = norm.weight.detach().float() * size**0.5
        self._least = torch.tensor((size * (norm.eps or 0.0)) ** 0.5, device=norm.weight.device)

    def _length(self, wide: Tensor) -> Tensor:
        return torch.linalg.vector_norm(wide, dim=-1, keepdim=True).hypot_(self._least)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised input in fp32."""
        wide = x.float()
        length = self._length(wide)
        scaled = wide * self._scale if wide is x else wide.mul_(self._scale)
        return scaled.div_(length)

    def added(self, x: Tensor, branch: Tensor) -> Tensor:
        """Return `x` plus the normalised branch."""
        wide = branch.float()
        return torch.addcdiv(x, wide * self._scale, self._length(wide)).to(x.dtype)


def packed_copy(network: _Network, dtype: torch.dtype) -> _Network:
    """Return a twin for inference whose products are in `dtype`, fp32 or bf16.

    Every `nn.Linear` becomes a `PackedLinear` and every `RMSNorm` a `PackedNorm`; a module whose `JOINT` maps a name to
    names of its layers gets one `PackedLinear` for all of them under that name. Parameters are shared, and what is no
    product stays in fp32: norms, rotation, softmax, the residual stream. The twin is made of the weights as they are
    now, for the device where they are.
    """
    memo: dict[int, Any] = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    joint: list[tuple[str, str, list[nn.Linear]]] = []
    for path, module in network.named_modules():
        for name, parts in getattr(module, "JOINT", {}).items():
            layers = [getattr(module, part) for part in parts]
            joint.append((path, name, layers))
            memo.update({id(layer): None for layer in layers})
        if isinstance(module, nn.Linear) and id(module) not in memo:
            memo[id(module)] = PackedLinear([module], dtype)
        elif isinstance(module, RMSNorm):
            memo[id(module)] = PackedNorm(module)
    twin = copy.deepcopy(network, memo)
    for path, name, layers in joint:
        setattr(twin.get_submodule(path), name, PackedLinear(layers, dtype))
    return twin.eval()
