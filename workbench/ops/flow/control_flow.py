"""Control flow: `cond` and `while`, ops that run sub-blocks.

Both are functions of their inputs: a sub-block reads nothing but what the op hands it (`Input` holds the outer
values it captures) and writes nothing outside. Values the gradient needs are kept in `Saved`, one entry per pass;
`append_backward` names them (`true_saved`, `false_saved`, `body_saved`) when it makes the gradient blocks; until then
nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.errors import DtypeError, EnforceNotMet, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.grad_op import require_like
from workbench.framework.program.infer import Named
from workbench.framework.program.reading.sized_block import SizedBlock
from workbench.framework.values import rows
from workbench.framework.values.dtype import uint8
from workbench.framework.values.spec import STACK, Spec, shape_text

RunBlock = Callable[..., list[Any]]


class Stack:
    """What passes through sub-blocks saved for the gradient: one dict of values per pass, in order.

    Attributes:
        shapes: of what the block that ran gave, by name; empty where they were known beforehand.
    """

    dtype = uint8.numpy

    def __init__(self) -> None:
        self.passes: list[dict[str, Any]] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.passes),)

    def push(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Keep the values of one pass."""
        self.passes.append(dict(zip(names, values, strict=True)))


SAVED = Spec((-1,), uint8, STACK)


def merge_specs(what: str, first: Spec, second: Spec) -> Spec:
    """One spec for a value that comes from either of two sides; dimensions that differ become unknown.

    Raises:
        DtypeError, ShapeError: dtype or rank differ.
    """
    if first.dtype is not second.dtype:
        raise DtypeError(f"{what} must have one dtype on both sides", first.dtype, second.dtype)
    if len(first.shape) != len(second.shape):
        raise ShapeError(f"{what} must have as many dimensions on both sides", str(first), str(second))
    return first.with_shape(a if a == b else -1 for a, b in zip(first.shape, second.shape, strict=True))


def require_predicate(what: str, spec: Spec) -> None:
    """Raise unless the spec is that of one bool."""
    if spec.dtype.kind != "bool":
        raise DtypeError(f"{what} must be a bool tensor", "bool", spec.dtype)
    if spec.shape not in ((), (1,), (-1,)):
        raise ShapeError(f"{what} must hold one element", "[1]", str(spec))


def _sized(block: Any, names: Sequence[str], specs: Sequence[Spec] | None) -> Named:
    """A block for inputs like these; as it was declared, should one of its operators not take them."""
    try:
        return SizedBlock(block, dict(zip(names, specs or (), strict=False)))
    except EnforceNotMet:
        return block


def _infer_cond(cond: Spec, inputs: list[Spec] | None, **attrs: Any) -> Any:
    require_predicate("the predicate of cond", cond)
    return _outs_of_cond(attrs["true_block"], attrs["false_block"], inputs, **attrs), SAVED


def _outs_of_cond(
    true: Any, false: Any, inputs: list[Spec] | None, input_names: Any, true_outs: Any, false_outs: Any, **attrs: Any
) -> list[Spec]:
    """What comes from either of two blocks."""
    true_block, false_block = (_sized(block, input_names, inputs) for block in (true, false))
    return [
        merge_specs(f"output {i} of cond", true_block.spec(t), false_block.spec(f))
        for i, (t, f) in enumerate(zip(true_outs, false_outs, strict=True))
    ]


_COND_ATTRS: dict[str, Any] = {
    "true_block": None, "false_block": None, "true_outs": (), "false_outs": (), "true_saved": (), "false_saved": (),
    "input_names": (),
}  # fmt: skip


@op("cond", "Cond, Input*? -> Out*?, Saved?", attrs=_COND_ATTRS, infer=_infer_cond, needs="run_block")
def cond_op(xp: Any, cond: Any, inputs: Any, run_block: RunBlock, **attrs: Any) -> Any:
    """Run one of two blocks."""
    side = "true" if bool(cond.reshape(()).item()) else "false"
    outs, saved = list(attrs[f"{side}_outs"]), list(attrs[f"{side}_saved"])
    values = run_block(attrs[f"{side}_block"], dict(zip(attrs["input_names"], inputs or (), strict=True)), outs + saved)
    stack = Stack()
    stack.push(saved, values[len(outs) :])
    stack.shapes = {name: value.shape for name, value in zip(outs, values, strict=False)}
    return values[: len(outs)], stack


_COND_GRAD_ATTRS: dict[str, Any] = {
    "true_block": None, "false_block": None, "true_outs": (), "false_outs": (), "true_seeds": (), "false_seeds": (),
    "true_grads": (), "false_grads": (), "input_names": (), "grad_index": (),
}  # fmt: skip


def _infer_cond_grad(cond: Spec, inputs: list[Spec], saved: Spec, grads: list[Spec], **attrs: Any) -> list[Spec]:
    if attrs["true_outs"]:  # programs saved by earlier versions do not say what the gradients are of
        true, false = (attrs[f"{side}_block"].parent for side in ("true", "false"))
        require_like("Out@GRAD", "Out", grads, _outs_of_cond(true, false, inputs, **attrs))
    return [inputs[i] for i in attrs["grad_index"]]


