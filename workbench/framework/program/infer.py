"""Running an op's `infer` rule, and the error a user reads when it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from workbench.errors import DtypeError, InvalidArgument, InvalidType, PreconditionNotMet, ShapeError
from workbench.framework.op.record import Op, flat
from workbench.framework.site import Site
from workbench.framework.values.spec import ROWS, Spec, spec_of


class Named(Protocol):
    """What knows values by name (a Block)."""

    def spec(self, name: str) -> Spec:
        """Shape, dtype and kind of a value; NotFound if there is none of that name."""


def infer(
    op: Op, ins: Sequence[Any], attrs: dict[str, Any], names: Sequence[Any], site: Site | None
) -> tuple[Any, ...]:
    """Output specs of `op`, one entry per output slot (a list for list slots).

    Args:
        ins: one entry per input slot: a Spec, a list of Specs or None.
        attrs: complete attributes.
        names: what to call the inputs in an error, in the shape of `ins`.
        site: where the op is built.

    Raises:
        InvalidArgument, InvalidType: naming op, variables, expected, got and the line.
    """
    op = op.form_for(one.kind for one in ins if type(one) is Spec)
    try:
        for slot, spec in zip(op.inputs, ins, strict=True):
            if type(spec) is Spec and spec.kind == ROWS and slot.name not in op.sparse:
                what = "a sparse gradient cannot be used like a tensor; embedding(sparse=False) makes a dense one"
                raise DtypeError(what, "a dense tensor", f"{slot.name} {spec}")
        result = op.infer(*ins, **attrs)
    except ShapeError as error:
        raise build_error(op, ins, names, site, error) from None
    return (result,) if len(op.outputs) == 1 else tuple(result)


def infer_specs(
    op: Op, block: Named, inputs: Mapping[str, list[str]], attrs: dict[str, Any], site: Site | None
) -> tuple[Any, ...]:
    """`infer` for names in a block.

    Raises:
        PreconditionNotMet: a required slot is empty.
    """
    ins, names, inputs = [], [], op.operands(inputs)
    for slot in op.inputs:
        given = inputs.get(slot.name)
        if given is None and not slot.optional:
            raise PreconditionNotMet(f"op {op.type!r} needs its input {slot.name}\n  at {site}")
        entry = [block.spec(name) for name in given] if given is not None else None
        ins.append(entry if slot.is_list or entry is None else entry[0])
        names.append(given)
    return infer(op, ins, attrs, names, site)


class GradientCheck:
    """Asks a backward operator whether it takes what it is about to be given, where no plan has asked before."""

    def __init__(self, op: Op, attrs: dict[str, Any]) -> None:
        self._op, self._attrs = op, attrs
        self._taken: set[Any] = set()

    def require(self, arrays: Sequence[Any]) -> None:
        """Values in slot order, of any shapes; it is asked once for those of the same.

        Raises:
            ShapeError, DtypeError: it does not take them.
        """
        shapes = tuple((array.shape, array.dtype) for array in flat(arrays))
        if shapes in self._taken:
            return
        specs = [[_spec(a) for a in one] if isinstance(one, list) else _spec(one) for one in arrays]
        self._op.infer(*specs, **self._attrs)
        self._taken.add(shapes)


def _spec(value: Any) -> Spec | None:
    return None if value is None else spec_of(value)


def build_error(
    op: Op, ins: Sequence[Any], names: Sequence[Any], site: Site | None, error: ShapeError
) -> InvalidArgument:
    """The exception for inputs an op does not take."""
    lines = [f"op {op.type!r}: {error}"]
    for slot, spec, name in zip(op.inputs, ins, names, strict=True):
        if spec is not None:
            lines.append(f"  input {slot.name}: {_input_text(spec, name)}")
    if site is not None:
        lines.append(f"  at {site}")
    kind = InvalidType if isinstance(error, DtypeError) else InvalidArgument
    refused = kind("\n".join(lines))
    refused.rule = error
    return refused


def _input_text(spec: Any, name: Any) -> str:
    if isinstance(spec, list):
        names = name if name is not None else [""] * len(spec)
        return "; ".join(_input_text(s, n) for s, n in zip(spec, names, strict=True))
    if isinstance(name, list | tuple):
        name = name[0]
    return f"{name} {spec}" if name else str(spec)
