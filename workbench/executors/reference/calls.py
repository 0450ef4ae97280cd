"""A block as a flat list of calls: what to run, in order, with nothing left to look up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from workbench.config import get_flag
from workbench.errors import (
    EnforceNotMet,
    ExecutionError,
    InvalidArgument,
    InvalidType,
    PreconditionNotMet,
    located,
)
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.names import EMPTY
from workbench.framework.op.record import flat
from workbench.framework.outside import is_from_outside
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.values.spec import spec_of

Values = dict[str, Any]
Pairs = list[tuple[str, Any]]
_BY_EXECUTOR = frozenset({"rng", "run_block", "place"})


@dataclass
class Call:
    """One operator, ready to run.

    Attributes:
        read: gives the arguments in slot order from the values; KeyError names the one that is missing.
        ins: per input slot a name, a list of names, or None.
        outs: per output slot the names, () when nobody wants it.
        only: the name of the output if there is one slot with one name, else None.
        written: all names it writes.
        needs: what the executor has to hand over by keyword.
        frees: names whose value is not read after this call.
    """

    op: Operator
    forward: Callable[..., Any]
    read: Callable[[Values], Sequence[Any]]
    ins: list[Any]
    outs: list[tuple[str, ...]]
    only: str | None
    written: list[str]
    attrs: dict[str, Any]
    needs: frozenset[str]
    frees: list[str] = field(default_factory=list)


def make_call(op: Operator) -> Call:
    """The call of an operator."""
    record = op.record
    ins: list[Any] = []
    for slot in record.inputs:
        names = op.inputs.get(slot.name)
        ins.append(None if not names and not slot.is_list else names if slot.is_list else names and names[0])
    outs = [tuple(op.outputs.get(slot.name, ())) for slot in record.outputs]
    alone = len(outs) == 1 and len(outs[0]) == 1 and not record.outputs[0].is_list and outs[0][0] != EMPTY
    only = outs[0][0] if alone else None
    attrs = op.call_attrs()
    if "wanted" in record.needs:
        attrs["wanted"] = tuple(any(n != EMPTY for n in names) for names in outs)
    needs = _BY_EXECUTOR.intersection(record.needs)
    return Call(op, record.forward, _reader(ins), ins, outs, only, op.output_arg_names, attrs, needs)


def _reader(ins: list[Any]) -> Callable[[Values], Sequence[Any]]:
    """A function that gets the arguments of a call; the usual kinds of slots without a loop."""
    if len(ins) == 1 and isinstance(ins[0], str):
        name = ins[0]
        return lambda values: (values[name],)
    if ins and all(isinstance(entry, str) for entry in ins):
        return itemgetter(*ins)
    return lambda values: [_look_up(entry, values) for entry in ins]


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
        arrays = call.read(values)
    except KeyError as error:
        raise uninitialised(call, error.args[0]) from None
    try:
        if call.needs:
            results = call.forward(numpy_xp, *arrays, **extras(call), **call.attrs)
        else:
            results = call.forward(numpy_xp, *arrays, **call.attrs)
    except Exception as error:
        if is_from_outside(error) or (isinstance(error, EnforceNotMet) and error.located):
            raise  # a signal's, or from inside a sub-block: it names its op already
        raise failure(call, arrays, error) from error
    outputs = [(call.only, results)] if call.only is not None and results is not None else _outputs(call, results)
    if not call.op.record.is_view:
        outputs = [(name, _row_major(value)) for name, value in outputs]
    if get_flag("FLAGS_check_nan_inf"):
        _check_finite(call, outputs)
    return outputs


def _row_major(value: Any) -> Any:
    """The value as it lies in a planned buffer: the next sum then adds in the same order everywhere.

    NumPy lets results follow the layout of operands such as transposed views.
    """
    if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        return np.ascontiguousarray(value)
    return value


def uninitialised(call: Call, name: str) -> EnforceNotMet:
    """The error for an input that has no value."""
    variable = call.op.block.find_var(name)
    where = f"\n  needed by op {call.op.type!r} at {call.op.site}"
    if variable is not None and variable.is_data:
        return located(InvalidArgument(f"feed {name!r} is missing: {variable.spec}{where}"))
    if variable is not None and variable.persistable:
        what = "parameter" if variable.is_parameter else "persistable variable"
        return located(PreconditionNotMet(f"{what} {name!r} is not initialised; run the startup program first{where}"))
    return located(PreconditionNotMet(f"variable {name!r} has no value: no op before writes it{where}"))


def _outputs(call: Call, results: Any) -> Pairs:
    if len(call.outs) == 1:
        results = (results,)
    outputs: Pairs = []
    for names, result in zip(call.outs, results, strict=True):
        if names and result is not None:
            parts = result if isinstance(result, list) else [result]
            outputs += [(n, p) for n, p in zip(names, parts, strict=True) if n != EMPTY and p is not None]
    return outputs


def failure(call: Call, arrays: Sequence[Any], error: Exception) -> EnforceNotMet:
    """The exception for an op that failed while it ran."""
    kind: type[EnforceNotMet] = ExecutionError
    if isinstance(error, ValueError | IndexError):
        kind = InvalidType if isinstance(error, TypeError) else InvalidArgument
    lines = [f"op {call.op.type!r} failed: {str(error) or type(error).__name__}"]
    for slot, names, value in zip(call.op.record.inputs, call.ins, arrays, strict=True):
        if names is not None:
            listed = names if isinstance(names, list) else [names]
            texts = [f"{n} {_describe(v)}" for n, v in zip(listed, flat([value]), strict=False)]
            lines.append(f"  input {slot.name}: {'; '.join(texts)}")
    lines.append(f"  at {call.op.site}")
    return located(kind("\n".join(lines)))


def _describe(value: Any) -> str:
    return str(spec_of(value)) if hasattr(value, "shape") and hasattr(value, "dtype") else type(value).__name__


def _check_finite(call: Call, outputs: Pairs) -> None:
    for name, value in outputs:
        data = getattr(value, "values", value)
        if not isinstance(data, np.ndarray) or data.dtype.kind not in "fV" or np.isfinite(data).all():
            continue
        nans, total = int(np.isnan(data).sum()), data.size
        infs = int(np.isinf(data).sum())
        raise located(
            ExecutionError(
                f"op {call.op.type!r} made {nans} NaN and {infs} Inf among the {total} elements of {name!r}\n"
                f"  found because FLAGS_check_nan_inf is set\n  at {call.op.site}"
            )
        )