@op(
    "cond_grad",
    "Cond, Input*, Saved, Out@GRAD* -> Input@GRAD*",
    attrs=_COND_GRAD_ATTRS,
    infer=_infer_cond_grad,
    needs="run_block",
)
def cond_grad_op(xp: Any, cond: Any, inputs: Any, saved: Stack, grads: Any, run_block: RunBlock, **attrs: Any) -> Any:
    """Run the gradient block of the side that was taken."""
    side = "true" if bool(cond.reshape(()).item()) else "false"
    outs = zip(grads, attrs[f"{side}_outs"], strict=False)
    _require_shapes((grad, saved.shapes.get(name, grad.shape)) for grad, name in outs)
    given = dict(zip(attrs["input_names"], inputs, strict=True)) | saved.passes[0]
    given.update(zip(attrs[f"{side}_seeds"], grads, strict=True))
    wanted = [n for n in attrs[f"{side}_grads"] if n]
    by_name = dict(zip(wanted, run_block(attrs[f"{side}_block"], given, wanted), strict=True))
    names = attrs[f"{side}_grads"]
    return [_dense(xp, by_name.get(n), inputs[i]) for n, i in zip(names, attrs["grad_index"], strict=True)]


def _infer_while(xs: list[Spec], inputs: list[Spec] | None, **attrs: Any) -> Any:
    names = [*attrs["x_names"], *attrs["input_names"]]
    body = _sized(attrs["body_block"], names, [*xs, *(inputs or ())])
    require_predicate("the condition of while_loop", attrs["cond_block"].spec(attrs["cond_out"]))
    outs = [
        merge_specs(f"loop variable {i}", x, body.spec(name))
        for i, (x, name) in enumerate(zip(xs, attrs["body_outs"], strict=True))
    ]
    return outs, SAVED


_WHILE_ATTRS: dict[str, Any] = {
    "cond_block": None, "body_block": None, "x_names": (), "input_names": (), "cond_out": "", "body_outs": (),
    "body_saved": (), "save": False,
}  # fmt: skip


@op("while", "X*, Input*? -> Out*, Saved?", attrs=_WHILE_ATTRS, infer=_infer_while, needs="run_block")
def while_op(xp: Any, xs: Any, inputs: Any, run_block: RunBlock, **attrs: Any) -> Any:
    """Run the body as long as the condition holds."""
    captured = dict(zip(attrs["input_names"], inputs or (), strict=True))
    x_names, outs, saved = attrs["x_names"], list(attrs["body_outs"]), list(attrs["body_saved"])
    values, stack, trip = list(xs), Stack(), 0
    while True:
        given = captured | dict(zip(x_names, values, strict=True))
        (go_on,) = run_block(attrs["cond_block"], given, [attrs["cond_out"]], trip)
        if not bool(go_on.reshape(()).item()):
            return values, stack
        results = run_block(attrs["body_block"], given, outs + saved, trip)
        if attrs["save"]:
            stack.push([*x_names, *saved], [*values, *results[len(outs) :]])
        values, trip = results[: len(outs)], trip + 1


_WHILE_GRAD_ATTRS: dict[str, Any] = {
    "grad_block": None, "x_names": (), "input_names": (), "seeds": (), "seed_index": (), "x_grads": (),
    "input_grads": (), "input_index": (),
}  # fmt: skip


def _infer_while_grad(xs: list[Spec], inputs: Any, outs: Any, saved: Any, grads: Any, **attrs: Any) -> Any:
    require_like("Out@GRAD", "Out", grads, [outs[i] for i in attrs["seed_index"]])
    return [xs[i] for i in attrs["seed_index"]], [inputs[i] for i in attrs["input_index"]]


@op(
    "while_grad",
    "X*, Input*?, Out*, Saved, Out@GRAD* -> X@GRAD*, Input@GRAD*?",
    attrs=_WHILE_GRAD_ATTRS,
    infer=_infer_while_grad,
    needs="run_block",
)
def while_grad_op(
    xp: Any, xs: Any, inputs: Any, outs: Any, saved: Stack, grads: Any, run_block: RunBlock, **attrs: Any
) -> Any:
    """Go back through the passes: gradients of loop variables are handed on, those of captured values add up."""
    captured = dict(zip(attrs["input_names"], inputs or (), strict=True))
    _require_shapes((grad, outs[i].shape) for grad, i in zip(grads, attrs["seed_index"], strict=True))
    carried = list(grads)
    totals: list[Any] = [None for _ in attrs["input_index"]]
    wanted = [n for n in (*attrs["x_grads"], *attrs["input_grads"]) if n]
    for trip in range(len(saved.passes) - 1, -1, -1):
        given = captured | saved.passes[trip] | dict(zip(attrs["seeds"], carried, strict=True))
        by_name = dict(zip(wanted, run_block(attrs["grad_block"], given, wanted, trip), strict=True))
        x_values = [saved.passes[trip][n] for n in attrs["x_names"]]
        carried = [
            by_name[n] if n else xp.zeros_like(x_values[i])
            for n, i in zip(attrs["x_grads"], attrs["seed_index"], strict=True)
        ]
        totals = [_plus(xp, t, by_name.get(n)) for t, n in zip(totals, attrs["input_grads"], strict=True)]
    return carried, [_dense(xp, t, inputs[i]) for t, i in zip(totals, attrs["input_index"], strict=True)]


def _require_shapes(pairs: Iterable[tuple[Any, tuple[int, ...]]]) -> None:
    """What nobody knows before the step runs: each gradient has the shape of what it is the gradient of."""
    for grad, shape in pairs:
        if grad.shape != shape:
            raise ShapeError("Out@GRAD must have the shape of Out", shape_text(shape), shape_text(grad.shape))


def _plus(xp: Any, total: Any, gradient: Any) -> Any:
    """Gradients of one value added up; None, arrays and sparse ones in any mixture."""
    if total is None or gradient is None:
        return gradient if total is None else total
    if not (isinstance(total, rows.Rows) or isinstance(gradient, rows.Rows)) and total.shape == gradient.shape:
        return total + gradient
    return rows.add(xp, [total, gradient])


def _dense(xp: Any, gradient: Any, like: Any) -> Any:
    """A gradient as control flow hands it out: an array, zeros if there is none."""
    return xp.zeros_like(like) if gradient is None else rows.dense(xp, gradient)
