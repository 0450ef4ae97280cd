"""`static.nn.nce`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.builders.initializers.initializer import Assign
from workbench.builders.layer import LayerBuilder, building
from workbench.builders.param_attr import required_attr, to_attr
from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import one_int
from workbench.ops.loss.noise_contrastive import CUSTOM, LOG_UNIFORM, NCE, UNIFORM

_SAMPLERS = {"uniform": UNIFORM, "log_uniform": LOG_UNIFORM, "custom_dist": CUSTOM}


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Any = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Variable:
    """The loss of noise-contrastive estimation: the true classes of a row are told from a few that are drawn.

    Args:
        input: `[n, width]`, width known.
        label: integers `[n, true classes]`, as many in each row.
        sample_weight: `[n, 1]`, what the loss of each row is multiplied with.
        param_attr: the weights `[num_total_classes, width]`. bias_attr: `[num_total_classes, 1]`; False leaves it out.
        num_neg_samples: how many classes are drawn for each row; 10 if None.
        sampler: "uniform"; "log_uniform", by which low numbers are likelier and the last class is never drawn;
            "custom_dist".
        custom_dist: for that, how probable each class is; adds up to 1.
        seed: of what is drawn; 0: the program's.
        is_sparse: gradients of weights and bias hold only the rows that were read.

    Returns:
        `[n, 1]`, divided by one more than the number of drawn classes.

    Raises:
        InvalidArgument: sizes that do not fit, an unknown sampler, probabilities that are none.

    Example:
        >>> wb.enable_static()
        >>> x, label = static.data("x", [None, 8]), static.data("label", [None, 1], "int64")
        >>> static.nn.nce(x, label, num_total_classes=1000).shape
        (-1, 1)
    """
    for what, given in (("input", input), ("label", label)):
        if not isinstance(given, Variable):
            raise not_a_variable(f"nce takes a Variable as {what}", given)
    if len(input.shape) != 2 or input.shape[1] < 1:
        raise ShapeError("nce takes rows of known width as input", "[n, width]", shape_text(input.shape))
    classes = one_int("nce's num_total_classes", num_total_classes)
    count = 10 if num_neg_samples is None else one_int("nce's num_neg_samples", num_neg_samples)
    if sampler not in _SAMPLERS:
        raise InvalidArgument(f"nce's sampler is one of {', '.join(map(repr, _SAMPLERS))}, got {sampler!r}")
    with building("nce", name) as layer:
        shares = _shares(layer, custom_dist, classes) if sampler == "custom_dist" else None
        w = layer.parameter(required_attr(param_attr, "param_attr", "nce"), [classes, input.shape[1]], input.dtype)
        attr = to_attr(bias_attr, "bias_attr")
        b = None if attr is None else layer.parameter(attr, [classes, 1], input.dtype, is_bias=True)
        cost = NCE(
            input, label, w, b, sample_weight, shares,
            num_total_classes=classes, num_neg_samples=count, sampler=_SAMPLERS[sampler], seed=seed,
            is_sparse=is_sparse, name=layer.name,
        )[0]  # fmt: skip
        loss: Variable = cost / (count + 1)
        return loss


def _shares(layer: LayerBuilder, custom_dist: Any, classes: int) -> Variable:
    """A variable with the probabilities that were given."""
    shares = np.asarray(custom_dist if custom_dist is not None else [], np.float64)
    if shares.shape != (classes,) or not np.all(shares >= 0) or abs(shares.sum() - 1) > 1e-3:
        raise InvalidArgument(
            f"nce's custom_dist has a probability for each of {classes} classes, which add up to 1, got {custom_dist!r}"
        )
    return layer.global_variable([classes], "float32", Assign(shares))
