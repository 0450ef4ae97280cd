"""decorate: models and optimizers made ready for half precision."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.notice import tell_without_effect
from workbench.framework.values.dtype import as_dtype, bfloat16, float16
from workbench.layers.layer import Layer
from workbench.layers.weighted.batch_norms import BatchNorm, BatchNormLayer
from workbench.layers.weighted.norms import GroupNorm, InstanceNormLayer, LayerNorm
from workbench.optimizer.optimizer import Optimizer

NORMS = (BatchNorm, BatchNormLayer, LayerNorm, GroupNorm, InstanceNormLayer)


def decorate(
    models: Any,
    optimizers: Any = None,
    level: str = "O1",
    dtype: Any = "float16",
    master_weight: bool | None = None,
    save_dtype: Any = None,
    master_grad: bool = False,
    excluded_layers: Any = None,
) -> Any:
    """Have models compute in half precision, and optimizers keep float32 copies of their parameters.

    Args:
        models: a layer or a list of them. optimizers: an optimizer, a list of them, or None.
        level: "O1" changes nothing: `auto_cast` converts op by op. "O2" converts the parameters, except those of
            normalisations.
        dtype: "float16" or "bfloat16".
        master_weight: False updates the parameters themselves.
        save_dtype: without effect, which a notice says; `state_dict` has parameters as they are.
        master_grad: the same; updates compute in float32 anyway.
        excluded_layers: classes of layers that stay as they are.

    Returns:
        the models; with optimizers the pair of both. What was no list comes back as none.

    Raises:
        InvalidArgument: an unknown level. InvalidType: no layer, optimizer or half precision.

    Example:
        >>> net = wb.nn.Linear(2, 2)
        >>> net = wb.amp.decorate(net, level="O2", dtype="bfloat16")
        >>> net.weight.dtype
        workbench.bfloat16
    """
    if level not in ("O1", "O2"):
        raise InvalidArgument(f"decorate takes the levels 'O1' and 'O2', got {level!r}")
    tell_without_effect("amp.decorate", {"save_dtype": save_dtype is not None, "master_grad": bool(master_grad)})
    kind = as_dtype(dtype)
    if kind not in (float16, bfloat16):
        raise InvalidType(f"decorate takes 'float16' or 'bfloat16' as dtype, got {dtype!r}")
    layers, owners = _checked("models", models, Layer), _checked("optimizers", optimizers, Optimizer)
    if level == "O2":
        for layer in layers:
            convert = layer.bfloat16 if kind is bfloat16 else layer.float16
            convert(excluded_layers=(*NORMS, *_classes(excluded_layers)))
        for owner in owners:
            owner._multi_precision = master_weight is not False
    return models if optimizers is None else (models, optimizers)


def _classes(excluded: Any) -> tuple[type, ...]:
    """Classes of layers as a tuple."""
    classes = tuple(excluded) if isinstance(excluded, list | tuple) else () if excluded is None else (excluded,)
    for kind in classes:
        if not isinstance(kind, type):
            raise InvalidType(f"excluded_layers are classes of layers, got {kind!r}")
    return classes


def _checked(what: str, values: Any, kind: type) -> list[Any]:
    listed = list(values) if isinstance(values, list | tuple) else [] if values is None else [values]
    for value in listed:
        if not isinstance(value, kind):
            raise InvalidType(f"decorate takes a {kind.__name__}, or a list of them, as {what}, got {value!r}")
    return listed
