"""Weights that are computed anew at every call: as a direction and a length, or over their largest singular value."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, Unimplemented
from workbench.framework.program.guard import in_static_mode
from workbench.layers.layer import Layer
from workbench.layers.values import set_value
from workbench.layers.weighted.convolutions import TransposedConvolution
from workbench.layers.weighted.linear import Linear
from workbench.ops.math.products.distance import length
from workbench.ops.math.products.spectral import as_matrix, power_iterations
from workbench.ops.math.products.spectral import spectral_norm as over_largest
from workbench.ops.tensor.shape import reshape

FIRST_ITERATIONS = 15  # power iterations when a weight is first normalised


class WeightNorm:
    """A weight as `g v / |v|`, computed before every call of its layer."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, dim

    def weight(self, layer: Layer) -> Any:
        """The weight from its two parameters."""
        v, g = getattr(layer, f"{self.name}_v"), getattr(layer, f"{self.name}_g")
        factor = g / norm_except(v, self.dim)
        if self.dim is None:
            return v * factor
        return v * reshape(factor, [-1 if d == self.dim else 1 for d in range(len(v.shape))])

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.weight(layer))


def norm_except(weight: Any, dim: int | None) -> Any:
    """The lengths of a weight's slices along `dim`, its own for None."""
    if dim is None:
        return length(reshape(weight, [-1]), 2, axis=None)
    others = [d for d in range(len(weight.shape)) if d != dim]
    return length(weight, 2, axis=others) if others else length(reshape(weight, [-1, 1]), 2, axis=1)


