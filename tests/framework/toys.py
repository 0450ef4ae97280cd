"""Small ops that the tests of the framework declare, so that they depend on no real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.record import OPS
from workbench.framework.values.dtype import as_dtype, uint8
from workbench.framework.values.spec import STACK, Spec, same_dim

_before = dict(OPS)

relu = elementwise("toy_relu", grad=lambda g, y, x: g * y)(lambda xp, x: xp.maximum(x, 0))
add = elementwise("toy_add", "X, Y -> Out")(lambda xp, x, y: x + y)


def _infer_mul(x: Spec, y: Spec, transpose: bool) -> Spec:
    rows, columns = y.shape[::-1] if transpose else y.shape
    if not same_dim(x.shape[-1], rows):
        raise ShapeError("inner dimensions must be equal", x.shape[-1], rows)
    return Spec((*x.shape[:-1], columns), x.dtype)


@op("toy_mul", "X, Y -> Out", infer=_infer_mul, attrs={"transpose": False})
def mul(xp: Any, x: Any, y: Any, transpose: bool) -> Any:
    return x @ (y.T if transpose else y)


@op("toy_mean", "X -> Out", infer=lambda x: Spec((1,), x.dtype), layer="mean")
def mean(xp: Any, x: Any) -> Any:
    return x.mean().reshape(1)


@op("toy_split", "X -> Out*", infer=lambda x, num: [x] * num, attrs={"num": 2})
def split(xp: Any, x: Any, num: int) -> Any:
    return xp.split(x, num)


@op("toy_concat", "X* -> Out", infer=lambda xs, axis: xs[0], attrs={"axis": 0})
def concat(xp: Any, xs: Any, axis: int) -> Any:
    return xp.concatenate(xs, axis)


@op(
    "toy_dropout",
    "X, Table? -> Out, Mask?",
    infer=lambda x, table, is_test, **attrs: (x, None if is_test else x.with_dtype(uint8)),
    attrs={"p": 0.5, "is_test": False, "seed": 0, "stream": 0, "startup": True},  # so it needs no step counter
    needs="rng",
)
def dropout(xp: Any, x: Any, table: Any, **attrs: Any) -> Any:
    return x, x > 0


@op(
    "toy_constant",
    "-> Out",
    infer=lambda shape, value, dtype: Spec(tuple(shape), as_dtype(dtype)),
    attrs={"shape": (), "value": None, "dtype": "float32"},
)
def constant(xp: Any, shape: Any, value: Any, dtype: str) -> Any:
    return xp.full(shape, value, dtype)


@op(
    "toy_sgd",
    "Param, Grad, LearningRate -> ParamOut",
    infer=lambda p, g, lr: p,
    aliases={"ParamOut": "Param"},
)
def sgd(xp: Any, p: Any, g: Any, lr: Any) -> Any:
    return p - lr * g


@op("toy_increment", "X -> Out", infer=lambda x, step: x, attrs={"step": 1.0}, aliases={"Out": "X"})
def increment(xp: Any, x: Any, step: float) -> Any:
    return x + step


@op("toy_print", "X ->", infer=lambda x, text: (), attrs={"text": ""})
def show(xp: Any, x: Any, text: str) -> Any:
    return ()


@op(
    "toy_run",
    "Input*? -> Out*, Saved?",
    infer=lambda xs, block, outs, block_saved: ([block.spec(n) for n in outs], Spec((-1,), uint8, STACK)),
    attrs={"block": None, "outs": (), "block_saved": ()},
    needs="run_block",
)
def run(xp: Any, xs: Any, block: Any, outs: Any, block_saved: Any, run_block: Any) -> Any:
    return run_block(block, {}, outs), None


@op("toy_any", "X*? -> Out*?", infer=lambda xs, **attrs: xs, attrs={"value": None, "more": None})
def anything(xp: Any, xs: Any, value: Any, more: Any) -> Any:
    return xs


TOYS = {type: record for type, record in OPS.items() if type not in _before}
for _type in TOYS:
    del OPS[_type]


@contextmanager
def toys_declared() -> Iterator[None]:
    """The toy ops are in the op table inside the `with` body."""
    added = [type for type in TOYS if type not in OPS]
    OPS.update({type: TOYS[type] for type in added})
    try:
        yield
    finally:
        for type in added:
            del OPS[type]
