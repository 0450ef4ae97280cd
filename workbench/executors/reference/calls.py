"""A block as a flat list of calls: what to run, in order, with nothing left to look up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.config import get_flag
from workbench.errors import EnforceNotMet
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.names import EMPTY
from workbench.framework.op.record import flat
from workbench.framework.outside import is_from_outside
from workbench.framework.program.block import Block
from workbench.framework.program.failures import not_finite, op_failure, uninitialised
from workbench.framework.program.infer import GradientCheck
from workbench.framework.program.operator import Operator
from workbench.framework.values.spec import spec_of

Values = dict[str, Any]
Pairs = list[tuple[str, Any]]
_BY_EXECUTOR = frozenset({"rng", "run_block", "place", "client", "rings"})


@dataclass
class Call:
    """One operator, ready to run.

    Attributes:
        ins: per input slot a name, a list of names, or None. outs: per output slot the names, () when nobody wants it.
        written: all names it writes. needs: what the executor has to hand over by keyword.
        check: of a backward operator, whether it takes what it gets. frees: names nobody reads after this call.
    """

    op: Operator
    forward: Callable[..., Any]
    ins: list[Any]
    outs: list[tuple[str, ...]]
    written: list[str]
    attrs: dict[str, Any]
    needs: frozenset[str]
    check: GradientCheck | None
    frees: list[str] = field(default_factory=list)


def make_call(op: Operator) -> Call:
    """The call of an operator."""
    record, operands = op.form, op.operands
    ins: list[Any] = []
    for slot in record.inputs:
        names = operands.get(slot.name) if slot.name not in record.named_only else None
        ins.append(
            None if names is None or (not names and not slot.is_list) else names if slot.is_list else names and names[0]
        )
    outs = [tuple(op.outputs.get(slot.name, ())) for slot in record.outputs]
    attrs = op.call_attrs()
    check = GradientCheck(record, attrs) if record.is_grad else None
    if "wanted" in record.needs:
        attrs = {**attrs, "wanted": tuple(any(n != EMPTY for n in names) for names in outs)}
    needs = _BY_EXECUTOR.intersection(record.needs)
    return Call(op, record.forward, ins, outs, op.output_arg_names, attrs, needs, check)


def _look_up(entry: Any, values: Values) -> Any:
    if entry is None:
        return None
    return [values[n] for n in entry] if isinstance(entry, list) else values[entry]


def make_calls(block: Block, keep: Collection[str]) -> list[Call]:
    """All calls of a block in program order; values outside `keep` are freed after their last use."""
    calls = [make_call(op) for op in block.ops]
    seen: set[str] = set(keep)
    for call in reversed(calls):
        touched = [n for n in (*call.op.input_arg_names, *call.op.output_arg_names) if n not in seen]
        call.frees = list(dict.fromkeys(touched))
        seen.update(touched)
    return calls


Extras = Callable[[Call], dict[str, Any]]


def run_call(call: Call, values: Values, extras: Extras) -> Pairs:
    """Run one call on `values`.

    Args:
        extras: gives the keyword arguments the op `needs` (random stream, sub-block runner).

    Returns:
        (name, value) of every output somebody wants.

    Raises:
        InvalidArgument, InvalidType, ExecutionError: the op failed; names op, inputs and the line that built it.
        PreconditionNotMet: an input has no value.
    """
    try:
        arrays = [_look_up(entry, values) for entry in call.ins]
    except KeyError as error:
        raise without_value(call.op, error.args[0]) from None
    try:
        if call.check is not None:
            call.check.require(arrays)
        extra = extras(call) if call.needs else {}
        results = call.forward(numpy_xp, *arrays, **extra, **call.attrs)
    except Exception as error:
        if is_from_outside(error) or (isinstance(error, EnforceNotMet) and error.located):
            raise  # a signal's, or from inside a sub-block: it names its op already
        raise _failure(call, arrays, error) from error
    outputs = _outputs(call, results)
    if not call.op.record.is_view:
        outputs = [(name, _row_major(value)) for name, value in outputs]
    if get_flag("FLAGS_check_nan_inf"):
        _check_finite(call.op, outputs)
    return outputs


def _row_major(value: Any) -> Any:
    """The value as it lies in a planned buffer: the next sum then adds in the same order everywhere.

    NumPy lets results follow the layout of operands such as transposed views.
    """
    is_turned = isinstance(value, np.ndarray) and not value.flags.c_contiguous
    return np.ascontiguousarray(value) if is_turned else value


def without_value(op: Operator, name: str) -> EnforceNotMet:
    """The error for an input that has no value."""
    return uninitialised(name, op.block.find_var(name), "", op.type, op.site)


def _outputs(call: Call, results: Any) -> Pairs:
    if len(call.outs) == 1:
        results = (results,)
    outputs: Pairs = []
    for names, result in zip(call.outs, results, strict=True):
        if names and result is not None:
            parts = result if isinstance(result, list) else [result]
            outputs += [(n, p) for n, p in zip(names, parts, strict=True) if n != EMPTY and p is not None]
    return outputs


def _failure(call: Call, arrays: Sequence[Any], error: Exception) -> EnforceNotMet:
    inputs: list[tuple[str, list[str]]] = []
    for slot, names, value in zip(call.op.record.inputs, call.ins, arrays, strict=True):
        if names is not None:
            listed = names if isinstance(names, list) else [names]
            texts = [f"{n} {_describe(v)}" for n, v in zip(listed, flat([value]), strict=False)]
            inputs.append((slot.name, texts))
    return op_failure(call.op.type, "", inputs, call.op.site, error)


def _describe(value: Any) -> str:
    return str(spec_of(value)) if hasattr(value, "shape") and hasattr(value, "dtype") else type(value).__name__


def _check_finite(op: Operator, outputs: Pairs) -> None:
    for name, value in outputs:
        data = getattr(value, "values", value)
        if isinstance(data, np.ndarray) and data.dtype.kind in "fV" and not np.isfinite(data).all():
            raise not_finite(op.type, "", name, data, op.site)
