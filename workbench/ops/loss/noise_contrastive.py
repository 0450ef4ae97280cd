"""Noise-contrastive estimation: a class among many, told from a few that are drawn.

Source: Gutmann and Hyvärinen, "Noise-contrastive estimation", AISTATS 2010.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import int64
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import ROWS, Spec, require_float, require_same_dtype, same_dim, shape_text
from workbench.ops.index.embedding import scatter_rows
from workbench.ops.index.gather import gather
from workbench.ops.index_range import require_in_range
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import EXP, LOG
from workbench.ops.precision import in_float32
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.shape import reshape, unsqueeze

UNIFORM, LOG_UNIFORM, CUSTOM = 0, 1, 2  # Paddle's numbers for how classes are drawn


def _infer(
    x: Spec, label: Spec, weight: Spec, bias: Spec | None, sample_weight: Spec | None, probabilities: Spec | None,
    num_total_classes: int, num_neg_samples: int, sampler: int, **attrs: Any,
) -> tuple[Spec, ...]:  # fmt: skip
    require_float("nce", x)
    require_same_dtype("nce", *[s for s in (x, weight, bias, sample_weight) if s is not None])
    if not label.dtype.is_integer:
        raise DtypeError("nce takes integers as labels", "an integer dtype", label.dtype)
    if len(x.shape) != 2 or len(label.shape) != 2 or not same_dim(x.shape[0], label.shape[0]):
        expected = "[n, width] and [n, true classes]"
        raise ShapeError("Input and Label of nce", expected, f"{shape_text(x.shape)} and {shape_text(label.shape)}")
    given: list[tuple[str, Spec | None, tuple[int, ...]]]
    given = [("Weight", weight, (num_total_classes, x.shape[1])), ("Bias", bias, (num_total_classes, 1))]
    given += [
        ("SampleWeight", sample_weight, (x.shape[0], 1)),
        ("CustomDistProbs", probabilities, (num_total_classes,)),
    ]
    for name, spec, shape in given:
        if spec is not None and not (len(spec.shape) == len(shape) and all(map(same_dim, spec.shape, shape))):
            raise ShapeError(f"{name} of nce", shape_text(shape), shape_text(spec.shape))
    if num_neg_samples < 1 or num_total_classes < 2:
        raise ShapeError("nce", "at least two classes and one that is drawn", f"{num_total_classes}, {num_neg_samples}")
    if sampler not in (UNIFORM, LOG_UNIFORM, CUSTOM) or (sampler == CUSTOM) != (probabilities is not None):
        raise ShapeError("how nce draws classes", "0, 1, or 2 with CustomDistProbs", sampler)
    count = -1 if label.shape[1] < 0 else label.shape[1] + num_neg_samples
    return Spec((x.shape[0], 1), x.dtype), Spec((x.shape[0], count), x.dtype), Spec((x.shape[0], count), int64)


def _drawn(xp: Any, rng: Any, shape: tuple[int, int], classes: int, sampler: int, probabilities: Any) -> Any:
    """Classes that stand for what is not there, int64."""
    numbers = rng.uniform(xp, shape, "float64")
    if sampler == UNIFORM:
        drawn = xp.floor(numbers * classes)
    elif sampler == LOG_UNIFORM:  # the last class is never drawn, as in Paddle
        drawn = xp.floor(xp.exp(numbers * math.log(classes))) - 1
        return xp.clip(drawn, 0, classes - 2).astype("int64")
    else:
        ends = xp.cumsum(probabilities.astype("float64"))
        drawn = xp.searchsorted(ends, numbers * ends[-1], side="right")
    return xp.minimum(drawn, classes - 1).astype("int64")


def _noise(labels: Any, log: Any, classes: int, count: int, sampler: int, probabilities: Any) -> Any:
    """How many of `count` draws each class is expected in; a number where it is the same for all."""
    if sampler == UNIFORM:
        return count / classes
    if sampler == LOG_UNIFORM:
        return log((labels + 2.0) / (labels + 1.0)) * (count / math.log(classes))
    return probabilities * float(count)


def _slopes(xp: Any, chances: Any, noise: Any, is_true: Any) -> Any:
    """The derivative of every cost by its logit."""
    return xp.where(is_true, noise * (chances - 1.0), chances * (1.0 - chances)) / (chances + noise)


def _rule(
    g: Any, out: Any, x: Any, label: Any, weight: Any, bias: Any, sample_weight: Any, probabilities: Any,
    num_total_classes: int, num_neg_samples: int, sampler: int, **attrs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    labels = out[2]
    classes = gather(weight, reshape(labels, [-1]))
    classes = reshape(classes, [-1, labels.shape[1], x.shape[1]])
    logits = reduce_sum(unsqueeze(x, 1) * classes, axis=-1)
    if bias is not None:
        logits = logits + reshape(gather(bias, reshape(labels, [-1])), [-1, labels.shape[1]])
    chances = 1.0 / (1.0 + EXP(logits * -1.0))
    each = None
    if probabilities is not None:
        each = reshape(gather(probabilities, reshape(labels, [-1])), [-1, labels.shape[1]]).astype(x.dtype)
    noise = _noise(labels.astype(x.dtype), LOG, num_total_classes, num_neg_samples, sampler, each)
    is_true = assign((np.arange(labels.shape[1]) < label.shape[1]).astype(np.int64)).astype(x.dtype)
    slope = (is_true * noise * (chances - 1.0) + (1.0 - is_true) * chances * (1.0 - chances)) / (chances + noise)
    slope = slope * (g[0] if sample_weight is None else g[0] * sample_weight)
    return (
        reduce_sum(unsqueeze(slope, 2) * classes, axis=1),
        None,
        lambda: scatter_rows(labels, unsqueeze(slope, 2) * unsqueeze(x, 1), weight),
        None if bias is None else lambda: scatter_rows(labels, unsqueeze(slope, 2), bias),
        None,
        None,
    )


@in_float32
def _back(
    xp: Any, x: Any, label: Any, weight: Any, bias: Any, sample_weight: Any, probabilities: Any,
    chances: Any, labels: Any, g: Any, g_chances: Any, g_labels: Any, wanted: Any,
    num_total_classes: int, num_neg_samples: int, sampler: int, is_sparse: bool, **attrs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    each = None if probabilities is None else probabilities[labels].astype(x.dtype)
    noise = _noise(labels.astype(x.dtype), xp.log, num_total_classes, num_neg_samples, sampler, each)
    slope = _slopes(xp, chances, noise, xp.arange(labels.shape[1]) < label.shape[1]) * g
    slope = (slope if sample_weight is None else slope * sample_weight).astype(x.dtype)

    def of_rows(values: Any, table: Any) -> Any:
        gradient = Rows(labels.reshape(-1), values.reshape(-1, table.shape[1]), table.shape[0])
        return gradient if is_sparse else gradient.to_dense(xp)

    return (
        (slope[:, :, None] * weight[labels]).sum(axis=1),
        of_rows(slope[:, :, None] * x[:, None, :], weight) if wanted[1] else None,
        of_rows(slope[:, :, None], bias) if bias is not None and wanted[2] else None,
    )


def _infer_back(x: Spec, label: Spec, weight: Spec, bias: Spec | None, *others: Any, **attrs: Any) -> tuple[Any, ...]:
    def kind(table: Spec | None) -> Spec | None:
        return table if table is None or not attrs["is_sparse"] else Spec(table.shape, table.dtype, ROWS)

    return x, kind(weight), kind(bias)


@op(
    "nce",
    "Input, Label, Weight, Bias?, SampleWeight?, CustomDistProbs? -> Cost, SampleLogits, SampleLabels",
    attrs={
        "num_total_classes": 2,
        "num_neg_samples": 10,
        "sampler": UNIFORM,
        "is_sparse": False,
        "seed": 0,
        "stream": 0,
    },
    infer=_infer,
    grad=_rule,
    grad_forward=_back,
    grad_infer=_infer_back,
    saved="Input, Label, Weight, Bias, SampleWeight, CustomDistProbs, SampleLogits, SampleLabels",
    no_grad="Label, SampleWeight, CustomDistProbs",
    by_products="SampleLogits, SampleLabels",
    needs="rng",
)
@in_float32
def NCE(
    xp: Any, x: Any, label: Any, weight: Any, bias: Any, sample_weight: Any, probabilities: Any, rng: Any,
    num_total_classes: int, num_neg_samples: int, sampler: int, **attrs: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The cost of every row: of its true classes not being told from noise, and of noise being taken for true.

    With o the chance the model gives a class and b how often it is expected among what is drawn, a true class costs
    -log(o / (o + b)), a drawn one -log(b / (o + b)). SampleLabels are the true and then the drawn classes of each row,
    SampleLogits their o.
    """
    require_in_range(xp, "nce: label", label, num_total_classes)
    drawn = _drawn(xp, rng, (x.shape[0], num_neg_samples), num_total_classes, sampler, probabilities)
    labels = xp.concatenate([label.astype("int64"), drawn], axis=1)
    logits = (x[:, None, :] * weight[labels]).sum(axis=-1)
    if bias is not None:
        logits = logits + bias[labels][..., 0]
    chances = (1 / (1 + xp.exp(-logits))).astype(x.dtype)
    each = None if probabilities is None else probabilities[labels].astype(x.dtype)
    noise = _noise(labels.astype(x.dtype), xp.log, num_total_classes, num_neg_samples, sampler, each)
    likely = xp.where(xp.arange(labels.shape[1]) < label.shape[1], chances, noise) / (chances + noise)
    costs = -xp.log(likely)
    if sample_weight is not None:
        costs = costs * sample_weight
    return costs.sum(axis=1, keepdims=True).astype(x.dtype), chances, labels
