"""`<type>_grad`: the backward op of a forward op, made from its declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.evaluate import Evaluator, reduce_to
from workbench.framework.op.record import Cost, Op, Slot, grad_slot
from workbench.framework.op.recorder import recording
from workbench.framework.op.traced_rule import traced_rule
from workbench.framework.values.dtype import HALVES
from workbench.framework.values.spec import Spec, same_dim, shape_text

_SAVED = frozenset({"saved"})


def backward_op(record: Op) -> Op:
    """The `Op` of `<type>_grad`.

    Inputs: every forward input (those not in `saved` only for their shape; an operator carries none of those that are
    `shaped_like` an output), the saved outputs, and the gradient of every output. Outputs: the gradient of every input
    that can have one.
    """
    saved_outputs = tuple(s for s in record.outputs if s.name in record.saved)
    inputs = (
        *(_carried(s, record) for s in record.inputs),
        *(Slot(s.name, s.is_list, s.optional, _SAVED) for s in saved_outputs),
        *(Slot(grad_slot(s.name), s.is_list, optional=True, traits=_SAVED) for s in record.outputs),
    )
    receivers = tuple(s for s in record.inputs if s.name not in record.no_grad)
    shown = inputs[-1].name if record.grad_view is not None else ""
    outputs = tuple(Slot(grad_slot(s.name), s.is_list, optional=True, alias=shown) for s in receivers)
    return Op(
        record.grad_type,
        inputs,
        outputs,
        _body(record, receivers, saved_outputs),
        _infer(record, receivers, saved_outputs),
        attrs=dict(record.attrs),
        needs=("wanted", *(n for n in record.needs if n in ("place", "run_block"))),
        kernel=record.grad_kernel,
        rows=record.grad_rows,
        cost=_cost(record),
        view=record.grad_view,
        traits=record.traits & {"elementwise", "layout_free"},  # a direct body keeps to the same functions
        doc=f"Gradient of `{record.type}`.",
        forward_of=record,
    )


def _carried(slot: Slot, record: Op) -> Slot:
    """An input of the op as one of its backward op."""
    traits = _SAVED if "saved" in slot.traits else _SAVED | {"shape_only"}
    like = slot.shaped_like
    shaped_like = like if not like or like in record.saved else grad_slot(like)
    return Slot(slot.name, slot.is_list, slot.optional, traits | slot.traits & {"sparse"}, shaped_like=shaped_like)


def _infer(record: Op, receivers: tuple[Slot, ...], saved_outputs: tuple[Slot, ...]) -> Callable[..., Any]:
    positions = [i for i, s in enumerate(record.inputs) if s in receivers]

    def like_inputs(*specs: Any, **attrs: Any) -> Any:
        inferred = tuple(specs[i] for i in positions)
        return inferred[0] if len(inferred) == 1 else inferred

    own = record.grad_infer or like_inputs

    def infer(*specs: Any, **attrs: Any) -> Any:
        _require_outputs(record, saved_outputs, specs, attrs)
        return own(*specs, **attrs)

    return infer


def _require_outputs(record: Op, saved_outputs: Sequence[Slot], specs: Sequence[Any], attrs: dict[str, Any]) -> None:
    """What is given of the outputs, and of their gradients, is what the op makes of these inputs.

    Raises:
        ShapeError, DtypeError: it is not, or the op does not take the inputs.
    """
    inferred = record.infer(*specs[: len(record.inputs)], **attrs)
    outputs = dict(zip(record.outputs, (inferred,) if len(record.outputs) == 1 else inferred, strict=True))
    given = zip((*saved_outputs, *record.outputs), specs[len(record.inputs) :], strict=True)
    for number, (slot, spec) in enumerate(given):
        name = slot.name if number < len(saved_outputs) else grad_slot(slot.name)
        require_like(name, slot.name, spec, outputs[slot])


def require_like(name: str, output: str, spec: Any, inferred: Any) -> None:
    """What is given as `name` has shape and dtype of what the op makes as `output`.

    Args:
        spec, inferred: the spec of each, or a list of specs; nothing is asked where either is None.

    Raises:
        ShapeError, DtypeError: it has others, or there are more or fewer of them.
    """
    if spec is None or inferred is None:
        return
    if isinstance(inferred, list):
        if len(spec) != len(inferred):
            raise ShapeError(f"{name} must have an entry for each of {output}", f"{len(inferred)} of them", len(spec))
        for one, other in zip(spec, inferred, strict=True):
            require_like(name, output, one, other)
        return
    if spec.dtype is not inferred.dtype:
        raise DtypeError(f"{name} must have the dtype of {output}", inferred.dtype, spec.dtype)
    if len(spec.shape) != len(inferred.shape) or not all(map(same_dim, spec.shape, inferred.shape)):
        raise ShapeError(f"{name} must have the shape of {output}", shape_text(inferred.shape), shape_text(spec.shape))


def _cost(record: Op) -> Callable[..., Cost] | None:
    """Twice the forward work where a rule knows it: a product has two gradients, each a product as large."""
    forward_cost = record.cost
    if forward_cost is None:
        return None

    def cost(*specs: Any, **attrs: Any) -> Cost:
        work = forward_cost(*specs[: len(record.inputs)], **attrs)
        return Cost(2 * work.flops, 2 * work.bytes)

    return cost


def _body(record: Op, receivers: tuple[Slot, ...], saved_outputs: tuple[Slot, ...]) -> Callable[..., Any]:
    if record.grad_forward is not None:
        return record.grad_forward
    positions = [i for i, s in enumerate(record.inputs) if s in receivers]
    body = rule_body(record, positions, saved_outputs)
    plain = record.is_elementwise and not record.sparse and not any(s.is_list for s in record.inputs)
    return traced_rule(body, positions) if plain else body


def rule_body(record: Op, positions: Sequence[int], saved_outputs: Sequence[Slot]) -> Callable[..., Any]:
    """The body that runs `record.grad` through public ops, for the inputs at `positions`."""
    n_in = len(record.inputs)
    lift = _lift if record.is_view or "run_block" in record.needs else _lift_wide  # which compute nothing themselves

    def forward(xp: Any, *arrays: Any, wanted: Sequence[bool] | None = None, **attrs: Any) -> Any:
        """Run the gradient rule on arrays, in float32 for halves; then undo broadcasting, and round once."""
        evaluator = Evaluator(xp)
        ins = [lift(evaluator, a) for a in arrays[:n_in]]
        rest = iter(arrays[n_in:])
        kept = {s.name: lift(evaluator, next(rest)) for s in saved_outputs}
        outs = [kept.get(s.name) for s in record.outputs]
        gs = [lift(evaluator, g) for g in rest]
        with recording(evaluator):
            grads = call_rule(record, gs, outs, ins, attrs)
            results = []
            for place, position in enumerate(positions):
                keep = wanted is None or wanted[place]
                results.append(_lower(xp, grads[position], arrays[position]) if keep else None)
        return results[0] if len(results) == 1 else tuple(results)

    return forward


def call_rule(record: Op, gs: list[Any], outs: list[Any], ins: list[Any], attrs: dict[str, Any]) -> list[Any]:
    """Call `record.grad`; returns one entry per input slot (a value, a list, None, or a function giving it).

    A rule of an op with one output slot gets `g` and `out` themselves, otherwise tuples; it may return the
    gradients as functions, which are called only for those that are wanted.
    """
    assert record.grad is not None
    one = len(record.outputs) == 1
    g, out = (gs[0], outs[0]) if one else (tuple(gs), tuple(outs))
    grads = record.grad(g, out, *ins, **attrs)
    if not isinstance(grads, tuple):
        grads = (grads,)
    return list(grads) + [None] * (len(record.inputs) - len(grads))


def _lift(evaluator: Any, array: Any) -> Any:
    if array is None:
        return None
    if isinstance(array, list):
        return [_lift(evaluator, a) for a in array]
    return evaluator.wrap(array)


def _lift_wide(evaluator: Any, array: Any) -> Any:
    """The same, float16 and bfloat16 as float32."""
    if isinstance(array, list):
        return [_lift_wide(evaluator, a) for a in array]
    is_half = array is not None and array.dtype.char in HALVES
    return _lift(evaluator, array.astype("float32") if is_half else array)


def _lower(xp: Any, grad: Any, array: Any) -> Any:
    """The array of a gradient, in the shape and dtype of the input it belongs to; zeros where the rule has none."""
    if callable(grad):
        grad = grad()
    if array is None:
        return None
    if isinstance(array, list):
        return [_lower(xp, g, a) for g, a in zip(grad or [None] * len(array), array, strict=True)]
    if grad is None:
        return None if getattr(array, "symbolic", False) else xp.zeros_like(array)
    g = grad.array
    if getattr(g, "symbolic", False):
        return g.astype(array.dtype) if array.dtype.char in HALVES else g
    g = reduce_to(xp, g, array.shape)
    return g if g.dtype == array.dtype else g.astype(array.dtype)


def receiver_slots(record: Op) -> tuple[Slot, ...]:
    """The input slots of a forward op that can receive a gradient, in order."""
    return tuple(s for s in record.inputs if s.name not in record.no_grad)


def spec_like(spec: Any) -> Any:
    """The spec of a gradient of a value: the same, dense."""
    return [spec_like(s) for s in spec] if isinstance(spec, list) else Spec(spec.shape, spec.dtype)
