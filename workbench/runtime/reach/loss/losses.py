"""Softmax and cross entropy of class labels, along rows."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches
from workbench.runtime.reach.divide import divides


@divides("rows", x=(FLOAT, "width"), out=(FLOAT, "width"), most=(FLOAT,), total=(FLOAT,))
@reaches("x", "out", "most", "total")
def softmax(x: Any, out: Any, most: Any, total: Any, rows: int, width: int) -> Any:
    return FLOAT * rows * width, FLOAT * rows * width, FLOAT * rows, FLOAT * rows


@divides("rows", y=(FLOAT, "width"), g=(FLOAT, "width"), out=(FLOAT, "width"))
@reaches("y", "g", "out")
def softmax_grad(y: Any, g: Any, out: Any, rows: int, width: int) -> Any:
    return (FLOAT * rows * width,) * 3


@divides("rows", logits=(FLOAT, "classes"), label=(WORD,), softmax=(FLOAT, "classes"), loss=(FLOAT,), beside=(FLOAT,))
@reaches("logits", "label", "softmax", "loss", "beside")
def cross_entropy(
    logits: Any, label: Any, softmax: Any, loss: Any, beside: Any, rows: int, classes: int, ignored: int
) -> Any:
    whole = FLOAT * rows * classes
    return whole, WORD * rows, whole, FLOAT * rows, FLOAT * rows


@divides("rows", softmax=(FLOAT, "classes"), label=(WORD,), g=(FLOAT,), out=(FLOAT, "classes"))
@reaches("softmax", "label", "g", "out")
def cross_entropy_grad(
    softmax: Any, label: Any, g: Any, out: Any, rows: int, classes: int, ignored: int
) -> Any:  # fmt: skip
    return FLOAT * rows * classes, WORD * rows, FLOAT * rows, FLOAT * rows * classes