def weight_norm(layer: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Have a parameter of a layer computed from a direction and lengths, which are learned in its place.

    The layer gets the parameters `<name>_v`, of the parameter's shape, and `<name>_g`, the lengths of the slices along
    `dim`; before every call `<name>` is `g v / |v|`.

    Args:
        layer: a layer.
        name: of the parameter.
        dim: the dimension that keeps its own lengths; None: one length for the whole.

    Returns:
        the layer.

    Raises:
        InvalidArgument: no such parameter or dimension, or it is normalised already.

    Source: Salimans and Kingma, "Weight Normalization", 2016.

    Example:
        >>> layer = wb.nn.utils.weight_norm(wb.nn.Linear(2, 3))
        >>> [name for name, parameter in layer.named_parameters()]
        ['bias', 'weight_v', 'weight_g']
    """
    weight = _parameter(layer, name, "weight_norm")
    dim = None if dim is None or dim == -1 else _dimension(dim, weight)
    hook = WeightNorm(name, dim)
    del layer._parameters[name]
    setattr(layer, f"{name}_v", _like(layer, weight.detach()))
    setattr(layer, f"{name}_g", _like(layer, norm_except(weight.detach(), dim)))
    hook(layer, ())
    vars(layer)[_HANDLES] = {**vars(layer).get(_HANDLES, {}), name: (hook, layer.register_forward_pre_hook(hook))}
    return layer


_HANDLES = "_computed_weights"  # of a layer: name -> (what computes the weight, the handle of its hook)


def remove_weight_norm(layer: Any, name: str = "weight") -> Any:
    """Undo `weight_norm`: the parameter is one again, with the value it had last.

    Returns:
        the layer.

    Raises:
        InvalidArgument: the layer has no such weight.

    Example:
        >>> layer = wb.nn.utils.weight_norm(wb.nn.Linear(2, 3))
        >>> layer = wb.nn.utils.remove_weight_norm(layer)
        >>> [name for name, parameter in layer.named_parameters()]
        ['bias', 'weight']
    """
    hook, handle = vars(layer).get(_HANDLES, {}).get(name, (None, None))
    if not isinstance(hook, WeightNorm):
        raise InvalidArgument(f"weight_norm of {name!r} not found in {layer}")
    value = hook.weight(layer).detach()
    handle.remove()
    vars(layer)[_HANDLES].pop(name)
    delattr(layer, name)
    delattr(layer, f"{name}_g")
    delattr(layer, f"{name}_v")
    setattr(layer, name, _like(layer, value))
    return layer


def _like(layer: Layer, value: Any) -> Any:
    """A new parameter of a layer with the value of a tensor."""
    parameter = layer.create_parameter(value.shape, dtype=value.dtype)
    set_value(parameter, value)
    return parameter


def _parameter(layer: Any, name: str, what: str) -> Any:
    if in_static_mode():
        raise Unimplemented(f"{what} changes layers of dynamic mode so far; call disable_static() first")
    if not isinstance(layer, Layer) or layer._parameters.get(name) is None:
        raise InvalidArgument(f"{what} takes a layer with a parameter {name!r}, got {layer!r}")
    return layer._parameters[name]


def _dimension(dim: int, weight: Any) -> int:
    rank = len(weight.shape)
    if not -rank <= dim < rank:
        raise InvalidArgument(f"dim of a weight of shape {list(weight.shape)} is in [{-rank}, {rank}), got {dim}")
    return dim % rank


class SpectralWeight:
    """A weight over its largest singular value, computed before every call of its layer."""

    def __init__(self, name: str, dim: int, iterations: int, eps: float) -> None:
        self.name, self.dim, self.iterations, self.eps = name, dim, iterations, eps

    def __call__(self, layer: Layer, inputs: Any) -> None:
        weight = getattr(layer, f"{self.name}_orig")
        u, v = getattr(layer, f"{self.name}_u"), getattr(layer, f"{self.name}_v")
        if layer.training:
            self.iterate(weight, u, v, self.iterations)
        setattr(layer, self.name, over_largest(weight, u.clone(), v.clone(), self.dim, 0, self.eps)[0])

    def iterate(self, weight: Any, u: Any, v: Any, count: int) -> None:
        """Move the two vectors nearer to those of the largest singular value; no gradient flows through them."""
        new_u, new_v = power_iterations(as_matrix(weight.detach(), self.dim), u, v, count, self.eps)
        set_value(u, new_u)
        set_value(v, new_v)


def spectral_norm(
    layer: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Have a parameter of a layer divided by its largest singular value before every call.

    The parameter is called `<name>_orig` from then on; two buffers, `<name>_u` and `<name>_v`, hold the vectors that
    power iterations in training bring nearer to those of that value.

    Args:
        layer: a layer.
        name: of the parameter.
        n_power_iterations: at every call.
        eps: keeps lengths above 0.
        dim: the dimension that counts as rows of a matrix; None: 1 for Linear and transposed convolutions, else 0.

    Returns:
        the layer.

    Raises:
        InvalidArgument: no such parameter or dimension, or no iteration.

    Source: Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.

    Example:
        >>> layer = wb.nn.utils.spectral_norm(wb.nn.Linear(2, 3))
        >>> list(layer.state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = _parameter(layer, name, "spectral_norm")
    if n_power_iterations < 1:
        raise InvalidArgument(f"spectral_norm takes at least one power iteration, got {n_power_iterations}")
    if dim is None:
        dim = 1 if isinstance(layer, Linear | TransposedConvolution) else 0
    hook = SpectralWeight(name, _dimension(dim, weight), n_power_iterations, eps)
    rows, rest = as_matrix(weight.detach(), hook.dim).shape
    random = np.random.default_rng(0)
    u, v = (_unit_vector(random, size, weight.dtype.numpy) for size in (rows, rest))
    del layer._parameters[name]
    layer.add_parameter(f"{name}_orig", weight)
    layer.register_buffer(f"{name}_u", u)
    layer.register_buffer(f"{name}_v", v)
    hook.iterate(weight, u, v, FIRST_ITERATIONS)
    hook(layer, ())
    vars(layer)[_HANDLES] = {**vars(layer).get(_HANDLES, {}), name: (hook, layer.register_forward_pre_hook(hook))}
    return layer


def _unit_vector(random: np.random.Generator, size: int, dtype: Any) -> Tensor:
    vector = random.standard_normal(size)
    return Tensor((vector / np.linalg.norm(vector)).astype(dtype))
