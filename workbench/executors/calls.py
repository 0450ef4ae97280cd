"""A block as a flat list of calls: what to run, in order, with nothing left to look up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.config import get_flag
from workbench.errors import (
    EnforceNotMet,
    ExecutionError,
    InvalidArgument,
    InvalidType,
    PreconditionNotMet,
    ShapeError,
)
from workbench.framework.block import Block
from workbench.framework.elementwise import numpy_xp
from workbench.framework.names import EMPTY
from workbench.framework.op import flat
from workbench.framework.operator import Operator
from workbench.framework.spec import spec_of

Values = dict[str, Any]


@dataclass
class Call:
    """One operator, ready to run.

    Attributes:
        ins: per input slot a name, a list of names, or None.
        outs: per output slot the names, () when nobody wants it.
        frees: names whose value is not read after this call.
    """

    op: Operator
    forward: Callable[..., Any]
    ins: list[Any]
    outs: list[tuple[str, ...]]
    attrs: dict[str, Any]
    needs: tuple[str, ...]
    frees: list[str] = field(default_factory=list)

    @property
    def wanted(self) -> tuple[bool, ...]:
        """Which output slots somebody wants."""
        return tuple(any(n != EMPTY for n in names) for names in self.outs)


def make_call(op: Operator) -> Call:
    """The call of an operator."""
    record = op.record
    ins: list[Any] = []
    for slot in record.inputs:
        names = op.inputs.get(slot.name)
        ins.append(None if not names and not slot.is_list else names if slot.is_list else names and names[0])
    outs = [tuple(op.outputs.get(slot.name, ())) for slot in record.outputs]
    attrs = op.call_attrs()
    call = Call(op, record.forward, ins, outs, attrs, record.needs)
    if "wanted" in record.needs:
        attrs["wanted"] = call.wanted
    return call


def make_calls(block: Block, keep: Collection[str]) -> list[Call]:
    """All calls of a block in program order; values outside `keep` are freed after their last use."""
    calls = [make_call(op) for op in block.ops]
    seen: set[str] = set(keep)
    for call in reversed(calls):
        touched = [n for n in (*call.op.input_arg_names, *call.op.output_arg_names) if n not in seen]
        call.frees = list(dict.fromkeys(touched))
        seen.update(touched)
    return calls


Extras = Callable[[Call, Values], dict[str, Any]]


def run_call(call: Call, values: Values, extras: Extras) -> list[tuple[str, Any]]:
    """Run one call on `values`.

    Args:
        extras: gives the keyword arguments the op `needs` (random stream, sub-block runner).

    Returns:
        (name, value) of every output somebody wants.

    Raises:
        InvalidArgument, InvalidType, ExecutionError: the op failed; names op, inputs and the line that built it.
        PreconditionNotMet: an input has no value.
    """
    arrays = [_read(call, names, values) for names in call.ins]
    try:
        more = extras(call, values) if call.needs else {}
        results = call.forward(numpy_xp, *arrays, **more, **call.attrs)
    except EnforceNotMet as error:
        if not isinstance(error, ShapeError) and "\n  at " in str(error):
            raise  # from inside a sub-block: it names its op already
        raise failure(call, arrays, error) from error
    except Exception as error:
        raise failure(call, arrays, error) from error
    outputs = list(_outputs(call, results))
    if get_flag("FLAGS_check_nan_inf"):
        _check_finite(call, outputs)
    return outputs


def _read(call: Call, names: Any, values: Values) -> Any:
    if names is None:
        return None
    if isinstance(names, list):
        return [_read(call, n, values) for n in names]
    try:
        return values[names]
    except KeyError:
        raise uninitialised(call, names) from None


def uninitialised(call: Call, name: str) -> EnforceNotMet:
    """The error for an input that has no value."""
    variable = call.op.block.find_var(name)
    where = f"\n  needed by op {call.op.type!r} at {call.op.site}"
    if variable is not None and variable.is_data:
        return InvalidArgument(f"feed {name!r} is missing: {variable.spec}{where}")
    if variable is not None and variable.persistable:
        what = "parameter" if variable.is_parameter else "persistable variable"
        return PreconditionNotMet(f"{what} {name!r} is not initialised; run the startup program first{where}")
    return PreconditionNotMet(f"variable {name!r} is not initialised: nothing computed before{where} writes it")


def _outputs(call: Call, results: Any) -> Iterable[tuple[str, Any]]:
    if len(call.outs) == 1:
        results = (results,)
    for names, result in zip(call.outs, results, strict=True):
        if not names or result is None:
            continue
        parts = result if isinstance(result, list) else [result]
        yield from ((n, p) for n, p in zip(names, parts, strict=True) if n != EMPTY and p is not None)


def failure(call: Call, arrays: list[Any], error: Exception) -> EnforceNotMet:
    """The exception for an op that failed while it ran."""
    kind: type[EnforceNotMet] = ExecutionError
    if isinstance(error, ValueError | IndexError):
        kind = InvalidType if isinstance(error, TypeError) else InvalidArgument
    lines = [f"op {call.op.type!r} failed: {error or type(error).__name__}"]
    for slot, names, value in zip(call.op.record.inputs, call.ins, arrays, strict=True):
        if names is not None:
            listed = names if isinstance(names, list) else [names]
            texts = [f"{n} {_describe(v)}" for n, v in zip(listed, flat([value]), strict=False)]
            lines.append(f"  input {slot.name}: {'; '.join(texts)}")
    lines.append(f"  at {call.op.site}")
    return kind("\n".join(lines))


def _describe(value: Any) -> str:
    return str(spec_of(value)) if hasattr(value, "shape") and hasattr(value, "dtype") else type(value).__name__


def _check_finite(call: Call, outputs: list[tuple[str, Any]]) -> None:
    for name, value in outputs:
        data = getattr(value, "values", value)
        if not isinstance(data, np.ndarray) or data.dtype.kind not in "fV" or np.isfinite(data).all():
            continue
        nans, total = int(np.isnan(data).sum()), data.size
        infs = int(np.isinf(data).sum())
        raise ExecutionError(
            f"op {call.op.type!r} made {nans} NaN and {infs} Inf among the {total} elements of {name!r}\n"
            f"  found because FLAGS_check_nan_inf is set\n  at {call.op.site}"
        )
