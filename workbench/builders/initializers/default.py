"""What fills parameters that name no initializer: the one for all layers, the layer's own, or that of rule P-12."""

from __future__ import annotations

from workbench.builders.initializers.fans import XavierUniform
from workbench.builders.initializers.initializer import Constant, Initializer
from workbench.errors import InvalidType

_global: dict[str, Initializer | None] = {"weight": None, "bias": None}


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """Replace the default initializers of layers built from now on; None gives a layer's own default back.

    An initializer given in a `ParamAttr` still wins.

    Raises:
        InvalidType: an argument is no initializer.

    Example:
        >>> wb.enable_static()
        >>> wb.nn.initializer.set_global_initializer(wb.nn.initializer.Normal(std=0.02))
        >>> wb.nn.initializer.set_global_initializer(None)
    """
    for what, value in (("weight_init", weight_init), ("bias_init", bias_init)):
        if not (value is None or isinstance(value, Initializer)):
            raise InvalidType(f"set_global_initializer takes an initializer or None as {what}, got {value!r}")
    _global.update(weight=weight_init, bias=bias_init)


def default_initializer(is_bias: bool, layer_default: Initializer | None = None) -> Initializer:
    """What fills a parameter that names no initializer: the global one, the layer's, or P-12's."""
    chosen = _global["bias" if is_bias else "weight"] or layer_default
    if chosen is not None:
        return chosen
    return Constant(0.0) if is_bias else XavierUniform()
